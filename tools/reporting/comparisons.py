"""The results of each experiment, and which differences its repeats tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evidence.record import NO_L2, RAW
from reporting.content import Block, Heading, Plot, Section, Table, Text
from reporting.hit_plot import draw_hits
from reporting.measures import FIRST_TOKEN, HIT_RATE, JUDGED, NOTHING, POOL, Measure
from reporting.runs import Case, Configuration
from reporting.spread import CONFIDENCE, Difference
from reporting.ttft_plot import draw_first_tokens

#: What the page says first.
IN_SHORT = (HIT_RATE, FIRST_TOKEN)
_METHOD = (
    f"Mean differences between runs of the same repeat, with the {CONFIDENCE} % interval over the "
    "repeats (Student's). Where that holds zero, the two are not told apart and nothing is "
    "claimed. Of two that are equal, one interval in twenty excludes zero."
)


@dataclass(frozen=True)
class Pairing:
    """A configuration, and the one that it is compared with."""

    one: Configuration
    other: Configuration

    @property
    def title(self) -> str:
        """Name it as the subtraction that it is."""
        return f"{self.one.name} - {self.other.name}"

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


def in_short(experiments: Mapping[str, Sequence[Case]]) -> Section:
    """Return the section of what the repeats tell of hits and of the wait for the first token.

    Experiments of several workloads are left to their drawings, unless there are no others.
    """
    alone = [cases for cases in experiments.values() if len(cases) == 1]
    rows = [
        (f"{case.title}: {pair.title}", *(_difference(pair, measure) for measure in IN_SHORT))
        for cases in alone or experiments.values()
        for case in cases
        for pair in pairings(case)
    ]
    if not rows:
        return Section("In short", (Text("No two configurations of a workload were measured."),))
    header = ("difference", *(measure.difference_title for measure in IN_SHORT))
    return Section("In short", (Text(_METHOD), Table(header, tuple(rows))))


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
    blocks: list[Block] = []
    if len(cases) > 1:
        caption = (
            f"{name}: hit rate, as measured: medians, with whiskers from the least to the largest "
            "repeat."
        )
        blocks.append(Plot(f"hit-rate-{at}", caption, draw_hits(cases, cases[0].varied)))
    for number, case in enumerate(cases, start=1):
        caption = f"{case.title}: requests of all repeats that had their first token by then."
        drawing = Plot(f"first-tokens-{at}-{number}", caption, draw_first_tokens(case))
        heading = Heading(case.said[0].upper() + case.said[1:])
        blocks += [heading, Text(describe(case)), _table(case), *_differences(case), drawing]
    return Section(f"Experiment: {name}", tuple(blocks))


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


def _table(case: Case) -> Table:
    """Return a row for each figure and a column for each configuration."""
    columns = case.configurations
    rows = [("repeats", *(str(len(one.runs)) for one in columns))]
    for measure in (*POOL, *JUDGED):
        cells = (measure.spread(list(one.values(measure.of).values())) for one in columns)
        rows.append((measure.title, *cells))
    header = ("median (least to largest repeat)", *(one.name for one in columns))
    return Table(header, tuple(rows))


def _differences(case: Case) -> list[Block]:
    pairs = list(pairings(case))
    if not pairs:
        return [Text("There is one configuration, and nothing to compare it with.")]
    rows = [
        (measure.difference_title, *(_difference(pair, measure) for pair in pairs))
        for measure in JUDGED
    ]
    return [Table(("difference", *(pair.title for pair in pairs)), tuple(rows))]


def _difference(pair: Pairing, measure: Measure) -> str:
    found = pair.difference(measure)
    return measure.difference(found) if found else NOTHING
