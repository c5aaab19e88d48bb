"""What a check finds: a place, the rule that it breaks, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """One thing that is not as it should be.

    Parameters
    ----------
    path
        The file, from the project's root.
    line
        The line, counted from 1.
    rule
        The rule in a word.
    what
        What is wrong, in one line.
    """

    path: str
    line: int
    rule: str
    what: str

    def __post_init__(self) -> None:
        if self.line < 1:
            raise ValueError(f"line {self.line} of {self.path}")
        object.__setattr__(self, "what", " ".join(self.what.split()))

    def __str__(self) -> str:
        """Return the finding as editors and CI systems read it."""
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


def first_difference(found: Sequence[object], wanted: Sequence[object]) -> int:
    """Return the first line of ``found`` that is not as ``wanted``, or the last line that is."""
    for number, pair in enumerate(zip(found, wanted, strict=False), 1):
        if pair[0] != pair[1]:
            return number
    return max(1, min(len(found), len(wanted)))
