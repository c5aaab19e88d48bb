"""What the workloads of an experiment differ in, which is what tells its cases apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evidence.record import Workload


@dataclass(frozen=True)
class Varied:
    """One number of a workload.

    Parameters
    ----------
    field
        Its name there.
    axis
        What an axis of it is called, with the unit.
    words
        Says one value.
    """

    field: str
    axis: str
    words: str

    def of(self, workload: Workload) -> int:
        """Return the number."""
        return int(getattr(workload, self.field))

    def said(self, workload: Workload) -> str:
        """Return the number in words."""
        return self.words.format(self.of(workload))


WORKING_SET = Varied("working_set_tokens", "working set, tokens", "working set {:,} tokens")
PREFIX = Varied("prefix_tokens", "prefix, tokens", "prefixes of {:,} tokens")
CONCURRENCY = Varied("concurrency", "concurrency, requests", "{:,} requests at a time")
_OTHERS = (
    PREFIX,
    CONCURRENCY,
    Varied("output_tokens", "answer, tokens", "answers of {:,} tokens"),
)


def varied(workloads: Iterable[Workload]) -> Varied:
    """Return what differs, or the working set where it is that, nothing or something else."""
    found = list(workloads)
    return next((one for one in _OTHERS if len(set(map(one.of, found))) > 1), WORKING_SET)
