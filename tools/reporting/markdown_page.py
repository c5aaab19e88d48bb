"""A page as Markdown, with its drawings as files in a folder beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from reporting.content import Block, Bullets, Command, Document, Heading, Plot, Table, Text

_SPECIAL = re.compile(r"([\\`*_\[\]<|~&$])")
#: What would make a paragraph a list, a quotation or a heading.
_LEADING = re.compile(r"^([-+=#>]|\d+(?=[.)]\s))")


def to_markdown(document: Document, folder: str) -> str:
    """Return the page.

    Parameters
    ----------
    document
        What it says.
    folder
        Where the drawings are, from the page.
    """

    def plot(block: Plot) -> str:
        place = f"{quote(os.fsencode(folder))}/{block.name}.svg"
        return f"![{_escape(block.caption)}]({place})\n\n{_paragraph(block.caption)}"

    writers: dict[type[Block], Callable[[Any], str]] = {**_WRITERS, Plot: plot}
    parts = [f"# {_escape(document.title)}", "Written by `tools/report.py`; not edited by hand."]
    for section in document.sections:
        parts.append(f"## {_escape(section.title)}")
        parts += [writers[type(block)](block) for block in section.blocks]
    return "\n\n".join(parts)


def _escape(words: str) -> str:
    """Write a cell or a heading that has none of Markdown's signs."""
    return _SPECIAL.sub(r"\\\1", words)


def _paragraph(words: str) -> str:
    """Write a paragraph that is not taken for something else."""
    return _LEADING.sub(_led, _escape(words.lstrip()))


def _led(found: re.Match[str]) -> str:
    """Put a backslash before a sign, and behind a number, which cannot have one before it."""
    return f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}"


def _table(table: Table) -> str:
    aligned = (":---", *["---:"] * (len(table.header) - 1))
    lines = [tuple(map(_escape, line)) for line in (table.header, *table.rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], aligned, *lines[1:]))


_WRITERS: Mapping[type[Block], Callable[[Any], str]] = {
    Heading: lambda block: f"### {_escape(block.words)}",
    Text: lambda block: _paragraph(block.words),
    Command: lambda block: f"    {block.line}",
    Bullets: lambda block: "\n".join(f"- {_paragraph(item)}" for item in block.items),
    Table: _table,
}
