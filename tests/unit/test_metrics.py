"""What a codec costs, as Prometheus metrics: counters, one observation a transfer, no waiting."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from hiqcache.codecs import codec_names, make_codec
from hiqcache.geometry import KVGeometry
from hiqcache.metrics import MeasuredTransfer, _Spans
from hiqcache.staging import StagedTransfer
from tests.unit.delayed_event import DelayedEvent
from tests.unit.host_arena import HostArena

CPU = torch.device("cpu")
GEOMETRY = KVGeometry(layers=3, kv_heads=3, head_dim=64, page_size=16)
SLOTS = 256
CHUNKS = 4  # of the 64 tokens that a CPU backs up at a time
PROJECT = Path(__file__).parents[2]
MODELS = itertools.count()


@pytest.fixture(params=codec_names())
def codec(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model() -> str:
    """A label that no other test has: the registry is the process's."""
    return f"model-{next(MODELS)}"


class Served:
    """A device pool and its host arena, behind a transfer.

    Parameters
    ----------
    transfer : StagedTransfer
        With its buffers on the CPU.
    """

    def __init__(self, transfer: StagedTransfer) -> None:
        self.transfer = transfer
        g = transfer.codec.geometry
        self.arena = HostArena(transfer, SLOTS // g.page_size)
        self.keys, self.values = torch.randn(2, g.layers, SLOTS, g.kv_heads, g.head_dim).to(g.dtype)

    def backup(self, tokens: int) -> None:
        """Back up the first tokens."""
        slots = torch.arange(tokens)
        self.transfer.backup(self.keys, self.values, slots, slots, self.arena.store)

    def load_layers(self, tokens: int, layers: range) -> None:
        """Load the first tokens, in some layers."""
        slots = torch.arange(tokens)
        for layer in layers:
            keys, values, fetch = self.keys[layer], self.values[layer], self.arena.fetch(layer)
            self.transfer.load(keys, values, slots, slots, fetch)

    def load(self, tokens: int) -> None:
        """Load the first tokens, in all layers."""
        self.load_layers(tokens, range(self.transfer.codec.geometry.layers))


def served(codec: str, model: str) -> Served:
    return Served(MeasuredTransfer(make_codec(codec, GEOMETRY), CPU, model))


def sample(name: str, codec: str, model: str, registry: CollectorRegistry = REGISTRY) -> float:
    """Value of one of our metrics; zero where nothing was observed yet."""
    labels = {"codec": codec, "model_name": model}
    return registry.get_sample_value(f"sglang:hicache_codec_{name}", labels) or 0.0


def test_the_gauges_say_what_the_codec_is(codec: str, model: str) -> None:
    assert sample("ratio", codec, model) == 0
    transfer = served(codec, model).transfer
    held = transfer.codec.bytes_per_token
    assert sample("bytes_per_token", codec, model) == held
    assert sample("ratio", codec, model) == GEOMETRY.bytes_per_token / held > 1


def test_the_counters_are_tokens_times_bytes(codec: str, model: str) -> None:
    pool = served(codec, model)
    held = pool.transfer.codec.bytes_per_token
    for tokens in (16, 64, 256):
        pool.backup(tokens)
    pool.load(144)
    assert sample("encoded_bytes_total", codec, model) == (16 + 64 + 256) * held
    assert sample("decoded_bytes_total", codec, model) == 144 * held


def test_a_transfer_is_one_observation_however_many_chunks_and_layers(
    codec: str, model: str
) -> None:
    pool = served(codec, model)
    for done in (1, 2):
        pool.backup(CHUNKS * 64)
        pool.load_layers(CHUNKS * 64, range(GEOMETRY.layers - 1))
        assert sample("decode_seconds_count", codec, model) == done - 1
        assert sample("decoded_bytes_total", codec, model) == (
            (done - 1) * 256 * pool.transfer.codec.bytes_per_token
        )
        pool.load_layers(CHUNKS * 64, range(GEOMETRY.layers - 1, GEOMETRY.layers))
        assert sample("encode_seconds_count", codec, model) == done
        assert sample("decode_seconds_count", codec, model) == done
    assert 0 < sample("encode_seconds_sum", codec, model) < 60
    assert 0 < sample("decode_seconds_sum", codec, model) < 60


def test_a_transfer_of_no_tokens_is_none(codec: str, model: str) -> None:
    pool = served(codec, model)
    pool.backup(0)
    pool.load(0)
    assert sample("encode_seconds_count", codec, model) == 0
    assert sample("decode_seconds_count", codec, model) == 0


def test_the_bytes_are_those_of_an_unmeasured_transfer(codec: str, model: str) -> None:
    torch.manual_seed(0)
    measured = served(codec, model)
    torch.manual_seed(0)
    plain = Served(StagedTransfer(make_codec(codec, GEOMETRY), CPU))
    for pool in (measured, plain):
        pool.backup(SLOTS)
        pool.load(SLOTS)
    assert torch.equal(measured.arena.units, plain.arena.units)
    assert torch.equal(measured.keys, plain.keys)
    assert torch.equal(measured.values, plain.values)


def test_a_second_pool_of_a_process_is_counted_with_the_first(model: str) -> None:
    for _ in range(2):
        served("int8", model).backup(64)
    served("int4", model).backup(64)
    served("int8", f"{model}-b").backup(64)
    held = make_codec("int8", GEOMETRY).bytes_per_token
    assert sample("encoded_bytes_total", "int8", model) == 2 * 64 * held
    assert sample("encode_seconds_count", "int8", model) == 2
    assert sample("encode_seconds_count", "int4", model) == 1
    assert sample("encode_seconds_count", "int8", f"{model}-b") == 1


def test_a_refused_transfer_is_not_counted(codec: str, model: str) -> None:
    pool = served(codec, model)
    with pytest.raises(ValueError, match="no whole pages"):
        pool.backup(5)
    assert sample("encoded_bytes_total", codec, model) == 0
    pool.backup(16)
    assert sample("encode_seconds_count", codec, model) == 1


def test_a_transfer_that_fails_leaves_the_next_one_right(codec: str, model: str) -> None:
    pool = served(codec, model)
    pool.backup(16)

    def broken(hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
        raise OSError("no mover")

    slots = torch.arange(16)
    pool.load_layers(16, range(1))
    with pytest.raises(OSError, match="no mover"):
        pool.transfer.load(pool.keys[1], pool.values[1], slots, slots, broken)
    with pytest.raises(OSError, match="no mover"):
        pool.transfer.backup(pool.keys, pool.values, slots, slots, broken)
    assert sample("decode_seconds_count", codec, model) == 0
    pool.load(16)
    assert sample("decode_seconds_count", codec, model) == 1
    pool.backup(16)
    assert sample("encode_seconds_count", codec, model) == 2


# --- on a GPU ----------------------------------------------------------------------------------


@pytest.fixture
def pool_on_cuda(monkeypatch: pytest.MonkeyPatch, model: str) -> Served:
    """A pool whose clock is CUDA's, and CUDA's events a stand-in's."""
    DelayedEvent.begin()
    monkeypatch.setattr("hiqcache.staging.CPU_CHUNK_TOKENS", (64, 64))
    monkeypatch.setattr(torch.cuda, "Event", DelayedEvent)
    clock = _Spans.on
    monkeypatch.setattr(_Spans, "on", lambda device: clock(torch.device("cuda")))
    return served("int8", model)


def test_a_gpu_is_timed_when_it_gets_there_and_not_waited_for(
    pool_on_cuda: Served, model: str
) -> None:
    pool_on_cuda.backup(CHUNKS * 64)
    assert DelayedEvent.recorded == 2 * CHUNKS
    pool_on_cuda.backup(64)
    assert sample("encode_seconds_count", "int8", model) == 0, "nothing was executed yet"
    for _ in range(2 * CHUNKS - 1):
        DelayedEvent.pass_one()
        pool_on_cuda.backup(0)  # looks again
        assert sample("encode_seconds_count", "int8", model) == 0, "the last chunk is not done"
    DelayedEvent.pass_one()
    pool_on_cuda.backup(0)
    assert sample("encode_seconds_count", "int8", model) == 1
    assert sample("encode_seconds_sum", "int8", model) == pytest.approx(CHUNKS / 1000)
    DelayedEvent.pass_all()
    pool_on_cuda.backup(64)
    assert sample("encode_seconds_count", "int8", model) == 2, "each is observed once"
    assert sample("encode_seconds_sum", "int8", model) == pytest.approx((CHUNKS + 1) / 1000)
    held = pool_on_cuda.transfer.codec.bytes_per_token
    assert sample("encoded_bytes_total", "int8", model) == (256 + 64 + 64) * held


def test_either_direction_reports_what_the_other_finished(pool_on_cuda: Served, model: str) -> None:
    pool_on_cuda.backup(64)
    DelayedEvent.pass_all()
    pool_on_cuda.load(CHUNKS * 64)
    assert sample("encode_seconds_count", "int8", model) == 1
    assert sample("decode_seconds_count", "int8", model) == 0
    DelayedEvent.pass_all()
    pool_on_cuda.backup(64)
    assert sample("decode_seconds_count", "int8", model) == 1
    # Every layer of every chunk is a span of a millisecond.
    wanted = GEOMETRY.layers * CHUNKS / 1000
    assert sample("decode_seconds_sum", "int8", model) == pytest.approx(wanted)


def test_the_stand_in_refuses_what_cuda_would(pool_on_cuda: Served) -> None:
    start, end = DelayedEvent(enable_timing=True), DelayedEvent(enable_timing=True)
    start.record()
    end.record()
    with pytest.raises(AssertionError, match="not passed"):
        start.elapsed_time(end)
    with pytest.raises(AssertionError, match="waits"):
        end.synchronize()


# --- several processes -------------------------------------------------------------------------

WORKER = """
import sys
import torch
from tests.unit.test_metrics import served
torch.set_num_threads(1)
pool = served("int8", "shared")
pool.backup(64)
pool.load(64)
"""


def run_rank(script: str, **environment: str) -> None:
    paths = os.pathsep.join([str(PROJECT), str(PROJECT / "tools")])
    kept = {**os.environ, "PYTHONPATH": paths, **environment}
    subprocess.run([sys.executable, "-c", script], env=kept, check=True)


def test_ranks_that_share_a_registry_are_summed(tmp_path: Path) -> None:
    for _ in range(2):
        run_rank(WORKER, PROMETHEUS_MULTIPROC_DIR=str(tmp_path))
    together = CollectorRegistry()
    MultiProcessCollector(together, str(tmp_path))
    codec = make_codec("int8", GEOMETRY)

    def of(name: str) -> float:
        return sample(name, "int8", "shared", together)

    assert of("encoded_bytes_total") == of("decoded_bytes_total") == 2 * 64 * codec.bytes_per_token
    assert of("encode_seconds_count") == of("decode_seconds_count") == 2
    assert of("encode_seconds_sum") > 0 < of("decode_seconds_sum")
    assert of("bytes_per_token") == codec.bytes_per_token, "the ranks have the same"
    assert of("ratio") == GEOMETRY.bytes_per_token / codec.bytes_per_token
