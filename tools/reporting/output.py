"""The results on a terminal and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table

from reporting.comparisons import Pairing, pairings
from reporting.measures import JUDGED, POOL, Measure
from reporting.runs import Case, Results
from reporting.spread import Spread
from serving.printing import Printer


def print_table(results: Results) -> None:
    """Print a line for each configuration that was measured, and what cannot be used."""
    printer = Printer()
    columns = (*POOL[:1], *JUDGED[:3])
    for case in results.cases:
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column(case.title, no_wrap=True)
        for measure in columns:
            table.add_column(measure.title, justify="right")
        for one in case.configurations:
            values = (list(one.values(measure.of).values()) for measure in columns)
            cells = (each.spread(found) for each, found in zip(columns, values, strict=True))
            table.add_row(one.name, *cells)
        printer.table(table)
    for run in results.invalid:
        printer.print(f"not used: {run.setup.experiment}, {run.name}: {run.invalid}")


def to_json(results: Results) -> str:
    """Return every figure and difference as JSON."""
    document = {
        "runs": len(results.runs),
        "invalid": [
            {"experiment": run.setup.experiment, "file": run.name, "why": run.invalid}
            for run in results.invalid
        ],
        "cases": [_case(case) for case in results.cases],
    }
    return json.dumps(document, indent=1, allow_nan=False)


def _case(case: Case) -> dict[str, Any]:
    return {
        "experiment": case.setup.experiment,
        "case": case.said,
        "workload": asdict(case.setup.workload),
        "configurations": {
            one.name: _figures((*POOL, *JUDGED), [one.values(each.of) for each in (*POOL, *JUDGED)])
            for one in case.configurations
        },
        "differences": {pair.title: _differences(pair) for pair in pairings(case)},
    }


def _figures(measures: Sequence[Measure], values: Sequence[dict[int, float]]) -> dict[str, Any]:
    return {
        measure.title: vars(Spread.of([measure.factor * value for value in found.values()]))
        for measure, found in zip(measures, values, strict=True)
        if found
    }


def _differences(pair: Pairing) -> dict[str, Any]:
    found = {}
    for measure in JUDGED:
        apart = pair.difference(measure)
        if apart:
            bounds = (measure.factor * each for each in (apart.mean, apart.low, apart.high))
            mean, low, high = (each if math.isfinite(each) else None for each in bounds)
            found[measure.difference_title] = {
                "mean": mean, "low": low, "high": high, "pairs": apart.pairs,
                "told_apart": apart.told_apart,
            }  # fmt: skip
    return found
