"""tools/experiment.py on real servers: SGLang's benchmark, its counters, and the simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evidence.cases import Scale, Sweep
from evidence.hits import Asked
from evidence.random_model import random_model
from evidence.record import NO_L2, RAW, Record, Workload, read_record
from evidence.restore import Lengths, measure
from evidence.running import Experiment, run_experiment
from reporting.restore import load_restore
from serving.progress import Lines
from simulator.engine import simulate
from simulator.outcome import Outcome
from simulator.trace import recorded
from simulator.validation import compare, server_of

TOKEN = {RAW: 36_864, "int8": 20_736}
#: In pages of 64, whose scales lie together.
PAGED_INT8 = 18_720
RAW_TOKENS = 1_000
#: What prefixes come to, 1,536 tokens, is more than the raw L2 holds and less than INT8's.
SCALE = Scale(512, 1, RAW_TOKENS, Workload(24, 3, 64, 4, 4, 4, 1), 1)
ALONE, TOGETHER = 1, 4
CASE = Sweep("for this test", "bytes", (NO_L2, RAW, "int8"), field="concurrency", factors=(0.25, 1))

Runs = Mapping[tuple[str, int], Record]

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
def runs(experiment: Experiment, folder: Path) -> Runs:
    """Its runs by configuration and requests at a time."""
    records = map(read_record, run_experiment(experiment, folder, Lines()))
    return {(run.setup.configuration, run.setup.workload.concurrency): run for run in records}


def test_a_run_says_nothing_of_this_machines_folders(runs: Runs) -> None:
    for run in runs.values():
        assert not any(word.startswith("/") for word in (*run.server_command, *run.bench_command))


def test_every_run_can_be_used(runs: Runs) -> None:
    assert {key: run.invalid for key, run in runs.items()} == {
        (name, at_a_time): None for name in CASE.configurations for at_a_time in (ALONE, TOGETHER)
    }
    assert all(len(run.requests) == SCALE.workload.requests for run in runs.values())


@pytest.mark.parametrize("name", TOKEN)
def test_bytes_are_exact(runs: Runs, name: str) -> None:
    run = runs[name, ALONE]
    assert run.pool is not None
    assert run.pool.nbytes == run.pool.slots * TOKEN[name]
    assert abs(run.pool.nbytes - RAW_TOKENS * TOKEN[RAW]) <= TOKEN[RAW]
    moved = run.counters["sglang:hicache_backup_bytes_total"]
    assert moved == TOKEN[name] * run.counters["sglang:hicache_backup_tokens_total"]


@pytest.mark.parametrize("name", TOKEN)
def test_an_l2_fills_and_never_holds_more_than_it_can(runs: Runs, name: str) -> None:
    run = runs[name, ALONE]
    assert run.pool is not None
    assert run.l2_use[0] < max(run.l2_use) <= run.pool.slots
    assert not runs[NO_L2, ALONE].l2_use


def test_more_tokens_in_the_same_memory_are_more_hits(runs: Runs) -> None:
    rates = [runs[name, ALONE].hit_rate for name in CASE.configurations]
    assert rates == sorted(rates) and rates[2] - rates[1] > 0.1
    restored = [runs[name, ALONE].host_tokens for name in CASE.configurations]
    assert restored[0] == 0 < restored[1] < restored[2]


@pytest.mark.parametrize("name", CASE.configurations)
def test_one_at_a_time_each_request_is_as_simulated(runs: Runs, name: str) -> None:
    run = runs[name, ALONE]
    assert sources(simulated(run).requests) == sources(run.requests)
    other = replace(run, setup=replace(run.setup, l1_tokens=700))
    assert sources(simulated(other).requests) != sources(run.requests)


@pytest.mark.parametrize("name", CASE.configurations)
def test_together_the_hit_rate_is_as_simulated(runs: Runs, name: str) -> None:
    """Which of those that come together is first is a matter of time; one is 1.3 points."""
    run = runs[name, TOGETHER]
    found = compare(run)
    assert abs(found.difference) < 4
    ample = compare(replace(run, setup=replace(run.setup, l1_tokens=1_600)))
    assert ample.difference > 4 or ample.simulated_restored < found.engine_restored


def simulated(run: Record) -> Outcome:
    """What its server's rules make of its requests."""
    return simulate(server_of(run), recorded(run), run.setup.workload.concurrency)


def sources(requests: Iterable[Asked]) -> list[tuple[int, int]]:
    """Tokens that each request got from L1 and from L2."""
    return [(request.device_tokens, request.host_tokens) for request in requests]


def test_a_restore_is_measured(tmp_path: Path) -> None:
    file, lengths = tmp_path / "restore.json", Lengths((128, 256), 1)
    measure(random_model(tmp_path), [RAW, "int8"], lengths, file, Lines())
    rows = {(row.configuration, row.prefix_tokens): row for row in load_restore(file).rows}
    assert len(rows) == 4
    for (name, prefix), row in rows.items():
        assert row.bytes == prefix * (TOKEN[RAW] if name == RAW else PAGED_INT8)
        assert (row.phase("decode_s") is None) == (name == RAW)
        assert min(*row.ttft_s, *row.cold_ttft_s) > (row.phase("decode_s") or 0)


def test_runs_that_are_there_are_not_run_again(
    experiment: Experiment, folder: Path, runs: Runs
) -> None:
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert run_experiment(experiment, folder, Lines()) == sorted(before)
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before
