"""Where a tool's result goes: a table on standard output, JSON in its place or in a file."""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from patchstack.errors import Exit, ToolError

_STANDARD_OUTPUT = Path("-")


def add_json_option(options: ArgumentParser) -> None:
    """Add ``--json`` to a command line's parser."""
    told = "print the result as JSON, or write it to FILE beside the table"
    options.add_argument(
        "--json", type=Path, nargs="?", const=_STANDARD_OUTPUT, metavar="FILE", help=told
    )


def refuse_unwritable(option: str, file: Path | None) -> None:
    """Refuse an output file that could not be written, before the minutes that fill it."""
    if file and not file.absolute().parent.is_dir():
        raise ToolError(f"{option} {file}: no such folder", f"mkdir -p {file.parent}", Exit.USAGE)


def deliver(print_table: Callable[[], None], text: str, file: Path | None) -> None:
    """Print the table, the JSON, or write the one and print the other.

    Parameters
    ----------
    print_table
        Prints the table.
    text
        The result as JSON.
    file
        What was given as ``--json``.
    """
    if file == _STANDARD_OUTPUT:
        print(text)
        return
    print_table()
    if file:
        write_file(file, text)


def write_file(file: Path, text: str) -> None:
    """Write a file that is either whole or not there."""
    descriptor, scratch = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.absolute().parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
        Path(scratch).replace(file)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
