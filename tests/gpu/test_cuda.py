"""The library on a CUDA device: the CPU's bytes, no waiting, and two streams at once."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hiqcache.codecs.int8 import Int8Codec  # noqa: E402
from hiqcache.geometry import KVGeometry  # noqa: E402
from hiqcache.staging import Move, StagedTransfer  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

LAYERS = 4


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
    """Host records in pinned memory, a chunk after another, so that every copy is contiguous.

    torch copies what is not contiguous through a temporary, and waits for it.
    """

    def __init__(self, transfer: StagedTransfer, chunks: int) -> None:
        self.transfer = transfer
        shape = (chunks, *transfer.backup_records.shape)
        self.records = torch.zeros(shape, dtype=torch.uint8).pin_memory()
        self.hosts = torch.arange(chunks * transfer.chunk_tokens, device="cuda")
        step = transfer.chunk_tokens
        # Which chunk some indices are, known without reading them.
        self.chunk = {self.hosts[i * step :].data_ptr(): i for i in range(chunks)}

    def store(self, hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
        """Move one whole chunk of every layer."""
        records = self.records[self.chunk[hosts.data_ptr()]]
        records.copy_(self.transfer.backup_records, non_blocking=True)

    def fetch(self, layer: int) -> Move:
        """Return the move of one layer."""

        def move(hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
            records = self.records[self.chunk[hosts.data_ptr()]]
            for component in range(2):
                into = self.transfer.load_records[component, layer]
                into.copy_(records[component, layer], non_blocking=True)

        return move


CHUNKS = 8


def test_both_directions_run_at_once_and_nothing_waits() -> None:
    codec = Int8Codec(KVGeometry(LAYERS, 8, 128, "cuda"))
    transfer = StagedTransfer(codec, torch.device("cuda"))
    arena = Arena(transfer, CHUNKS)
    tokens = CHUNKS * transfer.chunk_tokens
    cache = torch.randn(2, LAYERS, tokens, 8, 128, device="cuda").bfloat16()
    expected = torch.empty_like(cache)
    workspace = codec.workspace(tokens, "cuda")
    records = torch.empty((tokens, codec.record_bytes), dtype=torch.uint8, device="cuda")
    for component in range(2):
        for layer in range(LAYERS):
            codec.encode(cache[component, layer], records, workspace)
            codec.decode(records, expected[component, layer], workspace)
    slots = torch.arange(tokens, device="cuda")
    into = torch.zeros_like(cache)
    backing_up, loading = torch.cuda.Stream(), torch.cuda.Stream()
    backed_up = torch.cuda.Event()

    def back_up() -> None:
        with torch.cuda.stream(backing_up):
            transfer.backup(cache[0], cache[1], slots, arena.hosts, arena.store)
            backed_up.record()

    back_up()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(backing_up):
            torch.cuda._sleep(50_000_000)  # so that the loads are enqueued while it runs
        for _ in range(3):
            back_up()  # the same bytes again, while they are read
        with torch.cuda.stream(loading):
            for layer in range(LAYERS):
                k, v = into[0, layer], into[1, layer]
                transfer.load(k, v, slots, arena.hosts, arena.fetch(layer))
        assert not backed_up.query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert torch.equal(into, expected)
