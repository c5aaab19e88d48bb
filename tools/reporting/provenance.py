"""Where the figures come from: code, machine, commands, time, load; and what cannot be used."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evidence.record import Record, without_folder
from reporting.content import Block, Bullets, Command, Heading, Section, Table, Text
from reporting.measures import three_digits
from reporting.runs import Results

#: Of values that differ between runs, so many are named.
_NAMED = 4


def provenance(results: Results) -> Section:
    """Return the section."""
    blocks: list[Block] = [Text(_count(results))]
    rows = [("started (UTC)", _among([run.started for run in results.runs], "to"))]
    rows += [(name, _shown(values)) for name, values in _facts(results.runs).items()]
    blocks.append(Table(("of all runs", ""), tuple(rows)))
    if results.invalid:
        blocks.append(Text("Runs that cannot be used; no figure has anything of them:"))
        blocks.append(Bullets(tuple(map(_why, results.invalid))))
    return Section("Provenance", tuple(blocks))


def _count(results: Results) -> str:
    count, bad = len(results.runs), len(results.invalid)
    named = ", ".join(dict.fromkeys(run.setup.experiment for run in results.runs))
    used = "all of them are used" if not bad else f"{bad} of them cannot be used"
    return (
        f"{count} runs of the experiments {named}; {used}. A repeat "
        "of a configuration is a server of its own, which serves the workloads of a sweep one "
        "after another, each with empty caches. Configurations take turns, and every other repeat "
        "is in the opposite order, so that a machine that drifts does so for all; with one repeat "
        "it may not."
    )


def _why(run: Record) -> str:
    setup = run.setup
    return f"{setup.experiment}, {setup.configuration}, repeat {run.repeat}: {run.invalid}"


def _facts(runs: Sequence[Record]) -> dict[str, list[Any]]:
    """Return what the runs say about themselves, by name, for each run that says it."""
    found: dict[str, list[Any]] = {}
    for run in runs:
        for name, value in _flat(run.provenance):
            found.setdefault(name, []).append(value)
    return found


def _flat(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        title = f"{above} {name}".strip()
        if isinstance(value, Mapping):
            yield from _flat(value, title)
        else:
            yield title, ", ".join(map(str, value)) if isinstance(value, tuple) else value


def _shown(values: Sequence[Any]) -> str:
    """Write one value for all runs, the range of numbers, or the values that there are."""
    if len(set(values)) == 1:
        return str(values[0])
    if all(isinstance(value, (int, float)) for value in values):
        return f"{three_digits(min(values))} to {three_digits(max(values))}"
    different = list(dict.fromkeys(map(str, values)))
    more = f" and {len(different) - _NAMED} more" if len(different) > _NAMED else ""
    return "; ".join(different[:_NAMED]) + more


def _among(values: Sequence[str], word: str) -> str:
    low, high = min(values), max(values)
    return low if low == high else f"{low} {word} {high}"


def commands(results: Results) -> Section:
    """Return the section of the commands: a server of each kind, a benchmark of each experiment."""
    found: dict[str, tuple[str, ...]] = {}
    for run in results.valid:
        setup = run.setup
        kind = (setup.configuration, setup.write_policy, f"the same {setup.sizing}")
        found.setdefault(f"Server: {', '.join(kind)}", run.server_command)
        found.setdefault(f"Benchmark: {setup.experiment}", run.bench_command)
    blocks: list[Block] = [Text("Of the first run of each, without that machine's folders.")]
    for title, line in sorted(found.items(), reverse=True):
        if line:
            blocks += [Heading(title), Command(shlex.join(map(without_folder, line)))]
    return Section("Commands", tuple(blocks))
