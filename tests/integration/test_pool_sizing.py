"""Bytes and tokens of the host pool, from SGLang's own sizing and where the bytes are."""

from __future__ import annotations

import pytest
import torch
from sglang.srt.mem_cache.pool_host import common

from .radix import Setup, radix, synchronize
from .releases import limit_host_memory


@pytest.fixture
def untouched_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reserve the arena without populating it: 8 GB of address space, no memory."""
    limit_host_memory(monkeypatch, 10 * 10**9)
    monkeypatch.setattr(common, "alloc_mmap", lambda dims, dtype: torch.empty(dims, dtype=dtype))


QWEN3_8B = dict(layers=36, kv_heads=8, head_dim=128, device_tokens=64, page_size=1)


@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
@pytest.mark.parametrize(
    ("codec", "bytes_per_token", "tokens"), [("none", 147_456, 54_254), ("int8", 82_944, 96_451)]
)
def test_qwen3_8b_at_8_gb(codec, bytes_per_token, tokens, layout, untouched_arena):
    setup = Setup(codec=codec, layout=layout, size_gb=8, **QWEN3_8B)
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
@pytest.mark.parametrize(("codec", "bytes_per_token"), [("none", 147_456), ("int8", 82_944)])
def test_a_backup_writes_exactly_its_tokens_bytes(codec, bytes_per_token, layout):
    setup = Setup(codec=codec, layout=layout, ratio=2.0, **QWEN3_8B)
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
