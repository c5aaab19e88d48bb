"""Runs as they are compared: by experiment, by what is served, by configuration."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evidence.provenance import same_code
from evidence.record import NO_L2, RAW, Record, Setup, Workload, read_record, run_files
from patchstack.errors import Exit, ToolError
from reporting.loading import build, clean, load_json, refused
from reporting.varied import Varied, varied

_WHAT = "a run"
#: What leads, whatever order the runs were made in.
_FIRST = (NO_L2, RAW)


def load_runs(paths: Iterable[Path]) -> list[Record]:
    """Read files, and in folders all files but those of another kind.

    Raises
    ------
    ToolError
        If there is no run, a file is not one, or runs that would be compared are not of one
        measurement.
    """
    runs = sorted(
        map(_load, run_files(paths)),
        key=lambda run: (run.setup.experiment, run.position, run.started),
    )
    _refuse_twice(runs)
    _refuse_mixed(runs)
    _refuse_alike(Results(tuple(runs)))
    return runs


def _load(file: Path) -> Record:
    load_json(file, _WHAT)  # more strictly than the record's reader
    try:
        run: Record = build(Record, read_record(file))
        if not run.invalid:
            _refuse_impossible(run)
    except ToolError as error:
        raise ToolError(clean(error.message), error.hint, error.exit_code) from error
    except (ValueError, RecursionError) as error:
        raise refused(file, _WHAT, error) from error
    return run


def _refuse_impossible(run: Record) -> None:
    if not (run.seconds > 0 and run.prompt_tokens > 0 and math.isfinite(run.output_throughput)):
        raise ValueError("it is valid without a request or without time")
    workload = run.setup.workload
    if len(run.requests) != workload.requests:
        raise ValueError(f"it has {len(run.requests)} requests, and not {workload.requests}")
    if (run.pool is None) != (run.setup.configuration == NO_L2):
        raise ValueError(
            f"the configuration {run.setup.configuration} and its L2 do not go together"
        )
    if run.repeat < 0:
        raise ValueError(f"it is repeat {run.repeat}")
    for request in run.requests:
        parts = (request.device_tokens, request.host_tokens, request.output_tokens)
        if min(*parts, request.ttft_s, *request.itl_s) < 0:
            raise ValueError("a request has a time or tokens below zero")
        if request.device_tokens + request.host_tokens > request.prompt_tokens:
            raise ValueError("a request has more tokens in caches than in its prompt")


def _refuse_twice(runs: Sequence[Record]) -> None:
    seen = set()
    for run in runs:
        if run.invalid:
            continue
        key = (case_of(run.setup), variant_of(run.setup), run.repeat)
        if key in seen:
            which = f"repeat {run.repeat} of {run.setup.configuration}"
            what = f"{run.setup.experiment} has {which} twice, once as {run.name}"
            raise ToolError(what, "give the runs of one measurement", Exit.USAGE)
        seen.add(key)


def _refuse_alike(results: Results) -> None:
    """Refuse two workloads of an experiment that nothing of the report would tell apart."""
    for name, cases in results.experiments.items():
        places = [case.place for case in cases]
        if len(set(places)) < len(places):
            what = f"the experiment {name} has runs of two models, sizes of L1 or of pages"
            raise ToolError(what, "give the runs of one measurement", Exit.USAGE)


def _refuse_mixed(runs: Sequence[Record]) -> None:
    """Refuse runs of one case whose code or machine differ."""
    first: dict[tuple[Any, ...], Record] = {}
    for run in runs:
        if run.invalid:
            continue
        other = first.setdefault(case_of(run.setup), run)
        if same_code(run.provenance) != same_code(other.provenance):
            what = f"{run.setup.experiment} has runs of different code or machines: {other.name}"
            raise ToolError(f"{what}, {run.name}", "give the runs of one measurement", Exit.USAGE)


def case_of(setup: Setup) -> tuple[Any, ...]:
    """Return what runs have in common that are compared: all but the L2 and the seed."""
    workload = dataclasses.replace(setup.workload, seed=0)
    parts = (setup.experiment, setup.model, setup.l1_tokens, setup.page_size, setup.write_policy)
    return (*parts, workload)


def variant_of(setup: Setup) -> tuple[str, str, int]:
    """Return the L2 that a run had."""
    return setup.configuration, setup.sizing, setup.l2_tokens


@dataclass(frozen=True)
class Configuration:
    """Repeats of one configuration.

    Parameters
    ----------
    name
        What it is called, unlike all others of its case.
    runs
        Valid runs, by repeat.
    """

    name: str
    runs: tuple[Record, ...]

    @property
    def setup(self) -> Setup:
        """What its servers were started with."""
        return self.runs[0].setup

    def values(self, measure: Callable[[Record], float | None]) -> dict[int, float]:
        """Return a figure by repeat, where a run has it."""
        found = {run.repeat: measure(run) for run in self.runs}
        return {repeat: value for repeat, value in found.items() if value is not None}


@dataclass(frozen=True)
class Case:
    """One workload of one experiment.

    Parameters
    ----------
    configurations
        What served it.
    varied
        What tells it from the experiment's other workloads.
    """

    configurations: tuple[Configuration, ...]
    varied: Varied

    @property
    def setup(self) -> Setup:
        """What its servers have in common."""
        return self.configurations[-1].setup

    @property
    def title(self) -> str:
        """Its experiment and what tells it from the others of that."""
        return f"{self.setup.experiment}, {self.said}"

    @property
    def said(self) -> str:
        """What tells it from the others of its experiment."""
        return self.varied.said(self.setup.workload)

    @property
    def place(self) -> int:
        """Where it stands on an axis of that."""
        return self.varied.of(self.setup.workload)

    def named(self, name: str) -> Configuration | None:
        """Return a configuration by its name."""
        return next((one for one in self.configurations if one.name == name), None)


@dataclass(frozen=True)
class Results:
    """All runs that were read."""

    runs: tuple[Record, ...]

    @cached_property
    def valid(self) -> tuple[Record, ...]:
        """Those that can be used."""
        return tuple(run for run in self.runs if not run.invalid)

    @cached_property
    def invalid(self) -> tuple[Record, ...]:
        """Those that cannot."""
        return tuple(run for run in self.runs if run.invalid)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """What can be compared, by experiment and then by what is varied in it."""
        groups: dict[tuple[Any, ...], list[Record]] = {}
        for run in self.valid:
            groups.setdefault(case_of(run.setup), []).append(run)
        loads: dict[str, list[Workload]] = {}
        for runs in groups.values():
            loads.setdefault(runs[0].setup.experiment, []).append(runs[0].setup.workload)
        kinds = {name: varied(found) for name, found in loads.items()}
        cases = [_case(runs, kinds[runs[0].setup.experiment]) for runs in groups.values()]
        return tuple(sorted(cases, key=_order))

    @cached_property
    def experiments(self) -> dict[str, list[Case]]:
        """Cases by the name of their experiment."""
        found: dict[str, list[Case]] = {}
        for case in self.cases:
            found.setdefault(case.setup.experiment, []).append(case)
        return found

    @cached_property
    def headline(self) -> tuple[Case, ...]:
        """Cases of experiments of one workload, or all if there are no others."""
        alone = tuple(cases[0] for cases in self.experiments.values() if len(cases) == 1)
        return alone or self.cases


def _order(case: Case) -> tuple[str, int, str]:
    return case.setup.experiment, case.place, repr(case_of(case.setup))


def _case(runs: Sequence[Record], kind: Varied) -> Case:
    variants: dict[tuple[str, str, int], list[Record]] = {}
    for run in runs:
        variants.setdefault(variant_of(run.setup), []).append(run)
    names = [name for name, _, _ in variants]
    made = []
    for (name, sizing, tokens), repeats in variants.items():
        alone = names.count(name) == 1
        title = name if alone else f"{name}, {tokens:,} tokens by {sizing}"
        made.append(Configuration(title, tuple(sorted(repeats, key=lambda run: run.repeat))))
    return Case(tuple(sorted(made, key=_place)), kind)


def _place(one: Configuration) -> int:
    """None and raw lead; the others stay in the order of their runs."""
    name = one.setup.configuration
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
