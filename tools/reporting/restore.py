"""Restoring a prefix against computing it, as tools/experiment.py measures it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from evidence.record import NO_L2
from reporting.loading import load
from reporting.spread import Difference

SCHEMA, KIND = 2, "restore"


@dataclass(frozen=True)
class Row:
    """A prefix length with one configuration.

    Parameters
    ----------
    configuration
        ``none``, ``raw`` or a codec's name.
    prefix_tokens
        Its length.
    ttft_s
        Seconds to the first token when the prefix was in the L2, for each repeat.
    cold_ttft_s
        The same before anything was in a cache.
    phases
        Seconds that its restore took to move bytes, and to decode and scatter them, for each
        repeat; None where the server does not count that.
    bytes
        Of the prefix in the L2.
    """

    configuration: str
    prefix_tokens: int
    ttft_s: tuple[float, ...]
    cold_ttft_s: tuple[float, ...] = ()
    phases: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.prefix_tokens < 1 or not self.ttft_s:
            raise ValueError(f"a row of {self.configuration} has no prefix or no repeat")
        if min(self.ttft_s + self.cold_ttft_s) < 0:
            raise ValueError(f"a row of {self.configuration} has a time below zero")

    def phase(self, name: str) -> float | None:
        """Return the median of a phase over the repeats, if it was counted."""
        found = [seconds for seconds in self.phases.get(name, ()) if seconds is not None]
        return median(found) if found else None

    @property
    def gained(self) -> Difference | None:
        """Seconds of computing less those of restoring, if both were measured in pairs."""
        if not self.cold_ttft_s or len(self.ttft_s) != len(self.cold_ttft_s):
            return None
        return Difference.between(self.cold_ttft_s, self.ttft_s)


@dataclass(frozen=True)
class Restore:
    """A measurement of all prefix lengths and configurations."""

    model: str
    rows: tuple[Row, ...]
    provenance: dict[str, Any]
    schema: int
    kind: str

    def __post_init__(self) -> None:
        if (self.schema, self.kind) != (SCHEMA, KIND):
            raise ValueError(f"it is of kind {self.kind}, schema {self.schema}")
        if not self.rows:
            raise ValueError("it has no rows")
        if len({(row.configuration, row.prefix_tokens) for row in self.rows}) < len(self.rows):
            raise ValueError("it has a configuration and length twice")

    @property
    def restored(self) -> tuple[Row, ...]:
        """Rows with an L2, which restored what they had."""
        return tuple(row for row in self.rows if row.configuration != NO_L2)

    @property
    def cold(self) -> dict[int, list[float]]:
        """Seconds to compute a prefix, by its length, whatever the configuration.

        Without an L2, what is asked again is computed again.
        """
        found: dict[int, list[float]] = {}
        for row in self.rows:
            seconds = row.cold_ttft_s
            if row.configuration == NO_L2:
                seconds = seconds + row.ttft_s
            if seconds:
                found.setdefault(row.prefix_tokens, []).extend(seconds)
        return found


def load_restore(file: Path) -> Restore:
    """Read a measurement.

    Raises
    ------
    ToolError
        If it is another file.
    """
    return load(Restore, file, f"a measurement of restores of schema {SCHEMA}")
