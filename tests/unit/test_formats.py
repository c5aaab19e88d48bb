"""What every format of a block promises: whose bytes are whose, in any memory, on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from hiqcache.codecs.base import BlockFormat
from hiqcache.codecs.int4 import Int4Block
from hiqcache.codecs.int8 import Int8Block, Int8HadamardBlock
from hiqcache.codecs.raw import RawBlock
from hiqcache.geometry import PageRows
from tests.fixtures import int8_v1
from tests.unit.kv_rows import GARBAGE, decode, encode, from_bits, page_rows, paged, same_values

SCALED = [
    pytest.param(Int8Block, id="int8"),
    pytest.param(Int8HadamardBlock, id="int8-hadamard"),
    pytest.param(Int4Block, id="int4"),
]
FORMATS = [*SCALED, pytest.param(RawBlock, id="raw")]

Format = type[BlockFormat]
ScaledFormat = type[Int8Block] | type[Int4Block]


def scrambled_rows(tokens: int, heads: int, dim: int) -> torch.Tensor:
    """Finite numbers of every magnitude."""
    bits = [int8_v1.scrambled(n) & ~0x0080 for n in range(tokens * heads * dim)]
    return from_bits(bits, heads, dim)


def noise(tokens: int, heads: int, dim: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((tokens, heads, dim), generator=generator).bfloat16()


# --- pages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [2, 3, 16])
@pytest.mark.parametrize("dim", [64, 80, 96, 128])
@pytest.mark.parametrize("block_format", SCALED)
def test_a_page_holds_what_records_of_its_tokens_hold(
    block_format: ScaledFormat, dim: int, page_size: int
) -> None:
    rows = scrambled_rows(2 * page_size, 3, dim)
    record, page = block_format(page_rows(3, dim)), block_format(page_rows(3, dim, page_size))
    records, pages = encode(record, rows), encode(page, rows)
    for part in ("payload", "scales"):
        of_pages, of_records = getattr(page, part)(pages), getattr(record, part)(records)
        assert torch.equal(
            of_pages.flatten(0, 1).view(torch.uint8), of_records[:, 0].view(torch.uint8)
        )
    assert same_values(decode(page, pages), decode(record, records))


@given(
    heads=st.integers(1, 4),
    dim=st.sampled_from([2, 6, 48, 64, 80]),
    page_size=st.integers(1, 9),
    garbage=st.integers(0, 255),
)
@pytest.mark.parametrize("block_format", FORMATS)
def test_every_byte_of_a_block_is_written(
    block_format: Format, heads: int, dim: int, page_size: int, garbage: int
) -> None:
    rows = scrambled_rows(2 * page_size, heads, dim)
    block = block_format(page_rows(heads, dim, page_size))
    blocks = encode(block, rows, garbage)
    assert torch.equal(blocks, encode(block, rows, garbage ^ 0xFF))
    layout = block.layout  # type: ignore[attr-defined]
    assert not blocks[:, layout.payload_end : layout.scale_offset].any()
    assert not blocks[:, layout.used_bytes :].any()


# --- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 3])
@pytest.mark.parametrize("block_format", FORMATS)
def test_a_workspace_larger_than_the_call_and_used_before(
    block_format: Format, page_size: int
) -> None:
    block = block_format(page_rows(3, 16, page_size))
    pages = paged(scrambled_rows(20 * page_size, 3, 16), page_size)
    workspace = block.workspace(20, "cpu")
    blocks = torch.empty((20, block.block_bytes), dtype=torch.uint8)
    block.encode(pages, blocks, workspace)
    for count in (7, 1, 0, 20):
        few = torch.full((count, block.block_bytes), GARBAGE, dtype=torch.uint8)
        block.encode(pages[:count].flip(0), few, workspace)
        assert torch.equal(few, blocks[:count].flip(0))
        restored = torch.full_like(pages[:count], -7.0)
        block.decode(few, restored, workspace)
        assert same_values(restored.flatten(0, 1), decode(block, few))


VIEWS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "one layer of many": lambda arena, n: arena[:, 1, :n],
    "every other page": lambda arena, n: arena[::2, 0, :n],
    "one of interleaved K and V": lambda arena, n: arena[:4, 2, n:],
    "of layers": lambda arena, n: arena[..., :n],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("block_format", FORMATS)
def test_blocks_may_be_strided(block_format: Format, view: str) -> None:
    block = block_format(page_rows(2, 8, page_size=3))
    arena = torch.full((9, 3, 2 * block.block_bytes), GARBAGE, dtype=torch.uint8)
    blocks = VIEWS[view](arena, block.block_bytes)
    leading = blocks.shape[:-1]
    rows = scrambled_rows(leading.numel() * 3, 2, 8)
    pages = rows.view(*leading, 3, 2, 8)
    workspace = block.workspace(leading.numel(), "cpu")
    block.encode(pages, blocks, workspace)
    expected = encode(block, rows)
    assert torch.equal(blocks.reshape(expected.shape), expected)
    restored = torch.empty_like(pages)
    block.decode(blocks, restored, workspace)
    assert same_values(restored.flatten(0, -3), decode(block, expected))
    blocks.fill_(GARBAGE)
    assert (arena == GARBAGE).all()


@pytest.mark.parametrize("block_format", FORMATS)
def test_rows_may_be_strided(block_format: Format) -> None:
    block = block_format(page_rows(2, 8))
    fused = scrambled_rows(5, 4, 8)
    for rows in (fused[:, 2:], fused[::2, :2]):
        assert not rows.is_contiguous()
        blocks = encode(block, rows)
        assert torch.equal(blocks, encode(block, rows.contiguous()))
        cache = torch.full_like(fused, -7.0)
        target = cache[: rows.shape[0], 2:]
        block.decode(blocks, target.unsqueeze(1), block.workspace(5, "cpu"))
        assert same_values(target, decode(block, blocks))
        assert (cache[:, :2] == -7.0).all()


# --- devices -----------------------------------------------------------------------------------


@pytest.mark.parametrize("block_format", FORMATS)
def test_bytes_do_not_depend_on_the_number_of_threads(block_format: Format) -> None:
    block = block_format(page_rows(8, 96, page_size=4))
    rows = noise(1024, 8, 96)
    one = encode(block, rows)
    restored = decode(block, one)
    torch.set_num_threads(2)
    try:
        assert torch.equal(encode(block, rows), one)
        assert torch.equal(decode(block, one), restored)
    finally:
        torch.set_num_threads(1)


class Divisors(TorchDispatchMode):
    """Collects what is divided by."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if "div" in str(func):
            self.found.append(args[1])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("block_format", SCALED)
def test_nothing_is_divided_by_a_number(block_format: Format) -> None:
    # CUDA multiplies by the number's reciprocal, which rounds otherwise: about one in 10**5 of the
    # steps of INT4 would be another there.
    block = block_format(page_rows(2, 64))
    with Divisors() as divisors:
        decode(block, encode(block, noise(2, 2, 64)))
    assert divisors.found
    assert all(isinstance(by, torch.Tensor) and by.dim() > 0 for by in divisors.found)
    steps = torch.arange(1 << 24, dtype=torch.int32).add(127 << 23).view(torch.float32)
    differing = (steps / 7.5).bfloat16() != (steps * torch.tensor(1 / 7.5)).bfloat16()
    assert differing.sum() == 208


@pytest.mark.parametrize("block_format", FORMATS)
def test_flush_to_zero_changes_no_byte_of_a_head_above_2_to_the_minus_40(
    block_format: Format,
) -> None:
    rows = noise(16, 4, 64) * torch.logspace(-40, 100, 16, base=2).view(-1, 1, 1).bfloat16()
    rows[::3, ::2, ::5] = 2.0**-130  # an input that is flushed
    block = block_format(page_rows(4, 64))
    plain = encode(block, rows)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no flush-to-zero mode")
    try:
        flushed = encode(block, rows)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(flushed, plain)


# --- FP16 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_format", SCALED)
def test_fp16_rows_are_stored_as_the_same_values_of_bf16_are(block_format: Format) -> None:
    rows = noise(12, 3, 48)  # numbers that both types have
    assert torch.equal(rows.half().bfloat16(), rows)
    half = block_format(PageRows(4, 3, 48, torch.float16))
    blocks = encode(half, rows.half())
    assert torch.equal(blocks, encode(block_format(page_rows(3, 48, 4)), rows))
    # What is restored is rounded to 8 bits of BF16, or 11 of FP16.
    restored = decode(block_format(page_rows(3, 48, 4)), blocks)
    assert ((decode(half, blocks).float() - restored).abs() <= 2.0**-7 * restored.abs()).all()


def test_a_product_past_fp16s_largest_number_is_restored_as_that() -> None:
    # The step is 515.8, stored as 516, and 127 times that is nearer to FP16's infinity.
    block = Int8Block(PageRows(1, 1, 2, torch.float16))
    rows = torch.tensor([[[65504.0, -65504.0]]]).half()
    assert torch.equal(decode(block, encode(block, rows)), rows)


@pytest.mark.parametrize("block_format", SCALED)
def test_the_largest_numbers_of_fp16_stay_finite(block_format: Format) -> None:
    rows = noise(64, 2, 64).sign().half() * 65504
    block = block_format(PageRows(1, 2, 64, torch.float16))
    restored = decode(block, encode(block, rows))
    assert near(rows, restored)


# --- edges -------------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")
LARGEST = torch.finfo(torch.bfloat16).max
SUBNORMAL = 2.0**-127

#: Values that a head begins with, and a test of what is restored.
EDGES: dict[str, tuple[list[float], Callable[[torch.Tensor, torch.Tensor], bool]]] = {
    "NaN": ([NAN], lambda x, y: bool(y.isnan().all())),
    "-NaN": ([-NAN, 1.0], lambda x, y: bool(y.isnan().all())),
    "infinity": ([INF], lambda x, y: bool(y.isnan().all())),
    "-infinity": ([-INF], lambda x, y: bool(y.isnan().all())),
    "infinities": ([INF, -INF, NAN], lambda x, y: bool(y.isnan().all())),
    "largest numbers": ([LARGEST, -LARGEST] * 32, lambda x, y: near(x, y)),
    "one largest number": ([LARGEST] + [0.0] * 63, lambda x, y: near(x, y)),
    "all largest numbers": ([LARGEST] * 64, lambda x, y: near(x, y)),
    "zeros": ([0.0] * 64, lambda x, y: bool((y == 0).all())),
    "negative zeros": ([-0.0] * 64, lambda x, y: bool((y == 0).all())),
    "subnormal numbers": ([SUBNORMAL, -SUBNORMAL] * 32, lambda x, y: bool((y == 0).all())),
    "smallest number": ([2.0**-133] + [0.0] * 63, lambda x, y: bool((y == 0).all())),
}


def near(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Finite, and within an eighth of a head's length."""
    x, y = x.double(), y.double()
    return bool(y.isfinite().all() and (y - x).norm() <= x.norm() / 8)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("block_format", SCALED)
def test_an_edge_is_confined_to_its_head(
    block_format: ScaledFormat, page_size: int, edge: str
) -> None:
    first, holds = EDGES[edge]
    block = block_format(page_rows(3, 64, page_size))
    plain = noise(4, 3, 64)
    rows = plain.clone()
    rows[1, 1, : len(first)] = torch.tensor(first)
    blocks = encode(block, rows)
    restored = decode(block, blocks)
    assert holds(rows[1, 1], restored[1, 1])
    others = torch.ones(4, 3, dtype=torch.bool)
    others[1, 1] = False
    expected = encode(block, plain)
    for part in (block.payload, block.scales):
        found, unchanged = part(blocks).flatten(0, 1), part(expected).flatten(0, 1)
        assert torch.equal(found[others], unchanged[others])
    assert torch.equal(restored[others], decode(block, expected)[others])
    assert torch.equal(blocks[:, block.layout.used_bytes :], expected[:, block.layout.used_bytes :])


@pytest.mark.parametrize("edge", [e for e in EDGES if "NaN" in e or "inf" in e or "zero" in e])
@pytest.mark.parametrize("block_format", SCALED)
def test_an_edge_without_values_is_encoded_again_to_the_same_bytes(
    block_format: ScaledFormat, edge: str
) -> None:
    rows = noise(1, 1, 64)
    rows[0, 0, : len(EDGES[edge][0])] = torch.tensor(EDGES[edge][0])
    block = block_format(page_rows(1, 64))
    blocks = encode(block, rows)
    assert torch.equal(encode(block, decode(block, blocks)), blocks)
