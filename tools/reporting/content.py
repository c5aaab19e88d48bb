"""What a page says, before it is HTML or Markdown: sections of blocks, in plain text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Heading:
    """A heading below that of a section."""

    words: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    words: str


@dataclass(frozen=True)
class Command:
    """A line for a shell."""

    line: str


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows that start with their name.

    Parameters
    ----------
    header
        Names of the columns, the first being that of the rows' names.
    rows
        As wide as the header.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.header) for row in self.rows):
            raise ValueError("a row is not as wide as the header")


@dataclass(frozen=True)
class Plot:
    """A drawing.

    Parameters
    ----------
    name
        Of its file, without an end; each of a page has its own.
    caption
        What it shows, for those too who do not see it.
    figure
        The drawing.
    """

    name: str
    caption: str
    figure: Figure


Block: TypeAlias = Heading | Text | Command | Bullets | Table | Plot


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A page."""

    title: str
    sections: tuple[Section, ...]

    @property
    def plots(self) -> tuple[Plot, ...]:
        """All drawings."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(block for block in blocks if isinstance(block, Plot))
