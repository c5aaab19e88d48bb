"""The patches of one revision, read from ``patches/<revision>/``, and what their names mean."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import Exit, ToolError

SERIES = "series"
_FORM = "NNNN-slug.patch in lower case"
_NAME = re.compile(r"[0-9]{4}-([a-z0-9]+(?:-[a-z0-9]+)*)\.patch")


@dataclass(frozen=True)
class PatchFile:
    """One patch file.

    Parameters
    ----------
    name
        Its name, ``NNNN-slug.patch``.
    data
        Its bytes.
    """

    name: str
    data: bytes

    def __post_init__(self) -> None:
        if not is_patch_name(self.name):
            raise ValueError(f"{self.name!r} is not {_FORM}")

    @property
    def slug(self) -> str:
        """What the patch is called whatever its number: its identity."""
        match = _NAME.fullmatch(self.name)
        assert match is not None
        return match[1]

    @property
    def sha256(self) -> str:
        """The digest of the file."""
        return hashlib.sha256(self.data).hexdigest()


def patch_name(number: int, slug: str) -> str:
    """Return the file name of the patch that comes ``number``-th, counted from 1."""
    return f"{number:04d}-{slug}.patch"


def is_patch_name(name: str) -> bool:
    """Return whether a patch file may be called ``name``."""
    return bool(_NAME.fullmatch(name))


def has_series(folder: Path) -> bool:
    """Return whether a revision has patches at all; a new one starts without a folder."""
    return folder.is_dir() and any(folder.iterdir())


def read_series(folder: Path) -> tuple[PatchFile, ...]:
    """Read the patches in order, and refuse a folder that disagrees with its ``series``."""
    listing = folder / SERIES
    if not listing.is_file():
        raise _broken(folder, f"{SERIES} is missing")
    names = [entry.name for entry in entries(listing.read_text("utf-8", "replace"))]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _broken(folder, f"{SERIES} names {twice[0]} twice")
    patches = tuple(_read_patch(folder, name) for name in names)
    extra = sorted({path.name for path in folder.glob("*.patch")} - set(names))
    if extra:
        raise _broken(folder, f"{extra[0]} is not in {SERIES}")
    return patches


@dataclass(frozen=True)
class Entry:
    """A line of ``series`` that names a patch.

    Parameters
    ----------
    line
        Its number, from 1.
    name
        What it names.
    """

    line: int
    name: str


def entries(text: str) -> list[Entry]:
    """Return what a ``series`` names; ``#`` starts a comment."""
    names = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [Entry(number, name) for number, name in enumerate(names, 1) if name]


def _read_patch(folder: Path, name: str) -> PatchFile:
    if not is_patch_name(name):
        raise _broken(folder, f"{SERIES} names {name!r}, which is not {_FORM}")
    try:
        return PatchFile(name, (folder / name).read_bytes())
    except FileNotFoundError:
        raise _broken(folder, f"{SERIES} names {name}, which is missing") from None


def _broken(folder: Path, what: str) -> ToolError:
    return ToolError(
        f"patches/{folder.name}: {what}",
        f"restore it with git checkout, or run tools/export.py --rev {folder.name}",
        Exit.UPSTREAM,
    )
