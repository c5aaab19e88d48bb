"""A mail patch as numbered lines, each with the part that it plays.

Git reads a patch leniently: it skips what it does not understand and stops where a hunk is full.
A linter needs the opposite, so every line has one role here, and one that no part of a patch
explains is `Role.STRAY`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto


class Role(Enum):
    """What a line of a mail patch is."""

    HEADER = auto()
    MESSAGE = auto()
    FILE = auto()  # diff --git a/x b/x
    META = auto()  # what follows it: index, modes, ---, +++
    HUNK = auto()
    CONTEXT = auto()
    ADDED = auto()
    REMOVED = auto()
    NO_NEWLINE = auto()
    BINARY = auto()
    STRAY = auto()


_FILE = b"diff --git "
_META = re.compile(
    rb"index |--- |\+\+\+ |(old|new|new file|deleted file) mode "
    rb"|similarity index |dissimilarity index |(rename|copy) (from|to) "
)
_BINARY = (b"GIT binary patch", b"Binary files ")
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_BODY = {b" ": Role.CONTEXT, b"+": Role.ADDED, b"-": Role.REMOVED}


@dataclass(frozen=True)
class Line:
    """One line.

    Parameters
    ----------
    number
        Its number, from 1.
    role
        What it is.
    text
        Its bytes without the line feed.
    """

    number: int
    role: Role
    text: bytes


def read_lines(data: bytes) -> tuple[Line, ...]:
    """Return the lines of a mail patch."""
    texts = data.split(b"\n")
    if texts[-1] == b"":
        texts.pop()
    reader = _Reader()
    return tuple(Line(number, reader.role(text), text) for number, text in enumerate(texts, 1))


class _Reader:
    """Where in a patch we are."""

    def __init__(self) -> None:
        self._part = Role.HEADER
        self._old = self._new = 0  # lines that the hunk still has to have

    def role(self, text: bytes) -> Role:
        """Return the role of the next line."""
        if self._old or self._new:
            return self._in_hunk(text)
        if text.startswith(_FILE) and self._part is not Role.HEADER:
            self._part = Role.FILE
            return Role.FILE
        if self._part is Role.HEADER:
            if not text.strip():
                self._part = Role.MESSAGE
            return Role.HEADER
        if self._part is Role.MESSAGE:
            return Role.MESSAGE
        return self._in_diff(text)

    def _in_diff(self, text: bytes) -> Role:
        if self._part is Role.BINARY or text.startswith(_BINARY):
            self._part = Role.BINARY
            return Role.BINARY
        if match := _HUNK.match(text):
            self._old, self._new = (int(count or 1) for count in match.groups())
            self._part = Role.HUNK
            return Role.HUNK
        if self._part is Role.HUNK and text.startswith(b"\\ "):
            return Role.NO_NEWLINE
        if self._part is Role.FILE and _META.match(text):
            return Role.META
        return Role.STRAY

    def _in_hunk(self, text: bytes) -> Role:
        if text.startswith(b"\\ "):
            return Role.NO_NEWLINE
        role = _BODY.get(text[:1], Role.STRAY)
        old, new = role in (Role.CONTEXT, Role.REMOVED), role in (Role.CONTEXT, Role.ADDED)
        if role is Role.STRAY or self._old < old or self._new < new:
            self._old = self._new = 0
            return Role.STRAY
        self._old -= old
        self._new -= new
        return role
