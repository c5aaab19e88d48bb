"""The figures of the system that this one follows, for the same question on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from evidence.record import NO_L2, RAW
from reporting.content import Section, Table, Text
from reporting.measures import HIT_RATE, NOTHING
from reporting.runs import Case, Results

#: Where they were measured.
WHERE = "Qwen3-8B on an NVIDIA A6000"


@dataclass(frozen=True)
class Reference:
    """A hit rate in per cent, and the least and the largest of its repeats, if there were any."""

    hit_rate: float
    repeats: tuple[float, float] | None = None

    @property
    def text(self) -> str:
        """The figure as it is printed."""
        if not self.repeats:
            return f"{self.hit_rate}"
        low, high = self.repeats
        return f"{self.hit_rate} (repeats {low} to {high})"


#: By configuration; both L2s had the same bytes.
SEED = {
    NO_L2: Reference(12.2),
    RAW: Reference(56.1, (56.8, 57.6)),
    "int8": Reference(72.7, (72.7, 73.4)),
}


def beside_ours(results: Results) -> Section:
    """Return the section that shows our hit rates beside these."""
    cases = [case for case in results.cases if all(map(case.named, SEED))]
    rows = [("reference", *(reference.text for reference in SEED.values()))]
    rows += [(case.title, *(_ours(case, name) for name in SEED)) for case in cases]
    words = (
        f"The reference is the system that HiQCache follows, with {WHERE}; its raw and its INT8 L2 "
        "had the same bytes. Its repeats were apart from the run whose figure stands first. Model, "
        "machine and workload are others here, so that only the order and the rough size of the "
        "steps can be compared. The lengths of its questions are not "
        "known: of 32, 64 and 112 tokens that were simulated, the default scale has the 32 that "
        "came nearest to it, so how near the figures are confirms nothing by itself."
    )
    table = Table(("hit rate, %", *SEED), tuple(rows))
    return Section("Beside the reference", (Text(words), table))


def _ours(case: Case, name: str) -> str:
    one = case.named(name)
    return HIT_RATE.spread(list(one.values(HIT_RATE.of).values())) if one else NOTHING
