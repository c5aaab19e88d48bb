r"""A rotation inside each head that spreads what stands out in one channel over all of them.

With the Hadamard matrix :math:`H_p` of a power of two, :math:`R = H_p / \sqrt p` is orthogonal and
its own inverse. Scales then fit a head's energy instead of its largest channel, and the error of a
restored value is a mean of many (Ashkboos et al., *QuaRot*, 2024).

A head of :math:`m p` values, with ``m`` odd and ``p`` a power of two, is ``m`` parts. Each is
rotated by ``R``, and across them the reflection :math:`I - \frac 2 m J` takes twice the mean of all
from each (96 = 3 * 32: two thirds of the sum of three). Both are symmetric and orthogonal, so the
whole is its own inverse too, and every channel reaches every other.

The sums are Pease's: each stage adds and subtracts the even and the odd elements and keeps the sums
in the first half, the differences in the second (*J. ACM* 15, 1968). A stage is one addition of
float32 for each element, in an order that no device or library chooses, so the bytes that a rotated
format stores do not depend on where it ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch

#: Rotated values are kept 256 times smaller, so that a sum of at most 256 of BF16's largest numbers
#: is finite in float32.
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
        """Values of a part: the largest power of two that divides ``dim``."""
        return self.dim & -self.dim

    @property
    def parts(self) -> int:
        """Parts of a head; an odd number."""
        return self.dim // self.order

    def rotate(self, values: torch.Tensor, spare: torch.Tensor) -> None:
        """Rotate ``values`` in place, 256 times smaller.

        Parameters
        ----------
        values, spare : torch.Tensor
            float32 ``[..., dim]``; ``spare`` is overwritten.
        """
        values.mul_(_SHIFT)
        self._apply(values, spare)

    def restore(self, values: torch.Tensor, spare: torch.Tensor) -> None:
        """Undo :meth:`rotate`."""
        self._apply(values, spare)
        values.mul_(1 / _SHIFT)

    def _apply(self, values: torch.Tensor, spare: torch.Tensor) -> None:
        parts, room = (x.unflatten(-1, (self.parts, self.order)) for x in (values, spare))
        self._transform(parts, room)
        if self.parts > 1:
            self._reflect(parts, room[..., :1, :])

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

    def _reflect(self, parts: torch.Tensor, total: torch.Tensor) -> None:
        first, *others = parts.split(1, -2)
        total.copy_(first)
        for part in others:
            total.add_(part)
        parts.sub_(total.mul_(2 / self.parts))
