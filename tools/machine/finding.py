"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check ended."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Parameters
    ----------
    check : str
        What was looked at.
    status : Status
        How it ended.
    said : str
        What was found, or why nothing was looked for.
    next_step : str
        What the user should do; empty where nothing is to be done.
    """

    check: str
    status: Status
    said: str
    next_step: str = ""

    def line(self) -> str:
        """Return the line, whatever line breaks the parts came with."""
        said = f"({self.said})" if self.status is Status.SKIP else self.said
        told = "; ".join(filter(None, (said, self.next_step)))
        return f"{self.status}  {self.check:<13} {' '.join(told.split())}"


def passed(check: str, said: str) -> Finding:
    """Return a check that found nothing wrong."""
    return Finding(check, Status.PASS, said)


def failed(check: str, said: str, next_step: str) -> Finding:
    """Return a check that found something wrong."""
    return Finding(check, Status.FAIL, said, next_step)


def skipped(check: str, why: str, next_step: str = "") -> Finding:
    """Return a check that could not be made here."""
    return Finding(check, Status.SKIP, why, next_step)
