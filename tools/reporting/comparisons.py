"""The results of each experiment, and which differences its repeats tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence.record import NO_L2, RAW
from reporting.content import Block, Heading, Plot, Section, Table, Text
from reporting.hit_plot import draw_hits, names_of
from reporting.measures import FIRST_TOKEN, HIT_RATE, JUDGED, NOTHING, POOL, Measure
from reporting.runs import Case, Configuration, Results
from reporting.spread import CONFIDENCE, Difference
from reporting.ttft_plot import draw_first_tokens
from serving.l2 import SELECTIVE, WRITE_BACK, WRITE_THROUGH

#: What the page says first.
IN_SHORT = (HIT_RATE, FIRST_TOKEN)
_METHOD = (
    f"Mean differences between runs of the same repeat, with the {CONFIDENCE} % interval over the "
    "repeats (Student's). Where that holds zero, the two are not told apart and nothing is "
    "claimed. Of two that are equal, one interval in twenty excludes zero."
)
_NOT_REPEATED = "There is one repeat, which tells no two of them apart."
#: What is said of a sweep's workloads.
_SWEPT = (HIT_RATE, FIRST_TOKEN)
_POLICIES = {
    WRITE_THROUGH: "SGLang copies to L2 what it has computed, and L1 gives it up without a wait: "
    "what is in L1 is in L2 as well.",
    SELECTIVE: "SGLang copies to L2 what is used a second time; what is not is lost with L1.",
    WRITE_BACK: "SGLang copies to L2 what L1 gives up, which waits for that. When L2 is full, what "
    "L1 holds too is the first to go, so that a small L2 keeps more of the rest than with "
    "write_through; one that holds all prefixes anyway gains nothing.",
}


@dataclass(frozen=True)
class Pairing:
    """A configuration, and the one that it is compared with."""

    one: Configuration
    other: Configuration

    @property
    def title(self) -> str:
        """Name it as the subtraction that it is."""
        return f"{self.one.name} - {self.other.name}"

    @property
    def is_repeated(self) -> bool:
        """False if there is but one pair of runs to compare."""
        found = self.difference(HIT_RATE)
        return found is None or found.pairs > 1

    def difference(self, measure: Measure) -> Difference | None:
        """Return the difference over the repeats that both have, if there is one."""
        ones, others = self.one.values(measure.of), self.other.values(measure.of)
        shared = sorted(ones.keys() & others.keys())
        if not shared:
            return None
        return Difference.between([ones[at] for at in shared], [others[at] for at in shared])


def pairings(case: Case) -> Iterator[Pairing]:
    """Compare raw with no L2, and every codec with raw."""
    for one in case.configurations:
        base = NO_L2 if one.setup.configuration == RAW else RAW
        for other in case.configurations:
            if one.setup.configuration != NO_L2 and other.setup.configuration == base:
                yield Pairing(one, other)


def in_short(results: Results) -> Section:
    """Return the section of what the repeats tell of hits and of the wait for the first token."""
    where = Text(_where(results))
    pairs = [(case, pair) for case in results.headline for pair in pairings(case)]
    if not pairs:
        lone = Text("No two configurations of a workload were measured.")
        return Section("In short", (where, lone))
    rows = [
        (f"{case.title}: {pair.title}", *(_difference(pair, measure) for measure in IN_SHORT))
        for case, pair in pairs
        if pair.is_repeated
    ]
    if not rows:
        return Section("In short", (where, Text(_NOT_REPEATED)))
    header = ("difference", *(measure.difference_title for measure in IN_SHORT))
    return Section("In short", (where, Text(_METHOD), Table(header, tuple(rows))))


def _where(results: Results) -> str:
    """Say what served, and of what its times say nothing."""
    devices = dict.fromkeys(str(run.provenance.get("device")) for run in results.runs)
    models = dict.fromkeys(run.setup.model for run in results.runs)
    told = f"Measured with {', '.join(models)} on: {', '.join(devices)}."
    return f"{told} No time here says anything about a GPU." if "cpu" in devices else told


def experiment(name: str, cases: Sequence[Case], at: int) -> Section:
    """Return the section of one experiment.

    Parameters
    ----------
    name
        Its name.
    cases
        What it served.
    at
        Its number in the page, for the names of its drawings.
    """
    blocks = _one_workload(cases[0], at) if len(cases) == 1 else _sweep(name, cases, at)
    return Section(f"Experiment: {name}", tuple(blocks))


def _one_workload(case: Case, at: int) -> list[Block]:
    caption = f"{case.title}: requests of all repeats that had their first token by then."
    drawing = Plot(f"first-tokens-{at}", caption, draw_first_tokens(case))
    policy = Text(_POLICIES.get(case.setup.write_policy, case.setup.write_policy))
    figures = _table(case, (*POOL, *JUDGED))
    return [Text(describe(case)), policy, figures, *_differences(case), drawing]


def _sweep(name: str, cases: Sequence[Case], at: int) -> list[Block]:
    """Draw what is hit, and give a row to each workload."""
    along = cases[0].varied
    caption = (
        f"{name}: hit rate, as measured: medians, with whiskers from the least to the largest "
        "repeat."
    )
    first = Text(f"The first workload of {len(cases)}: {describe(cases[0])}")
    blocks: list[Block] = [first, _table(cases[0], POOL)]
    blocks.append(Plot(f"hit-rate-{at}", caption, draw_hits(cases, along)))
    names = list(names_of(cases))
    for measure in _SWEPT:
        rows = tuple(_workload(case, names, measure) for case in cases)
        blocks += [Heading(measure.title), Table(("workload", *names), rows)]
    return blocks


def _workload(case: Case, names: Sequence[str], measure: Measure) -> tuple[str, ...]:
    """Return the row of a workload in a sweep."""
    served = map(case.named, names)
    cells = (measure.spread(list(one.values(measure.of).values()) if one else []) for one in served)
    return (case.said, *cells)


def describe(case: Case) -> str:
    """Say what was served."""
    setup, load = case.setup, case.setup.workload
    return (
        f"{setup.model}: {load.requests:,} requests, {load.concurrency} at a time, from "
        f"{load.groups:,} prefixes of {load.prefix_tokens:,} tokens, each with "
        f"{load.question_tokens:,} of its own and an answer of {load.output_tokens:,}. Working set "
        f"{load.working_set_tokens:,} tokens; L1 {setup.l1_tokens:,} tokens; pages of "
        f"{setup.page_size}; {setup.write_policy}. The L2s have the same {setup.sizing}."
    )


def _table(case: Case, measures: Sequence[Measure]) -> Table:
    """Return a row for each figure and a column for each configuration."""
    columns = case.configurations
    rows = [("repeats", *(str(len(one.runs)) for one in columns))]
    for measure in measures:
        cells = (measure.spread(list(one.values(measure.of).values())) for one in columns)
        rows.append((measure.title, *cells))
    header = ("median (least to largest repeat)", *(one.name for one in columns))
    return Table(header, tuple(rows))


def _differences(case: Case) -> list[Block]:
    pairs = list(pairings(case))
    if not pairs:
        return [Text("There is one configuration, and nothing to compare it with.")]
    if not any(pair.is_repeated for pair in pairs):
        return [Text(_NOT_REPEATED)]
    rows = [
        (measure.difference_title, *(_difference(pair, measure) for pair in pairs))
        for measure in JUDGED
    ]
    return [Table(("difference", *(pair.title for pair in pairs)), tuple(rows))]


def _difference(pair: Pairing, measure: Measure) -> str:
    found = pair.difference(measure)
    return measure.difference(found) if found else NOTHING
