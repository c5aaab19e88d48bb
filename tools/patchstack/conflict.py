"""A file with conflict markers, taken apart: what both sides agree on, and each disagreement.

Git's markers are plain lines, so a file that holds such lines itself cannot be taken apart with
certainty. `parse_conflict` answers None for it, and nothing is recorded about it or done to it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

_OURS, _BASE, _THEIRS, _END = b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>"
MARKERS = (_OURS, _BASE, _THEIRS, _END)


@dataclass(frozen=True)
class Hunk:
    """One disagreement.

    Parameters
    ----------
    ours, base, theirs
        The lines as the new release, the old release and the patch have them.
    """

    ours: bytes
    base: bytes
    theirs: bytes


@dataclass(frozen=True)
class ConflictText:
    """A file with conflicts.

    Parameters
    ----------
    agreed
        The text around the hunks, one piece more than there are hunks.
    hunks
        The disagreements, in order.
    """

    agreed: tuple[bytes, ...]
    hunks: tuple[Hunk, ...]

    def __post_init__(self) -> None:
        if not self.hunks or len(self.agreed) != len(self.hunks) + 1:
            raise ValueError("a conflict has hunks, and text around each")

    def resolve(self, resolved: tuple[bytes, ...]) -> bytes:
        """Return the file with ``resolved`` in place of the hunks."""
        parts = [self.agreed[0]]
        for text, after in zip(resolved, self.agreed[1:], strict=True):
            parts += [text, after]
        return b"".join(parts)

    def split(self, resolved: bytes) -> tuple[bytes, ...] | None:
        """Return what took the place of each hunk in ``resolved``.

        None where that cannot be told: something else changed too, or the text between two hunks
        is not found once.
        """
        first, *between, last = self.agreed
        fits = resolved.startswith(first) and resolved.endswith(last)
        if not fits or len(resolved) < len(first) + len(last):
            return None
        rest = resolved[len(first) : len(resolved) - len(last)]
        texts = []
        for separator in between:
            if rest.count(separator) != 1:
                return None
            text, rest = rest.split(separator, 1)
            texts.append(text)
        return (*texts, rest)


def conflict_key(path: str, hunks: tuple[Hunk, ...]) -> str:
    """Return the identity of a conflict: the path and the hunks, without labels and places."""
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape"))
    for hunk in hunks:
        for side in (hunk.ours, hunk.base, hunk.theirs):
            digest.update(b"\0%d\0" % len(side) + side)
    return digest.hexdigest()


def has_markers(data: bytes) -> bool:
    """Return whether a conflict was left in a file."""
    return any(_is_marker(line, kind) for line in data.splitlines() for kind in (_OURS, _END))


def parse_conflict(data: bytes) -> ConflictText | None:
    """Take a file apart that git wrote with ``merge.conflictStyle=diff3``."""
    agreed: list[bytes] = []
    hunks: list[Hunk] = []
    parts: list[list[bytes]] = [[]]  # the text before a hunk, or its sides so far
    for line in data.splitlines(keepends=True):
        kind = next((n for n, marker in enumerate(MARKERS) if _is_marker(line, marker)), None)
        if kind is None:
            parts[-1].append(line)
        elif kind != len(parts) - 1:
            return None
        elif kind == len(MARKERS) - 1:
            before, *sides = (b"".join(part) for part in parts)
            agreed.append(before)
            hunks.append(Hunk(*sides))
            parts = [[]]
        else:
            parts.append([])
    if len(parts) != 1 or not hunks:
        return None
    return ConflictText((*agreed, b"".join(parts[0])), tuple(hunks))


def _is_marker(line: bytes, marker: bytes) -> bool:
    rest = line.rstrip(b"\r\n")
    if marker == _THEIRS:
        return rest == marker
    return rest == marker or rest.startswith(marker + b" ")
