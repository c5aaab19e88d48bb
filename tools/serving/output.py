"""A comparison as JSON, for programs, and as a table, for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from serving.experiment import Run
from serving.printing import Printer
from serving.results import Comparison, Difference, FirstToken, Summary

#: Grows when a field is renamed, removed or means something else.
SCHEMA = 1
_NOTHING = "-"


def to_json(comparison: Comparison, arguments: Mapping[str, Any]) -> str:
    """Return everything that was set and measured."""
    workload = comparison.workload
    document = {
        "schema": SCHEMA,
        "arguments": {name: _plain(value) for name, value in arguments.items()},
        "model": comparison.model,
        "environment": asdict(comparison.environment),
        "workload": {
            **asdict(workload.scale),
            "seed": workload.seed,
            "order": [prompt.group for prompt in workload.prompts],
        },
        "expectation": asdict(comparison.expectation),
        "runs": {run.name: _run(run) for run in comparison.runs},
        "table": {name: asdict(summary) for name, summary in comparison.summaries().items()},
    }
    return json.dumps(document, indent=2)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _run(run: Run) -> dict[str, Any]:
    return {
        "command": list(run.command),
        "seconds": run.seconds,
        "pool": asdict(run.pool) if run.pool else None,
        "counters": asdict(run.counters),
        "requests": [asdict(reply) for reply in run.replies],
    }


def _number(value: float | None, form: str = ",.0f") -> str:
    return _NOTHING if value is None else format(value, form)


def _first_token(times: FirstToken) -> str:
    return f"{_number(times.median_s, '.2f')} s ({times.requests})" if times.requests else _NOTHING


def _difference(difference: Difference | None, value: Callable[[Difference], float | None]) -> str:
    if difference is None:
        return "reference"
    return f"{_number(value(difference), '.3f')} ({difference.positions})"


_ROWS: dict[str, Callable[[Summary], str]] = {
    "L2 bytes per token, moved": lambda s: _number(s.moved_bytes_per_token, ",.1f"),
    "L2 bytes per token, held": lambda s: _number(s.stored_bytes_per_token, ",.1f"),
    "L2 memory, bytes": lambda s: _number(s.arena_bytes),
    "L2 capacity, tokens": lambda s: _number(s.capacity_tokens),
    "tokens restored from L2": lambda s: _number(s.restored_tokens),
    "hit rate": lambda s: f"{s.hit_rate:.1%}",
    "first token, cold": lambda s: _first_token(s.cold),
    "first token, prefix in L1": lambda s: _first_token(s.l1_hit),
    "first token, restored from L2": lambda s: _first_token(s.restored),
    "largest |logprob difference|": lambda s: _difference(s.difference, lambda d: d.largest),
    "mean |logprob difference|": lambda s: _difference(s.difference, lambda d: d.mean),
}


def table(comparison: Comparison) -> Table:
    """Return the comparison as a table with a column for each run."""
    summaries = comparison.summaries().values()
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("")
    for heading in ("no L2", "raw BF16 L2", f"{comparison.encoded.name.upper()} L2"):
        shown.add_column(heading, justify="right")
    for heading, cell in _ROWS.items():
        shown.add_row(heading, *map(cell, summaries))
    return shown


def footnote(comparison: Comparison) -> str:
    """Return what must be known to read the table."""
    scale, seed = comparison.workload.scale, comparison.workload.seed
    return f"""\
{comparison.model}, seed {seed}: {scale.draws} requests, one at a time, from {scale.groups} \
prefixes of {scale.prefix_tokens} tokens, each with {scale.suffix_tokens} tokens of its own.
moved: bytes over tokens of SGLang's backup counters. held: bytes of the L2's memory over its \
capacity.
hit rate: prompt tokens that were in L1 or L2, of all prompt tokens. first token: median wall time \
on this CPU (number of requests).
logprob difference: the prompts' own last tokens, against the same prompts restored from the raw \
L2 (positions); without L2 those were computed anew.
{comparison.environment.sentence()}"""


def print_table(comparison: Comparison) -> None:
    """Print the table and its footnote on standard output."""
    printer = Printer()
    printer.table(table(comparison))
    printer.print(footnote(comparison))
