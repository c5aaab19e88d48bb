"""The library on a CUDA device: the CPU's bytes, no waiting, and two streams at once."""

from __future__ import annotations

import itertools
from pathlib import Path

import conformance
import pytest

torch = pytest.importorskip("torch")

from hiqcache.codecs import codec_class, codec_names, make_codec  # noqa: E402
from hiqcache.codecs.base import KVCodec  # noqa: E402
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


def encoded(codec: KVCodec, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Units of K and V ``[..., tokens, kv_heads, dim]``, where those are."""
    page = codec.geometry.page_size
    k, v = (x.unflatten(-3, (-1, page)) for x in (keys, values))
    units = torch.empty((*k.shape[:-3], codec.unit.unit_bytes), dtype=torch.uint8, device=k.device)
    codec.encode(k, v, units, codec.workspace(units[..., 0].numel(), k.device))
    return units


def decoded(codec: KVCodec, units: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of units, where those are."""
    k, v = (
        torch.empty((*units.shape[:-1], *rows.shape), dtype=rows.dtype, device=units.device)
        for rows in (codec.geometry.keys, codec.geometry.values)
    )
    codec.decode(units, k, v, codec.workspace(units[..., 0].numel(), units.device))
    return k.flatten(-4, -3), v.flatten(-4, -3)


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize(
    ("kv_heads", "head_dim", "v_head_dim"), [(8, 128, 128), (1, 128, 128), (3, 64, 96), (2, 80, 80)]
)
@pytest.mark.parametrize("name", codec_names())
def test_a_unit_has_the_same_bytes_on_both_devices(
    name: str, kv_heads: int, head_dim: int, v_head_dim: int, page_size: int
) -> None:
    codec = codec_class(name)(KVGeometry(LAYERS, kv_heads, head_dim, v_head_dim, page_size))
    x = [rows(1024, kv_heads, dim) for dim in (head_dim, v_head_dim)]
    units = {device: encoded(codec, *(r.to(device) for r in x)) for device in ("cpu", "cuda")}
    assert torch.equal(units["cpu"], units["cuda"].cpu())
    pairs = zip(decoded(codec, units["cpu"]), decoded(codec, units["cuda"]), strict=True)
    for here, there in pairs:
        same = here.view(torch.int16) == there.cpu().view(torch.int16)
        assert (same | (here.isnan() & there.cpu().isnan())).all()


@pytest.mark.parametrize("strided", [[], ["--strided"]], ids=["whole", "strided"])
def test_every_format_gives_the_bytes_that_were_committed(strided: list[str]) -> None:
    manifest = Path(__file__).parents[1] / "fixtures" / "conformance.json"
    arguments = ["--device", "cuda", "--expect", str(manifest), "--quiet", *strided]
    assert conformance.main(["generate", *arguments]) == 0


class Arena:
    """Host units in pinned memory, a chunk after another, so that every copy is contiguous.

    torch copies what is not contiguous through a temporary, and waits for it. So whole units are
    copied, not the rows of their halves; chunks come in order.
    """

    def __init__(self, transfer: StagedTransfer, chunks: int) -> None:
        self.staged, self.fetched = transfer._backup.units, transfer._load.units
        shape = (chunks, *self.staged.shape)
        self.units = torch.zeros(shape, dtype=torch.uint8).pin_memory()
        self.stores = itertools.cycle(self.units)

    def store(self, host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
        """Move one whole chunk of every layer."""
        next(self.stores).copy_(self.staged, non_blocking=True)

    def fetch(self, layer: int) -> Move:
        """Return the move of one layer."""
        chunks = iter(self.units)

        def move(host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
            self.fetched[0].copy_(next(chunks)[layer], non_blocking=True)

        return move


CHUNKS = 8


@pytest.mark.parametrize("name", codec_names())
@pytest.mark.parametrize("page_size", [1, 64])
def test_both_directions_run_at_once_and_nothing_waits(name: str, page_size: int) -> None:
    codec = make_codec(name, KVGeometry(LAYERS, 8, 128, page_size=page_size))
    transfer = StagedTransfer(codec, torch.device("cuda"), 128)
    arena = Arena(transfer, CHUNKS)
    tokens = CHUNKS * transfer.chunk_tokens
    keys, values = torch.randn(2, LAYERS, tokens, 8, 128, device="cuda").bfloat16()
    expected = decoded(codec, encoded(codec, keys, values))
    slots = torch.arange(tokens, device="cuda")
    into = torch.zeros_like(keys), torch.zeros_like(values)
    backing_up, loading = torch.cuda.Stream(), torch.cuda.Stream()
    backed_up = torch.cuda.Event()

    def back_up() -> None:
        with torch.cuda.stream(backing_up):
            transfer.backup(keys, values, slots, slots, arena.store)
            backed_up.record()

    torch.cuda.synchronize()
    back_up()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(backing_up):
            torch.cuda._sleep(50_000_000)  # so that the loads are enqueued while it runs
        for _ in range(3):
            back_up()  # the same bytes again, while they are read
        with torch.cuda.stream(loading):
            for layer, (k, v) in enumerate(zip(*into, strict=True)):
                transfer.load(k, v, slots, slots, arena.fetch(layer))
        assert not backed_up.query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    for found, wanted in zip(into, expected, strict=True):
        assert torch.equal(found, wanted)
