"""Fixed rows of KV, made of integers: the same bits on every machine and with every release.

No generator of random numbers is asked and no text is parsed as a number. A value is put together
of its sign, exponent and fraction, or is a small integer, which BF16 and FP16 hold exactly, times a
power of two. Each head is of the next kind, so that every kind and every edge of a format is in
every shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

TOKENS = 64
_SIGN = 0x8000


@dataclass(frozen=True)
class Number:
    """A storage type of 16 bits: a sign, an exponent and a fraction.

    Parameters
    ----------
    dtype : torch.dtype
        The type.
    fraction_bits : int
        Bits of the fraction; the exponent has the rest of 15.
    """

    dtype: torch.dtype
    fraction_bits: int

    @property
    def largest_exponent(self) -> int:
        """Exponent field of the largest finite numbers."""
        return (1 << 15 - self.fraction_bits) - 2

    @property
    def infinity(self) -> int:
        """Bits of positive infinity."""
        return self.largest_exponent + 1 << self.fraction_bits

    @property
    def nan(self) -> int:
        """Bits of the quiet NaN without a payload."""
        return self.infinity | 1 << self.fraction_bits - 1

    def with_exponents(self, exponents: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Bits of numbers whose sign and fraction are noise."""
        fractions = noise & (1 << self.fraction_bits) - 1
        return noise & _SIGN | exponents << self.fraction_bits | fractions

    def scaled(self, integers: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
        """Bits of ``integers * 2**exponents``, for integers that 8 bits hold and normal results."""
        bits = integers.to(self.dtype).view(torch.int16).long() & 0xFFFF
        return torch.where(integers == 0, bits, bits + (exponents << self.fraction_bits))


NUMBERS = {"bf16": Number(torch.bfloat16, 7), "fp16": Number(torch.float16, 10)}

#: ``kind(head, channel, number)``: bits of a head's channels, int64.
Kind = Callable[[torch.Tensor, torch.Tensor, Number], torch.Tensor]


def scrambled(n: torch.Tensor) -> torch.Tensor:
    """Sixteen bits that look like noise (the multipliers are Knuth's and a Mersenne prime)."""
    return (n * 2654435761 >> 11 ^ n * 8191) & 0xFFFF


def _noise(n: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return scrambled(n * 256 + d)


def _bell(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    """Sums of four: nearly Gaussian, as rotated heads are."""
    total = sum(scrambled(4 * (n * 256 + d) + i) % 64 for i in range(4))
    return number.scaled(torch.as_tensor(total) - 126, n // 16 % 16 - 8)


def _outlier(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    """One channel far above the others, as keys have."""
    integers = _noise(n, d) % 15 - 7
    return number.scaled(torch.where(d == n % d.shape[-1], 240, integers), n // 16 % 16 - 8)


def _one_scale(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    noise = _noise(n, d)
    return number.with_exponents(
        3 + scrambled(n) % (number.largest_exponent - 3) - noise % 4, noise
    )


def _any_finite(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    noise = _noise(n, d)
    return number.with_exponents(scrambled(noise + d) % (number.largest_exponent + 1), noise)


def _ties(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    """Odd multiples of half an INT8 step."""
    integers = 2 * ((d * 5 + n) % 253 - 126) + 1
    return number.scaled(torch.where(d == 0, 254, integers), n // 16 % 16 - 8)


def _zeros(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    return torch.where((n + d) % 3 == 0, _SIGN, 0)


def _subnormal(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    noise = _noise(n, d)
    return number.with_exponents(torch.zeros_like(noise), noise)


def _small(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    """Around the smallest normal number, where a scale becomes subnormal."""
    noise = _noise(n, d)
    return number.with_exponents(scrambled(noise) % (n // 16 % 10 + 1), noise)


def _large(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    """Up to the largest number, where a product overflows."""
    noise = _noise(n, d)
    bits = number.with_exponents(number.largest_exponent - noise % 3, noise)
    return torch.where(d == n % d.shape[-1], number.infinity - 1, bits)


def _with_nan(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    payload = number.infinity + 1 + n % ((1 << number.fraction_bits) - 1)
    return torch.where(d == n % d.shape[-1], payload, _any_finite(n, d, number))


def _with_infinity(n: torch.Tensor, d: torch.Tensor, number: Number) -> torch.Tensor:
    infinity = number.infinity | n // 16 % 2 * _SIGN
    return torch.where(d == n % d.shape[-1], infinity, _bell(n, d, number))


KINDS: tuple[Kind, ...] = (
    _bell, _one_scale, _outlier, _ties, _any_finite, _bell, _zeros, _subnormal, _small, _large,
    _bell, _with_nan, _with_infinity,
)  # fmt: skip


def rows(heads: int, dim: int, number: Number, first_head: int) -> torch.Tensor:
    """Rows ``[TOKENS, heads, dim]``, whose heads are numbered from ``first_head``."""
    head = torch.arange(first_head, first_head + TOKENS * heads).unsqueeze(1)
    channel = torch.arange(dim).unsqueeze(0)
    bits = torch.empty((TOKENS * heads, dim), dtype=torch.int64)
    for at, kind in enumerate(KINDS):
        every = slice(at, None, len(KINDS))
        bits[every] = kind(head[every], channel, number)
    return bits.short().view(number.dtype).view(TOKENS, heads, dim)
