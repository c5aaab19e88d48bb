"""Where a tool's result goes: a table on standard output, JSON in its place or in a file."""

from __future__ import annotations

import os
import stat
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
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
    if not file or file == _STANDARD_OUTPUT:
        return
    folder = file.absolute().parent
    if file.is_dir():
        raise ToolError(f"{option} {file} is a folder", "name a file in it", Exit.USAGE)
    if not folder.is_dir():
        raise ToolError(f"{option} {file}: no such folder", f"mkdir -p {file.parent}", Exit.USAGE)
    if not os.access(file if _is_special(file) else folder, os.W_OK):
        hint = "get the right to it, or name another place"
        raise ToolError(f"{option} {file} cannot be written", hint, Exit.USAGE)


def refuse_overwriting(outputs: Mapping[str, Path | None], inputs: Iterable[Path]) -> None:
    """Refuse an output that is an input, or another output.

    Parameters
    ----------
    outputs
        By option.
    inputs
        Files that are read.
    """
    taken = {file.resolve(): "read" for file in inputs}
    for option, file in outputs.items():
        if file is None or file == _STANDARD_OUTPUT or _is_special(file):
            continue
        place = file.resolve()
        if place in taken:
            what = f"{option} {file} is a file that is {taken[place]}"
            raise ToolError(what, "name another file", Exit.USAGE)
        taken[place] = f"written by {option}"


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
    if file:  # first: whoever reads the table may have seen enough
        write_file(file, text)
    print_table()


def write_file(file: Path, text: str) -> None:
    """Write a text as :func:`write_bytes` does, with a line's end."""
    write_bytes(file, (text + "\n").encode())


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file that is either whole or not there; a pipe or a device is written to.

    A link is followed. A file that was there keeps its mode.
    """
    if _is_special(file):
        file.write_bytes(content)
        return
    target = file.resolve()
    try:
        descriptor, scratch = tempfile.mkstemp(prefix=".hiqcache-", dir=target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(scratch).chmod(_mode(target))
        Path(scratch).replace(target)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def _is_special(file: Path) -> bool:
    """Whether it is a pipe or a device, which is never replaced by a file."""
    return file.exists() and not file.is_file()


def _mode(file: Path) -> int:
    """Permissions that ``open`` would leave."""
    if file.exists():
        return stat.S_IMODE(file.stat().st_mode)
    os.umask(mask := os.umask(0))
    return 0o666 & ~mask
