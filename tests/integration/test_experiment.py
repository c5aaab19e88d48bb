"""tools/experiment.py on real servers: SGLang's benchmark, its counters, and the simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evidence.cases import Case, Scale
from evidence.random_model import random_model
from evidence.record import NO_L2, RAW, Record, Workload, read_record
from evidence.running import Experiment, run_experiment
from serving.progress import Lines
from simulator.validation import compare

TOKEN = {RAW: 36_864, "int8": 20_736}
RAW_TOKENS = 1_000
#: What prefixes come to, 1,536 tokens, is more than the raw L2 holds and less than INT8's.
SCALE = Scale(512, 1, RAW_TOKENS * TOKEN[RAW], Workload(24, 3, 64, 4, 4, 4, 1), 1)
CASE = Case("for this test", "bytes", (NO_L2, RAW, "int8"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.pin,  # what drives it is the pinned release's benchmark
    pytest.mark.skipif(torch.cuda.is_available(), reason="these servers are started on a CPU"),
]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """A small experiment on the random model."""
    model = random_model(tmp_path_factory.mktemp("cache"))
    return Experiment("equal-bytes", CASE, SCALE, model)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where its runs are."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def runs(experiment: Experiment, folder: Path) -> Mapping[str, Record]:
    """Its runs by configuration."""
    records = map(read_record, run_experiment(experiment, folder, Lines()))
    return {record.setup.configuration: record for record in records}


def test_every_run_can_be_used(runs: Mapping[str, Record]) -> None:
    assert [(name, run.invalid) for name, run in runs.items()] == [
        (name, None) for name in CASE.configurations
    ]
    assert all(len(run.requests) == SCALE.workload.requests for run in runs.values())


@pytest.mark.parametrize("name", TOKEN)
def test_bytes_are_exact(runs: Mapping[str, Record], name: str) -> None:
    run = runs[name]
    assert run.pool is not None
    assert run.pool.nbytes == run.pool.slots * TOKEN[name]
    assert abs(run.pool.nbytes - SCALE.l2_bytes) <= 2 * TOKEN[RAW]
    moved = run.counters["sglang:hicache_backup_bytes_total"]
    assert moved == TOKEN[name] * run.counters["sglang:hicache_backup_tokens_total"]


def test_more_tokens_in_the_same_memory_are_more_hits(runs: Mapping[str, Record]) -> None:
    rates = [runs[name].hit_rate for name in CASE.configurations]
    assert rates == sorted(rates) and rates[2] - rates[1] > 0.1
    assert runs[NO_L2].host_tokens == 0 < runs[RAW].host_tokens < runs["int8"].host_tokens


@pytest.mark.parametrize("name", CASE.configurations)
def test_the_simulation_says_the_same(runs: Mapping[str, Record], name: str) -> None:
    found = compare(runs[name])
    assert found.lowest - 2 <= found.engine <= found.highest + 2
    other = replace(runs[name], setup=replace(runs[name].setup, l1_tokens=1_600))
    assert abs(compare(other).simulated - found.engine) > 2


def test_runs_that_are_there_are_not_run_again(
    experiment: Experiment, folder: Path, runs: Mapping[str, Record]
) -> None:
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert run_experiment(experiment, folder, Lines()) == sorted(before)
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before
