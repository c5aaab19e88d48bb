"""The rotation of heads: an orthogonal matrix, applied by additions in one order everywhere."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hiqcache.codecs.hadamard import HeadRotation
from tests.unit.rotations import SHIFT, matrix_of, sylvester

DIMS = [1, 2, 7, 64, 80, 96, 112, 128, 192, 200, 255, 256]
POWERS_OF_TWO = [1, 2, 4, 8, 16, 32, 64, 128, 256]
LARGEST = torch.finfo(torch.bfloat16).max


def roundings(dim: int) -> int:
    """Of an element on its way: a factor and the stages, the sum of the parts and its factor."""
    rotation = HeadRotation(dim)
    return rotation.order.bit_length() + rotation.parts + 2


def rotate(values: torch.Tensor) -> torch.Tensor:
    rotated = values.clone()
    HeadRotation(values.shape[-1]).rotate(rotated, torch.full_like(values, math.nan))
    return rotated


def restore(rotated: torch.Tensor) -> torch.Tensor:
    values = rotated.clone()
    HeadRotation(rotated.shape[-1]).restore(values, torch.full_like(rotated, math.nan))
    return values


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).bfloat16().float()


# --- the matrix --------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", POWERS_OF_TWO)
def test_a_power_of_two_is_sylvesters_matrix(dim: int) -> None:
    h = sylvester(dim)
    assert torch.equal(h @ h, dim * torch.eye(dim, dtype=torch.int64))
    # Unit vectors make no sum of two values, so each entry is one rounding of 1/sqrt(p).
    found = rotate(torch.eye(dim)) / SHIFT
    assert torch.equal(found, h * torch.tensor(1 / math.sqrt(dim)))


@pytest.mark.parametrize("dim", [4, 16, 64, 256])
def test_integers_are_rotated_without_an_error(dim: int) -> None:
    # Powers of four have an exact root.
    integers = torch.arange(-3 * dim, 3 * dim).view(6, dim)
    exact = (integers @ sylvester(dim)) / math.sqrt(dim) * SHIFT
    assert torch.equal(rotate(integers.float()), exact)
    assert torch.equal(restore(exact), integers.float())


@pytest.mark.parametrize("dim", DIMS)
def test_it_is_the_documented_matrix(dim: int) -> None:
    x = noise(40, dim)
    exact = x.double() @ matrix_of(dim) * SHIFT
    error = (rotate(x).double() - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert error.max() < roundings(dim) * 2.0**-24


@pytest.mark.parametrize("dim", DIMS)
def test_the_matrix_is_orthogonal_and_its_own_inverse(dim: int) -> None:
    m = matrix_of(dim)
    assert torch.equal(m, m.T)
    assert torch.allclose(m @ m, torch.eye(dim, dtype=torch.float64), atol=1e-14, rtol=0)
    x = noise(3, dim)
    assert torch.equal(restore(x * SHIFT), rotate(x) / SHIFT)


@pytest.mark.parametrize("dim", DIMS)
def test_restoring_undoes_rotating(dim: int) -> None:
    x = noise(40, dim)
    error = (restore(rotate(x)) - x).double().norm(dim=-1) / x.double().norm(dim=-1)
    assert error.max() < 2 * roundings(dim) * 2.0**-24


@pytest.mark.parametrize(
    ("dim", "parts", "own", "others"),
    [
        (64, 1, 1.0, 1.0),
        (80, 5, 3 / 5, 2 / 5),
        (96, 3, 1 / 3, 2 / 3),
        (112, 7, 5 / 7, 2 / 7),
        (128, 1, 1.0, 1.0),
        (192, 3, 1 / 3, 2 / 3),
        (256, 1, 1.0, 1.0),
    ],
)
def test_every_channel_reaches_every_other(dim: int, parts: int, own: float, others: float) -> None:
    rotation = HeadRotation(dim)
    assert rotation.parts == parts
    shares = (rotate(torch.eye(dim)) / SHIFT).abs() * math.sqrt(rotation.order)
    within = torch.block_diag(*[torch.ones(rotation.order, rotation.order)] * parts).bool()
    assert torch.allclose(shares, torch.where(within, own, others))


@pytest.mark.parametrize("dim", [0, -1, 257, 320, 512])
def test_other_sizes_are_refused(dim: int) -> None:
    with pytest.raises(ValueError, match=rf"^heads of {dim} values are not rotated, at most 256"):
        HeadRotation(dim)


# --- the order of additions --------------------------------------------------------------------


def recursive(values: list[float]) -> list[float]:
    """Sylvester's recursion, each sum rounded to float32: ``[H a + H b, H a - H b]``."""
    if len(values) == 1:
        return values
    half = len(values) // 2
    a, b = torch.tensor(recursive(values[:half])), torch.tensor(recursive(values[half:]))
    return [*(a + b).tolist(), *(a - b).tolist()]


@pytest.mark.parametrize("dim", [2, 8, 64, 128, 256])
def test_sums_are_those_of_sylvesters_recursion(dim: int) -> None:
    x = noise(2, dim, seed=dim)
    scaled = x * SHIFT * torch.tensor(1 / math.sqrt(dim))
    assert rotate(x).tolist() == [recursive(row) for row in scaled.tolist()]


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one at a time": lambda x: torch.stack([rotate(row) for row in x.flatten(0, 1)]).view_as(x),
    "of another shape": lambda x: rotate(x.flatten(0, 1)).view_as(x),
    "permuted": lambda x: rotate(x.transpose(0, 1).contiguous()).transpose(0, 1),
    "strided": lambda x: _rotate_strided(x),
}


def _rotate_strided(x: torch.Tensor) -> torch.Tensor:
    """In memory that holds other things between the values."""
    wide = torch.full((*x.shape[:-1], 2 * x.shape[-1]), 3.0)
    spare = torch.full_like(wide, 5.0)
    values = wide[..., 1::2].copy_(x)
    HeadRotation(x.shape[-1]).rotate(values, spare[..., ::2])
    assert (wide[..., ::2] == 3.0).all() and (spare[..., 1::2] == 5.0).all()
    return values


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [64, 80, 96, 128, 256])
def test_bits_do_not_depend_on_how_heads_lie(dim: int, layout: str, threads: int) -> None:
    x = noise(37, 9, dim, seed=dim)
    expected = rotate(x)
    torch.set_num_threads(threads)
    try:
        assert torch.equal(LAYOUTS[layout](x), expected)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("dim", [96, 128])
def test_bits_do_not_depend_on_the_number_of_threads(dim: int) -> None:
    x = noise(4096, 8, dim)
    one = rotate(x)
    torch.set_num_threads(2)
    try:
        assert torch.equal(rotate(x), one)
        assert torch.equal(restore(one), restore(one.clone()))
    finally:
        torch.set_num_threads(1)


# --- range -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", DIMS)
def test_the_largest_numbers_do_not_overflow(dim: int) -> None:
    signs = [torch.ones(dim), sylvester(256)[77, :dim].float(), matrix_of(dim)[-1].sign()]
    for sign in signs:
        rotated = rotate(sign.float() * LARGEST)
        length = rotated.double().norm().item()
        assert length == pytest.approx(math.sqrt(dim) * LARGEST * SHIFT, rel=1e-5)


@given(st.integers(-140, 127), st.sampled_from(DIMS))
def test_lengths_are_kept_at_any_scale(exponent: int, dim: int) -> None:
    x = noise(1, dim, seed=exponent + 200).clamp(-1, 1) * 2.0**exponent
    x = x.bfloat16().float()
    rotated = rotate(x).double()
    # Where float32 is subnormal, each rounding may be half of the smallest number.
    slack = roundings(dim) * (2.0**-24 * x.double().norm() + math.sqrt(dim) * 2.0**-150 / SHIFT)
    assert abs(rotated.norm() / SHIFT - x.double().norm()) <= slack
