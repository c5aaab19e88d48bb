r"""A rotation inside each head that spreads what stands out in one channel over all of them.

With the Hadamard matrix :math:`H_p` of a power of two, :math:`R = H_p / \sqrt p` is orthogonal and
its own inverse. Scales then fit a head's energy instead of its largest channel, and the error of a
restored value is a mean of many (Ashkboos et al., *QuaRot*, 2024).

A head whose size is no power of two is rotated twice, over its first ``p`` values and then over its
last ``p``, with ``p`` the largest power of two below its size: 96 = 64 + 32 is rotated over 0..63
and 32..95. The two overlap, so that every channel reaches every other, and their product is
orthogonal.

The sums are Pease's: each stage adds and subtracts the even and the odd elements and keeps the sums
in the first half, the differences in the second (*J. ACM* 15, 1968). A stage is one addition of
float32 for each element, in an order that no device or library chooses, so the bytes that a rotated
format stores do not depend on where it ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch

#: Rotated values are kept 256 times smaller, so that a sum of BF16's largest numbers, over at most
#: 256 values and twice, is finite in float32.
_SHIFT = 2.0**-8


@dataclass(frozen=True)
class HeadRotation:
    """The rotation of heads of ``dim`` values.

    Parameters
    ----------
    dim : int
        At most 256.

    Raises
    ------
    ValueError
        For more.
    """

    dim: int

    def __post_init__(self) -> None:
        if not 1 <= self.dim <= 256:
            raise ValueError(
                f"heads of {self.dim} values are not rotated, at most 256 are; "
                "choose --hicache-l2-codec int8"
            )

    @property
    def order(self) -> int:
        """Largest power of two that is not above ``dim``."""
        return 1 << (self.dim.bit_length() - 1)

    @property
    def _spans(self) -> list[slice]:
        first, last = slice(0, self.order), slice(self.dim - self.order, self.dim)
        return [first] if first == last else [first, last]

    def rotate(self, values: torch.Tensor, spare: torch.Tensor) -> None:
        """Rotate ``values`` in place, 256 times smaller.

        Parameters
        ----------
        values, spare : torch.Tensor
            float32 ``[..., dim]``; ``spare`` is overwritten.
        """
        values.mul_(_SHIFT)
        for span in self._spans:
            self._transform(values[..., span], spare[..., span])

    def restore(self, values: torch.Tensor, spare: torch.Tensor) -> None:
        """Undo :meth:`rotate`."""
        for span in reversed(self._spans):
            self._transform(values[..., span], spare[..., span])
        values.mul_(1 / _SHIFT)

    def _transform(self, values: torch.Tensor, spare: torch.Tensor) -> None:
        half = self.order // 2
        source, target = values.mul_(1 / sqrt(self.order)), spare
        for _ in range(self.order.bit_length() - 1):
            even, odd = source[..., 0::2], source[..., 1::2]
            torch.add(even, odd, out=target[..., :half])
            torch.sub(even, odd, out=target[..., half:])
            source, target = target, source
        if source is spare:
            values.copy_(spare)
