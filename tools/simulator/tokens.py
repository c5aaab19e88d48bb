"""A sequence of tokens as a few runs, so that a million tokens cost as much as ten.

A run is a stretch of tokens that no other run begins with: a group's prefix, a request's question,
its answer.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

#: A run and the part of it that is meant.
Piece = tuple[Hashable, int, int]


@dataclass(frozen=True, slots=True)
class Tokens:
    """A sequence of tokens.

    Parameters
    ----------
    pieces
        Parts of runs, none of them empty.
    """

    pieces: tuple[Piece, ...]

    def __len__(self) -> int:
        return sum(stop - start for _, start, stop in self.pieces)

    def cut(self, start: int, stop: int | None = None) -> Tokens:
        """The tokens from ``start`` to before ``stop``, which may be past the end."""
        kept: list[Piece] = []
        at = 0
        for run, first, last in self.pieces:
            begin = max(first, first + start - at)
            end = last if stop is None else min(last, first + stop - at)
            if begin < end:
                kept.append((run, begin, end))
            at += last - first
        return Tokens(tuple(kept))

    def common(self, other: Tokens) -> int:
        """How many tokens both begin with."""
        found = 0
        mine, theirs = list(self.pieces[::-1]), list(other.pieces[::-1])
        while mine and theirs:
            (run, first, last), (run2, first2, last2) = mine.pop(), theirs.pop()
            if (run, first) != (run2, first2):
                break
            length = min(last - first, last2 - first2)
            found += length
            if first + length < last:
                mine.append((run, first + length, last))
            if first2 + length < last2:
                theirs.append((run2, first2 + length, last2))
        return found


def run_of(name: Hashable, length: int) -> Tokens:
    """A whole run."""
    return Tokens(((name, 0, length),) if length else ())


def joined(*parts: Tokens) -> Tokens:
    """Sequences one after the other."""
    return Tokens(tuple(piece for part in parts for piece in part.pieces))
