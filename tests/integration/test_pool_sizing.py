"""Bytes and tokens of the host pool, from SGLang's own sizing and where the bytes are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.pool_host import common, mha_encoded
from sglang.srt.runtime_context import get_context

from .radix import DEVICE, Setup, radix, synchronize
from .releases import build_host_pool, limit_host_memory


@pytest.fixture
def untouched_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reserve the arena without populating it: 8 GB of address space, no memory."""
    limit_host_memory(monkeypatch, 10 * 10**9)
    monkeypatch.setattr(common, "alloc_mmap", lambda dims, dtype: torch.empty(dims, dtype=dtype))


QWEN3_8B = dict(layers=36, kv_heads=8, head_dim=128, device_tokens=64, page_size=1)


@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
@pytest.mark.parametrize(
    ("codec", "page", "bytes_per_token", "tokens"),
    [
        ("none", 1, 147_456, 54_254),
        ("none", 64, 147_456, 54_272),
        ("int8", 1, 82_944, 96_451),
        ("int8", 64, 74_880, 106_880),
        ("int8-hadamard", 64, 74_880, 106_880),
        ("k8v4", 64, 57_024, 140_352),
        ("int4", 64, 39_168, 204_288),
    ],
)
def test_qwen3_8b_at_8_gb(codec, page, bytes_per_token, tokens, layout, untouched_arena):
    geometry = QWEN3_8B | dict(page_size=page)
    setup = Setup(codec=codec, layout=layout, size_gb=8, **geometry)
    with radix(setup) as r:
        assert r.host.size_per_token == r.host.get_size_per_token() == bytes_per_token
        assert r.host.size == tokens
        assert r.host.kv_buffer.nbytes == tokens * bytes_per_token


def _changed(host, poison: int, back_up) -> torch.Tensor:
    arena = host.kv_buffer.view(torch.uint8).flatten()
    arena.fill_(poison)
    back_up()
    return arena != poison


@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
@pytest.mark.parametrize(
    ("codec", "page", "bytes_per_token"),
    [
        ("none", 1, 147_456),
        ("int8", 1, 82_944),
        ("int8", 16, 74_880),
        ("k8v4", 16, 57_024),
        ("int4", 16, 39_168),
    ],
)
def test_a_backup_writes_exactly_its_tokens_bytes(codec, page, bytes_per_token, layout):
    geometry = QWEN3_8B | dict(page_size=page)
    setup = Setup(codec=codec, layout=layout, ratio=2.0, **geometry)
    with radix(setup) as r:
        tokens = 48
        slots = r.insert(1, tokens)
        hosts = r.host_slots(slots).to(slots.device)

        def back_up():
            r.host.backup_from_device_all_layer(r.device, hosts, slots, "kernel")
            synchronize()

        # A byte that happens to equal one poison differs from the other.
        changed = _changed(r.host, 0xA5, back_up) | _changed(r.host, 0x5A, back_up)
        assert int(changed.sum()) == tokens * bytes_per_token


def test_a_pool_beyond_the_budget_is_refused_in_encoded_bytes(monkeypatch):
    limit_host_memory(monkeypatch, 7 * 10**9)
    setup = Setup(codec="int8", size_gb=8, **QWEN3_8B)
    with (
        pytest.raises(ValueError, match=r"Requesting 8\.00 GB but only have 7\.00 GB"),
        radix(setup),
    ):
        pass


@pytest.mark.parametrize(("codec", "saving"), [("int8", 8192 / 4160), ("int4", 8192 / 2176)])
def test_the_default_ratio_spends_what_a_raw_pool_would(codec, saving, monkeypatch):
    """SGLang's default ratio stands for memory; one that is given counts tokens."""
    args = Setup(codec=codec).server_args
    sizes = {}
    for chosen in (2.0, None):
        # The override gives resolved values only, so this stands in for what a command line gave;
        # test_engine.py has a ratio that was given to a real server.
        given = SimpleNamespace(hicache_ratio=chosen, enable_metrics=False)
        with get_context().override_server_args(**args), monkeypatch.context() as patch:
            context = SimpleNamespace(server_args=given)
            patch.setattr(mha_encoded, "get_context", lambda context=context: context)
            device = MHATokenToKVPool(640, 16, torch.bfloat16, 8, 128, 2, DEVICE, False)
            pool = build_host_pool(device)  # at the ratio 2.0 that the default resolves to
            sizes[chosen] = pool.size
            assert pool.kv_buffer.nbytes == pool.size * pool.size_per_token
    assert sizes[2.0] == 2 * 640 + 16
    assert sizes[None] == int(2 * 640 * saving) // 16 * 16 + 16
