"""How conflicts were resolved, used again when the same one returns.

One readable file per conflicting file of a patch. It holds the conflict itself, so its key can be
computed again: a resolution is used only where path and every line of all sides are the same.
The user's own ``rerere`` takes no part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from patchstack.conflict import Hunk, conflict_key
from patchstack.files import parse_toml

_HEADER = """\
# How a conflict was resolved: `ours` is the new release, `base` the old one, `theirs` the patch.
# Written by tools/rebase.py, which puts `resolved` there when the same conflict returns.
"""
_SIDES = ("ours", "base", "theirs")
_CONTROL = r"[\\\x00-\x08\x0b-\x1f\x7f]"
_IN_A_LINE = re.compile(rf'{_CONTROL}|"')
_IN_LINES = re.compile(rf'{_CONTROL}|"(?="")|"\Z')


@dataclass(frozen=True)
class Resolution:
    """How one file's conflict was resolved.

    Parameters
    ----------
    path
        The file.
    slug
        The patch.
    origin, target
        The names of the releases between which it was moved.
    hunks
        The conflict.
    resolved
        What takes the place of each hunk.
    """

    path: str
    slug: str
    origin: str
    target: str
    hunks: tuple[Hunk, ...]
    resolved: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not self.hunks or len(self.hunks) != len(self.resolved):
            raise ValueError("not one resolution for each hunk")

    @property
    def key(self) -> str:
        """The identity of the conflict."""
        return conflict_key(self.path, self.hunks)

    @property
    def name(self) -> str:
        """The name of the file that keeps it."""
        return f"{self.slug}-{self.key[:12]}.toml"

    def to_bytes(self) -> bytes:
        """Return the content of the file; ValueError for what is not text."""
        lines = [_HEADER, f'key = "{self.key}"']
        fields = (("path", self.path), ("slug", self.slug))
        lines += [f"{key} = {_string(value)}" for key, value in fields]
        lines += [f'from = "{self.origin}"', f'to = "{self.target}"']
        for hunk, resolved in zip(self.hunks, self.resolved, strict=True):
            lines.append("\n[[hunks]]")
            for key in _SIDES:
                lines.append(f"{key} = {_string(getattr(hunk, key).decode())}")
            lines.append(f"resolved = {_string(resolved.decode())}")
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes) -> Resolution:
        """Read the content of a file; ValueError or KeyError for one that cannot be right."""
        table = parse_toml(data.decode())
        hunks = tuple(Hunk(*(_bytes(hunk[key]) for key in _SIDES)) for hunk in table["hunks"])
        resolved = tuple(_bytes(hunk["resolved"]) for hunk in table["hunks"])
        path, slug, origin, target = (table[key] for key in ("path", "slug", "from", "to"))
        made = cls(path, slug, origin, target, hunks, resolved)
        if table["key"] != made.key:
            raise ValueError(f"its conflict has the key {made.key}")
        return made


def _string(text: str) -> str:
    """Return a TOML string that reads well: lines as they are, and no more escaped than must be."""
    if "\n" not in text:
        return f'"{_IN_A_LINE.sub(lambda match: _escape(match[0]), text)}"'
    escaped = _IN_LINES.sub(lambda match: _escape(match[0]), text)
    return f'"""\n{escaped}"""'


def _escape(character: str) -> str:
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04x}"


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value.encode()
