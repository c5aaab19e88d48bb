"""What rotated INT8 and INT4 do to values, by references in float64, in integers and by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hiqcache.codecs.base import BlockFormat
from hiqcache.codecs.int4 import CLIPS, Int4Block
from hiqcache.codecs.int8 import Int8Block, Int8HadamardBlock
from hiqcache.fidelity import BF16_ROUNDOFF, round_to_bf16
from tests.fixtures import int8_v1
from tests.unit.kv_rows import (
    VALUE_BITS,
    decode,
    encode,
    from_bits,
    int8_rows,
    page_rows,
    same_values,
)
from tests.unit.rotations import SHIFT, matrix_of, sylvester

DIMS = [64, 80, 96, 112, 128, 192, 256]
LARGEST = torch.finfo(torch.bfloat16).max
#: A float32 sum of a head's values is this close to the exact one, by far.
FLOAT32 = 2.0**-19

RotatedFormat = type[Int8HadamardBlock] | type[Int4Block]
ROTATED = [
    pytest.param(Int8HadamardBlock, id="int8-hadamard"),
    pytest.param(Int4Block, id="int4"),
]


def noise(tokens: int, heads: int, dim: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((tokens, heads, dim), generator=generator).bfloat16()


def heads_of_every_kind(dim: int) -> torch.Tensor:
    """One head a row, ``[heads, 1, dim]``: noise, and what a quantiser or a rotation dislikes."""
    several = noise(48, 1, dim, seed=dim)
    several[8:16] *= torch.logspace(-60, 120, 8, base=2).view(-1, 1, 1).bfloat16()
    several[16:24, 0, dim // 3] += 40  # an outlier
    several[24:28, 0, ::17] *= 100
    several[28] = 3.0  # all energy in one rotated value
    several[29] = torch.arange(dim) - dim // 2
    several[30] = sylvester(256)[77, :dim]
    several[31] = 0
    several[31, 0, -1] = -5.0  # one value, all of the rotated ones alike
    several[32] = LARGEST
    several[33] = several[33].sign() * LARGEST
    several[34] = torch.where(torch.arange(dim) == 5, LARGEST, 1.0)
    # Rotated values half way between two steps, but for what BF16 takes.
    halves = several[36:].sign() * (torch.arange(dim) % 126 + 0.5)
    halves[..., 0] = 127
    several[36:] = (halves.double() @ matrix_of(dim)).bfloat16()
    return several


@dataclass(frozen=True)
class RoundTrip:
    """Heads before, rotated and after, in float64; and what is stored of them."""

    x: torch.Tensor  # [heads, dim], as are the next two
    y: torch.Tensor
    restored: torch.Tensor
    step: torch.Tensor  # [heads, groups, 1]
    levels: torch.Tensor  # [heads, groups, values]

    @classmethod
    def of(cls, rows: torch.Tensor, block_format: RotatedFormat) -> RoundTrip:
        dim = rows.shape[-1]
        block = block_format(page_rows(rows.shape[1], dim))
        blocks = encode(block, rows)
        payload = block.payload(blocks).flatten(0, 2)
        if isinstance(block, Int4Block):
            levels = torch.cat([payload & 15, payload >> 4], -1).double() - 7.5
            groups = block.groups
        else:
            levels, groups = payload.double(), 1
        x = rows.flatten(0, 1).double()
        y = x @ matrix_of(dim) * SHIFT
        # What float64 makes of a sum that is zero.
        y[y.abs() < 2.0**-40 * SHIFT * x.norm(dim=-1, keepdim=True)] = 0
        return cls(
            x=x,
            y=y,
            restored=decode(block, blocks).flatten(0, 1).double(),
            step=block.scales(blocks).double().view(-1, groups, 1),
            levels=levels.unflatten(-1, (groups, -1)),
        )

    @property
    def grouped(self) -> torch.Tensor:
        """The rotated values, ``[heads, groups, values]``."""
        return self.y.unflatten(-1, (self.step.shape[1], -1))

    @property
    def error(self) -> torch.Tensor:
        """Length of what each head is off by."""
        return (self.restored - self.x).norm(dim=-1)


# --- the float64 reference ---------------------------------------------------------------------


def assert_rounded(found: torch.Tensor, exact: torch.Tensor, slack: float) -> None:
    """A level is the nearest one, or where two nearly tie, either."""
    assert ((found - exact).abs() <= 0.5 + slack).all()


@pytest.mark.parametrize("dim", DIMS)
def test_rotated_int8_is_the_float64_quantiser_of_the_rotated_head(dim: int) -> None:
    trip = RoundTrip.of(heads_of_every_kind(dim), Int8HadamardBlock)
    peak = trip.y.abs().amax(-1)
    wanted = peak / 127
    # The step is the rounding of a number that float32 sums put this close to the exact one.
    bounds = [round_to_bf16(wanted * (1 + sign * FLOAT32)) for sign in (-1, 1)]
    step = trip.step[:, 0, 0]
    assert ((step == bounds[0]) | (step == bounds[1])).all()
    assert (step == round_to_bf16(wanted)).sum() > 0.9 * len(step)
    assert_rounded(trip.levels[:, 0], trip.y / trip.step[:, 0], 128 * FLOAT32)


@pytest.mark.parametrize("dim", DIMS)
def test_int4_is_the_float64_quantiser_of_the_rotated_head(dim: int) -> None:
    trip = RoundTrip.of(heads_of_every_kind(dim), Int4Block)
    quotient = (trip.grouped / trip.step).nan_to_num(0.0)  # of a group of zeros
    assert_rounded(trip.levels, quotient.clamp(-7.5, 7.5), 8 * FLOAT32)
    clips = torch.tensor(CLIPS, dtype=torch.float64)
    wanted = trip.grouped.abs().amax(-1, keepdim=True) / 7.5 * clips
    candidates = torch.cat([round_to_bf16(wanted * (1 + sign * FLOAT32)) for sign in (-1, 1)], -1)
    assert (trip.step == candidates).any(-1).all()


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("block_format", ROTATED)
def test_what_is_restored_is_rotated_back_and_rounded(
    block_format: RotatedFormat, dim: int
) -> None:
    trip = RoundTrip.of(heads_of_every_kind(dim), block_format)
    exact = (trip.levels * trip.step).flatten(1) @ matrix_of(dim) / SHIFT
    exact = exact.clamp(-LARGEST, LARGEST)
    off = FLOAT32 * exact.norm(dim=-1, keepdim=True)
    assert ((trip.restored - exact).abs() <= BF16_ROUNDOFF * trip.restored.abs() + off).all()


# --- the bounds --------------------------------------------------------------------------------


def used_of_int8s_bound(rows: torch.Tensor) -> torch.Tensor:
    """Share of the documented bound that each finite head's error uses."""
    trip = RoundTrip.of(rows, Int8HadamardBlock)
    step = trip.step[:, 0, 0] / SHIFT
    bound = math.sqrt(rows.shape[-1]) * step / 2 + BF16_ROUNDOFF * trip.restored.norm(dim=-1)
    return torch.where(step > 0, trip.error / bound, 0.0)


@pytest.mark.parametrize("dim", DIMS)
def test_the_bound_of_rotated_int8_holds(dim: int) -> None:
    used = used_of_int8s_bound(heads_of_every_kind(dim))
    assert 0.5 < used.max() <= 1


@settings(max_examples=200)
@given(rows=int8_rows())
def test_the_bound_of_rotated_int8_holds_for_any_rows(rows: torch.Tensor) -> None:
    assert used_of_int8s_bound(rows).max() <= 1


@pytest.mark.parametrize("dim", DIMS)
def test_the_bound_of_int4_holds(dim: int) -> None:
    # With a clip of 1, an error is at most half a step, a fifteenth of the group's largest; the
    # chosen clip's squared error is not more.
    trip = RoundTrip.of(heads_of_every_kind(dim), Int4Block)
    halves = trip.grouped.abs().amax(-1) / 15 * (1 + BF16_ROUNDOFF) / SHIFT
    bound = (halves.square() * trip.grouped.shape[-1]).sum(-1).sqrt()
    used = trip.error / (bound + BF16_ROUNDOFF * trip.restored.norm(dim=-1))
    assert 0.5 < used.max() <= 1


@pytest.mark.parametrize("dim", DIMS)
def test_the_chosen_clip_is_never_worse_than_none(dim: int) -> None:
    trip = RoundTrip.of(heads_of_every_kind(dim)[:32], Int4Block)
    whole = round_to_bf16(trip.grouped.abs().amax(-1, keepdim=True) / 7.5)
    levels = ((trip.grouped / whole).nan_to_num(0.0).floor() + 0.5).clamp(-7.5, 7.5)
    unclipped = (levels * whole - trip.grouped).square().sum(-1)
    chosen = (trip.levels * trip.step - trip.grouped).square().sum(-1)
    assert (chosen <= unclipped * (1 + FLOAT32)).all()
    assert chosen[:8].mean() < 0.95 * unclipped[:8].mean()  # of noise


# --- INT4 by hand and in integers --------------------------------------------------------------


def test_a_head_of_int4_by_hand() -> None:
    # Rotated, these are 7.5, -7.5, 0.5 and -0.5: the levels 15, 0, 8 and 7 of a step of 1.
    rows = torch.tensor([[[0.0, 8.0, 0.0, 7.0]]]).bfloat16()
    block = Int4Block(page_rows(1, 4))
    blocks = encode(block, rows)
    # The first half of the head lies in the low bits. The step is kept 256 times smaller.
    golden = bytes.fromhex("8f 70  80 3b")
    assert bytes(blocks[0, :4].tolist()) == golden
    assert not blocks[0, 4:].any()
    assert torch.equal(decode(block, blocks), rows)


def test_a_page_of_int4_by_hand() -> None:
    rows = torch.tensor([[[0.0, 8.0, 0.0, 7.0]], [[0.0, 16.0, 0.0, 14.0]]]).bfloat16()
    block = Int4Block(page_rows(1, 4, page_size=2))
    blocks = encode(block, rows)
    assert bytes(blocks[0, :8].tolist()) == bytes.fromhex("8f 70 8f 70  80 3b 00 3c")
    assert torch.equal(decode(block, blocks), rows)


@dataclass(frozen=True)
class ExactInt4:
    """A group's levels, step and squared error, in fractions."""

    levels: list[Fraction]
    step: Fraction
    error: Fraction

    @classmethod
    def of(cls, group: list[Fraction], clip: float) -> ExactInt4:
        wanted = max(map(abs, group)) / Fraction(15, 2) * Fraction(clip)
        bits = int8_v1.nearest(*(wanted * 2**133).as_integer_ratio())
        step = Fraction(int8_v1.units(bits), 2**133)
        outermost = Fraction(15, 2)
        levels = [
            min(max(Fraction(math.floor(v / step)) + Fraction(1, 2), -outermost), outermost)
            for v in group
        ]
        error = sum((n * step - v) ** 2 for n, v in zip(levels, group, strict=True))
        return cls(levels, step, Fraction(error))


@settings(max_examples=60)
@given(
    dim=st.sampled_from([4, 16, 64]),
    integers=st.lists(st.integers(-128, 128), min_size=64, max_size=64),
    outlier=st.integers(-32, 32),
    exponent=st.integers(-20, 20),
)
def test_levels_and_clip_are_those_of_exact_fractions(
    dim: int, integers: list[int], outlier: int, exponent: int
) -> None:
    integers[2] = outlier * 8
    values = torch.tensor(integers[:dim])
    if not values.any():
        values[0] = 1
    # Of four, 16 and 64 values the root is exact, and every sum is.
    rotated = (values @ sylvester(dim)).tolist()
    group = [Fraction(n) * Fraction(2) ** (exponent - 8) / math.isqrt(dim) for n in rotated]
    rows = (values.double() * 2.0**exponent).bfloat16().view(1, 1, dim)
    trip = RoundTrip.of(rows, Int4Block)
    candidates = [ExactInt4.of(group, clip) for clip in CLIPS]
    chosen = next(c for c in candidates if c.step == Fraction(trip.step.item()))
    assert chosen.levels == [Fraction(n) for n in trip.levels.flatten().tolist()]
    least = min(candidate.error for candidate in candidates)
    # Of errors that float32 does not tell apart, either.
    assert chosen.error <= least * (1 + Fraction(2) ** -18)
    if least == 0:
        assert chosen is next(candidate for candidate in candidates if candidate.error == 0)


# --- drift -------------------------------------------------------------------------------------


def generations(block: BlockFormat, rows: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Blocks of a first backup, and of one after each restore."""
    blocks = [encode(block, rows)]
    for _ in range(count - 1):
        blocks.append(encode(block, decode(block, blocks[-1])))
    return blocks


@pytest.mark.parametrize("dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("outlier", [0, 40])
@pytest.mark.parametrize("block_format", ROTATED)
def test_eight_backups_add_less_than_a_thousandth_to_the_error_of_one(
    block_format: RotatedFormat, outlier: int, dim: int
) -> None:
    rows = noise(256, 8, dim)
    rows[:, ::2, 3] += outlier
    block = block_format(page_rows(8, dim))
    first, *_, last = generations(block, rows, 8)
    changed = (first != last).double().mean().item()
    x = rows.double()
    errors = [(decode(block, blocks).double() - x).norm().item() for blocks in (first, last)]
    print(f"{block_format.__name__}, {dim} values: {changed:.1e} of the bytes, {errors}")
    assert changed < 2e-3
    assert errors[1] <= errors[0] * 1.001


@pytest.mark.parametrize("page_size", [1, 16])
def test_int8_does_not_drift(page_size: int) -> None:
    block = Int8Block(page_rows(8, 128, page_size))
    first, *others = generations(block, noise(256, 8, 128), 8)
    assert all(torch.equal(blocks, first) for blocks in others)


# --- edges -------------------------------------------------------------------------------------


@st.composite
def heads_with_an_edge(draw: st.DrawFn) -> torch.Tensor:
    dim = draw(st.sampled_from([2, 16, 24, 80]))
    bits = draw(st.lists(draw(VALUE_BITS), min_size=dim, max_size=dim))
    bits[draw(st.integers(0, dim - 1))] = draw(st.sampled_from([0x7F80, 0xFF80, 0x7FC0, 0xFFFF]))
    return from_bits(bits, 1, dim)


@pytest.mark.parametrize("block_format", ROTATED)
@given(rows=heads_with_an_edge())
def test_a_head_with_a_nan_or_an_infinity_is_nan_throughout(
    block_format: RotatedFormat, rows: torch.Tensor
) -> None:
    block = block_format(page_rows(1, rows.shape[-1]))
    blocks = encode(block, rows)
    assert block.scales(blocks).isnan().all()
    assert decode(block, blocks).isnan().all()


@pytest.mark.parametrize("block_format", ROTATED)
@given(rows=int8_rows())
def test_a_finite_head_stays_finite(block_format: RotatedFormat, rows: torch.Tensor) -> None:
    finite = rows.float().nan_to_num(0.0, LARGEST, -LARGEST).bfloat16().repeat(1, 1, 2)
    block = block_format(page_rows(*finite.shape[1:]))
    assert decode(block, encode(block, finite)).isfinite().all()


@pytest.mark.parametrize(("block_format", "levels"), [(Int8HadamardBlock, 127), (Int4Block, 7.5)])
def test_heads_below_the_smallest_step_become_zeros(
    block_format: RotatedFormat, levels: float
) -> None:
    # So many steps of 2**-126, 256 times larger.
    smallest = levels * 2.0**-118
    block = block_format(page_rows(1, 64))
    for peak, kept in ((smallest, True), (0.99 * smallest, False)):
        rows = torch.zeros(1, 1, 64)
        rows[..., 0] = peak * 8  # each rotated value is an eighth of it
        restored = decode(block, encode(block, rows.bfloat16()))
        assert bool(restored.any()) == kept


@pytest.mark.parametrize("block_format", ROTATED)
def test_zeros_of_either_sign_are_zeros(block_format: RotatedFormat) -> None:
    rows = torch.tensor([0.0, -0.0]).repeat(40).view(1, 1, 80).bfloat16()
    block = block_format(page_rows(1, 80))
    assert same_values(decode(block, encode(block, rows)), torch.zeros_like(rows))
