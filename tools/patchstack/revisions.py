"""``patches/revisions.toml``: which SGLang releases are supported and what each one is, exactly.

A release is pinned twice. The sha256 of each platform's wheel says which file may be used; the
git tree id of ``sglang/`` says what every one of those files must contain, so that a base commit
is the same whichever wheel it was made from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from patchstack.errors import Exit, ToolError
from patchstack.files import parse_toml

PIN = "pin"


@dataclass(frozen=True)
class PinnedWheel:
    """One platform's wheel of a release.

    Parameters
    ----------
    name
        The file's name.
    sha256
        The file's digest.
    """

    name: str
    sha256: str

    def __post_init__(self) -> None:
        try:
            parse_wheel_filename(self.name)
        except InvalidWheelFilename as error:
            raise ValueError(str(error)) from None
        _require(r"[0-9a-f]{64}", self.sha256, f"sha256 of {self.name}")

    @property
    def platform(self) -> str:
        """The interpreter and platform part of the name, as a message names them."""
        return "-".join(self.name.removesuffix(".whl").split("-")[-3:])

    @property
    def tags(self) -> frozenset[Tag]:
        """What the wheel can be installed on."""
        return parse_wheel_filename(self.name)[3]


@dataclass(frozen=True)
class Revision:
    """One supported release of SGLang.

    Parameters
    ----------
    name
        What the user calls it, ``v0.5.23``; also the folder of its patches.
    version
        The version on the package index.
    date
        The date of the base commit, fixed so that its id is.
    build
        Which build of the patched release this is: the N of ``0.5.23+hiqcache.N``.
    tree
        The git tree id of ``sglang/`` without what the release's build generates.
    wheels
        The release's wheels, at least one.
    note
        What is different with it, for a user.
    """

    name: str
    version: str
    date: datetime
    build: int
    tree: str
    wheels: tuple[PinnedWheel, ...]
    note: str = ""

    def __post_init__(self) -> None:
        _require(r"v[0-9][0-9a-z.]*", self.name, "name")
        _require(r"[0-9][0-9a-z.]*", self.version, "version")
        _require(r"[0-9a-f]{40}", self.tree, "tree")
        if self.date.tzinfo is None:
            raise ValueError("date has no time zone")
        if type(self.build) is not int or self.build < 1:
            raise ValueError("build is not a positive integer")
        if not self.wheels:
            raise ValueError("wheels is empty")
        _require(r".*", self.note, "note")
        for wheel in self.wheels:
            if not wheel.name.startswith(f"sglang-{self.version}-"):
                raise ValueError(f"{wheel.name} is no wheel of version {self.version}")

    @property
    def patched_version(self) -> str:
        """The version of the patched release."""
        return f"{self.version}+hiqcache.{self.build}"

    @classmethod
    def parse(cls, name: str, table: dict[str, Any]) -> Revision:
        """Build a revision from its table in the file."""
        known = {"version", "date", "build", "tree", "wheels"}
        if table.keys() - {"note"} != known:
            raise ValueError(f"has {sorted(table)}, wants {sorted(known)}")
        if not isinstance(table["date"], datetime) or not isinstance(table["wheels"], dict):
            raise ValueError("date is not a date, or wheels is not a table")
        wheels = tuple(PinnedWheel(*item) for item in sorted(table["wheels"].items()))
        return cls(name=name, **{**table, "wheels": wheels})


@dataclass(frozen=True)
class Revisions:
    """Every supported release, and the ones that a user may ask for in vain.

    Parameters
    ----------
    pin
        The name of the one that ``--rev pin`` means.
    supported
        The releases, in the order of the file.
    refused
        Releases that the series cannot be carried to, each with the reason.
    """

    pin: str
    supported: tuple[Revision, ...]
    refused: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.pin not in self.names:
            raise ValueError(f"pin {self.pin!r} is none of the revisions")
        for name, why in self.refused:
            if name in self.names:
                raise ValueError(f"{name} is both supported and refused")
            _require(r"v[0-9][0-9a-z.]*", name, "refused name")
            _require(r"\S.*", why, f"reason against {name}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the supported releases."""
        return tuple(revision.name for revision in self.supported)

    @property
    def in_order(self) -> tuple[Revision, ...]:
        """The supported releases, the oldest first."""
        return tuple(sorted(self.supported, key=lambda revision: Version(revision.version)))

    def get(self, name: str) -> Revision:
        """Return the release called ``name``: ``pin``, ``v0.5.23`` or ``0.5.23``."""
        if name[:1].isdigit():
            name = f"v{name}"
        wanted = self.pin if name == PIN else name
        for revision in self.supported:
            if revision.name == wanted:
                return revision
        choose = f"choose one of {', '.join([PIN, *self.names])}"
        if name in (refused := dict(self.refused)):
            raise ToolError(f"{name} is not supported: {refused[name]}", choose, Exit.USAGE)
        raise ToolError(f"unknown revision {name!r}", choose, Exit.USAGE)


def load_revisions(path: Path) -> Revisions:
    """Read and check the file.

    Parameters
    ----------
    path
        ``patches/revisions.toml``.
    """
    try:
        table = parse_toml(path.read_text("utf-8"))
        named = table["revisions"].items()
        refused = tuple(table.get("refused", {}).items())
        return Revisions(table["pin"], tuple(Revision.parse(*item) for item in named), refused)
    except (OSError, UnicodeDecodeError, KeyError, AttributeError, TypeError, ValueError) as error:
        raise ToolError(
            f"{path} cannot be used: {type(error).__name__}: {error}",
            "restore it with git checkout",
            Exit.UPSTREAM,
        ) from None


def _require(pattern: str, value: object, what: str) -> None:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise ValueError(f"{what} is {value!r}")
