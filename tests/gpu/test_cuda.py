"""The library on a CUDA device: the CPU's bytes, no waiting, and two streams at once."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hiqcache.codecs.int8 import Int8Codec  # noqa: E402
from hiqcache.geometry import KVGeometry  # noqa: E402
from hiqcache.staging import StagedTransfer  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

LAYERS, SLOTS, TOKENS = 4, 4096, 2500


def rows(tokens: int, kv_heads: int, head_dim: int) -> torch.Tensor:
    """Rows of every magnitude, with each documented edge in some head."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(tokens, kv_heads, head_dim, generator=generator)
    x *= torch.logspace(-38, 37, tokens).view(-1, 1, 1)
    x[0, 0, 0], x[1, 0, 1], x[2, 0] = float("nan"), float("-inf"), 0
    x[3, 0, 2] = torch.finfo(torch.bfloat16).max
    return x.bfloat16()


@pytest.mark.parametrize(("kv_heads", "head_dim"), [(8, 128), (1, 128), (3, 64), (2, 80), (5, 7)])
def test_a_record_has_the_same_bytes_on_both_devices(kv_heads: int, head_dim: int) -> None:
    x = rows(1000, kv_heads, head_dim)
    codec = Int8Codec(KVGeometry(LAYERS, kv_heads, head_dim, "cuda"))
    records, restored = {}, {}
    for device in ("cpu", "cuda"):
        workspace = codec.workspace(len(x), device)
        records[device] = torch.empty(
            (len(x), codec.record_bytes), dtype=torch.uint8, device=device
        )
        restored[device] = torch.empty_like(x, device=device)
        codec.encode(x.to(device), records[device], workspace)
        codec.decode(records[device], restored[device], workspace)
    assert torch.equal(records["cpu"], records["cuda"].cpu())
    same = restored["cpu"].view(torch.int16) == restored["cuda"].cpu().view(torch.int16)
    assert (same | (restored["cpu"].isnan() & restored["cuda"].cpu().isnan())).all()


class Arena:
    """Host records in pinned memory, moved by asynchronous copies."""

    def __init__(self, transfer: StagedTransfer) -> None:
        self.transfer = transfer
        shape = (2, LAYERS, SLOTS, transfer.codec.record_bytes)
        self.records = torch.zeros(shape, dtype=torch.uint8).pin_memory()

    def store(self, hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
        """Move every layer of a chunk whose host slots are consecutive."""
        first, count = self.first[hosts.data_ptr()], len(staging_rows)
        staged = self.transfer.backup_records[:, :, :count]
        self.records[:, :, first : first + count].copy_(staged, non_blocking=True)

    def fetch(self, layer: int):
        """Return the move of one layer."""

        def move(hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
            first, count = self.first[hosts.data_ptr()], len(staging_rows)
            stored = self.records[:, layer, first : first + count]
            self.transfer.load_records[:, layer, :count].copy_(stored, non_blocking=True)

        return move

    def slots(self, first: int, tokens: int) -> torch.Tensor:
        """Consecutive host slots; where a chunk of them starts is known without a wait."""
        hosts = torch.arange(first, first + tokens, device="cuda")
        step = self.transfer.chunk_tokens
        self.first = {hosts[i:].data_ptr(): first + i for i in range(0, tokens, step)}
        return hosts


def test_both_directions_run_at_once_and_nothing_waits() -> None:
    codec = Int8Codec(KVGeometry(LAYERS, 8, 128, "cuda"))
    transfer = StagedTransfer(codec, torch.device("cuda"))
    arena = Arena(transfer)
    cache = torch.randn(2, LAYERS, SLOTS, 8, 128, device="cuda").bfloat16()
    expected = torch.empty_like(cache[:, :, :TOKENS])
    workspace = codec.workspace(TOKENS, "cuda")
    records = torch.empty((TOKENS, codec.record_bytes), dtype=torch.uint8, device="cuda")
    for component in range(2):
        for layer in range(LAYERS):
            codec.encode(cache[component, layer, :TOKENS], records, workspace)
            codec.decode(records, expected[component, layer], workspace)
    device_slots = torch.arange(TOKENS, device="cuda")
    hosts = arena.slots(0, TOKENS)
    backing_up, loading = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()

    def back_up() -> None:
        with torch.cuda.stream(backing_up):
            transfer.backup(cache[0], cache[1], device_slots, hosts, arena.store)

    back_up()
    torch.cuda.synchronize()
    into = torch.zeros_like(cache)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            back_up()  # the same bytes again, while they are read
            with torch.cuda.stream(loading):
                for layer in range(LAYERS):
                    transfer.load(
                        into[0, layer], into[1, layer], device_slots, hosts, arena.fetch(layer)
                    )
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert torch.equal(into[:, :, :TOKENS], expected)
    assert not into[:, :, TOKENS:].any()
