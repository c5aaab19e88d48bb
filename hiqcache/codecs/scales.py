"""What the formats with one scale to several values share: finding it, its edges, its rounding."""

from __future__ import annotations

import torch

#: FP16 scales would be subnormal for values below 2**-7; BF16 has the range of the rows.
SCALE_DTYPE = torch.bfloat16

_LARGEST_SUBNORMAL = 2.0**-126 - 2.0**-133


def find_peaks(
    values: torch.Tensor, low: torch.Tensor, high: torch.Tensor, not_finite: torch.Tensor
) -> None:
    """Set ``high`` to the largest magnitudes, and ``not_finite`` where one is infinite or NaN.

    Parameters
    ----------
    values : torch.Tensor
        float32 ``[..., n]``.
    low, high, not_finite : torch.Tensor
        ``[...]``; float32, float32 and bool. ``low`` is overwritten.
    """
    torch.amin(values, dim=-1, out=low)
    torch.amax(values, dim=-1, out=high)
    torch.maximum(high, low.neg_(), out=high)
    # x - x is zero for a finite x and NaN for any other.
    torch.sub(high, high, out=low)
    torch.ne(low, low, out=not_finite)


def settle_scales(scale: torch.Tensor, not_finite: torch.Tensor) -> None:
    """Make subnormal scales zero, so that no flush-to-zero mode matters, and mark with NaN."""
    torch.threshold_(scale, _LARGEST_SUBNORMAL, 0.0)
    scale.masked_fill_(not_finite, float("nan"))


def store_rows(values: torch.Tensor, rows: torch.Tensor) -> None:
    """Round float32 ``values`` to ``rows``; what is past their largest number becomes that."""
    largest = torch.finfo(rows.dtype).max
    rows.copy_(values.clamp_(-largest, largest))
