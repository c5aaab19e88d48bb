"""What SGLang counted of its L2: how full it became, and what was dropped for which reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from evidence.record import USED, Record
from reporting.content import Block, Heading, Section, Table, Text
from reporting.measures import POOL, Measure, tenths, whole
from reporting.runs import Case, Results

TOTAL = "sglang:hicache_host_total_tokens"
_GONE = re.compile("(evict|drop)(?!.*(duration|_bucket|_created))", re.IGNORECASE)
_REASON = re.compile(r'reason="([^"]*)"')


def host_cache(results: Results) -> Section:
    """Return the section."""
    words = (
        "SGLang's own counters over the measured phase, and its gauges: at the end of it and, of "
        "runs in which they were read each second, the largest reading. The median of the repeats."
    )
    blocks: list[Block] = [Text(words)]
    for case in results.headline:
        blocks += [Heading(case.title), _table(case)]
    return Section("L2: use and evictions", tuple(blocks))


def _table(case: Case) -> Table:
    columns = case.configurations
    rows = []
    for measure in _measures(run for one in columns for run in one.runs):
        cells = (measure.spread(list(one.values(measure.of).values())) for one in columns)
        rows.append((measure.title, *cells))
    return Table(("counted", *(one.name for one in columns)), tuple(rows))


def _measures(runs: Iterable[Record]) -> list[Measure]:
    counted = sorted({name for run in runs for name in run.counters if _GONE.search(name)})
    return [
        *POOL[:1],
        Measure("used at the end", "tokens", lambda run: _gauge(run, USED), whole),
        Measure("used at the end", "% of capacity", _share, tenths),
        Measure("used at most", "tokens", lambda run: run.most_held, whole),
        *(Measure(_title(name), _unit(name), _counter(name), whole) for name in counted),
    ]


def _gauge(run: Record, name: str) -> float | None:
    return run.gauges.get(name) if run.pool else None


def _share(run: Record) -> float | None:
    used, total = _gauge(run, USED), _gauge(run, TOTAL)
    return 100 * used / total if used is not None and total else None


def _counter(name: str) -> Callable[[Record], float | None]:
    """Return what reads a counter; a record has none that stood still."""
    return lambda run: run.counters.get(name, 0.0 if run.pool else None)


def _title(name: str) -> str:
    """Return a counter's name in words, with the reason that it has as a label."""
    plain = name.partition("{")[0].removeprefix("sglang:").removesuffix("_total")
    words = plain.removesuffix("_tokens").removesuffix("_seconds").replace("_", " ")
    reason = _REASON.search(name)
    return f"{words}, {reason[1].replace('_', ' ')}" if reason else words


def _unit(name: str) -> str:
    plain = name.partition("{")[0].removesuffix("_total")
    return next((unit for unit in ("tokens", "seconds", "bytes") if plain.endswith(unit)), "times")
