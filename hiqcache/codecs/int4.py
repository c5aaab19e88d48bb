r"""INT4 blocks: rotated heads, a BF16 scale for up to 64 values, a clip chosen by its error.

A head of ``d`` values is rotated (:mod:`hiqcache.codecs.hadamard`) and cut into ``ceil(d / 64)``
equal groups. With a step ``s`` a value is stored as one of 16 levels, none of which is zero, and
restored as

.. math:: \hat y = (u - 7.5)\, s, \qquad u = \min(\max(\lfloor y / s \rfloor + 8, 0), 15)

The rotation leaves values that are nearly Gaussian: their largest is rare, and a step that reaches
it is too coarse for the rest. So the step is one of ``c * max|y| / 7.5`` for the ``c`` in
:data:`CLIPS`, the one whose squared error over the group is least, the first of equals. Errors are
summed by halving, in an order of this file's, so the choice does not depend on where it is made.

Two values share a byte: the low four bits are of the first half of a head, the high four of the
second. A head with a NaN or an infinity is restored as NaN throughout, a head of zeros as zeros.
A second round trip may choose other steps; the drift is bounded by the error of one trip
(docs/formats.md has it measured).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hiqcache.codecs.base import BlockFormat, KVCodec, Workspace
from hiqcache.codecs.hadamard import HeadRotation
from hiqcache.codecs.int8 import Int8HadamardBlock
from hiqcache.codecs.layout import BlockLayout
from hiqcache.codecs.scales import SCALE_DTYPE, find_peaks, settle_scales, store_rows
from hiqcache.geometry import PageRows

GROUP_VALUES = 64
#: Shares of a group's largest magnitude that the outermost level may lie at.
CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65)

_LEVELS = 16
_OUTERMOST = (_LEVELS - 1) / 2


@dataclass(frozen=True)
class Int4Workspace(Workspace):
    """Temporaries of one stream's calls; ``groups`` are of a head."""

    values: torch.Tensor  # [blocks, page, heads, dim] float32
    spare: torch.Tensor  # the same
    levels: torch.Tensor  # [blocks, page, heads, dim] uint8
    low: torch.Tensor  # [blocks, page, heads, groups] float32
    high: torch.Tensor  # the same
    error: torch.Tensor  # the same
    least: torch.Tensor  # the same
    step: torch.Tensor  # the same
    scale: torch.Tensor  # [blocks, page, heads, groups] bfloat16
    candidate: torch.Tensor  # the same
    not_finite: torch.Tensor  # [blocks, page, heads, groups] bool
    better: torch.Tensor  # the same


class Int4Block(BlockFormat):
    """Two values to a byte and BF16 scales; 544 bytes a token for 8 heads of 128 values."""

    def __init__(self, rows: PageRows) -> None:
        super().__init__(rows)
        self.groups = -(-rows.dim // GROUP_VALUES)
        if rows.dim % 2 or rows.dim % self.groups:
            raise ValueError(
                f"heads of {rows.dim} values do not make {self.groups} equal group(s) of pairs; "
                "choose --hicache-l2-codec int8"
            )
        self.rotation = HeadRotation(rows.dim)
        self.layout = BlockLayout(
            rows.page_size, rows.row_values // 2, scales=rows.heads * self.groups
        )

    def workspace(self, blocks: int, device: torch.device | str) -> Int4Workspace:
        rows = (blocks, *self.rows.shape)
        groups = (*rows[:-1], self.groups)

        def empty(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        return Int4Workspace(
            values=empty(rows),
            spare=empty(rows),
            levels=empty(rows, torch.uint8),
            low=empty(groups),
            high=empty(groups),
            error=empty(groups),
            least=empty(groups),
            step=empty(groups),
            scale=empty(groups, SCALE_DTYPE),
            candidate=empty(groups, SCALE_DTYPE),
            not_finite=empty(groups, torch.bool),
            better=empty(groups, torch.bool),
        )

    def payload(self, blocks: torch.Tensor) -> torch.Tensor:
        """View ``[..., page_size, heads, dim / 2]`` uint8 of ``[..., block_bytes]`` bytes."""
        heads = (self.rows.heads, self.rows.dim // 2)
        return self.layout.payload(blocks).unflatten(-1, heads)

    def scales(self, blocks: torch.Tensor) -> torch.Tensor:
        """View ``[..., page_size, heads, groups]`` BF16 of ``[..., block_bytes]`` bytes."""
        return self.layout.scale_strip(blocks).unflatten(-1, (self.rows.heads, self.groups))

    def _grouped(self, values: torch.Tensor) -> torch.Tensor:
        return values.unflatten(-1, (self.groups, -1))

    def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: Int4Workspace) -> None:
        ws = workspace.shaped(rows.shape[:-3])
        ws.values.copy_(rows)
        self.rotation.rotate(ws.values, ws.spare)
        self._choose_scales(ws)
        ws.step.copy_(ws.scale)
        self._find_levels(ws)
        # A scale of NaN or zero has no quotients; any level restores it.
        torch.nan_to_num(ws.spare, nan=0.0, out=ws.spare)
        ws.levels.copy_(ws.spare.add_(_OUTERMOST))
        first, second = ws.levels.chunk(2, -1)
        torch.bitwise_or(first, second.bitwise_left_shift_(4), out=self.payload(blocks))
        self.scales(blocks).copy_(ws.scale)
        self.layout.zero_padding(blocks)

    def _choose_scales(self, ws: Int4Workspace) -> None:
        """Set ``scale`` to the candidate of least squared error."""
        find_peaks(self._grouped(ws.values), ws.low, ws.high, ws.not_finite)
        ws.high.div_(ws.low.fill_(_OUTERMOST))  # by a tensor, as in Int8Block
        ws.scale.copy_(ws.high)
        ws.least.fill_(float("inf"))
        for clip in CLIPS:
            torch.mul(ws.high, clip, out=ws.low)
            ws.candidate.copy_(ws.low)
            ws.step.copy_(ws.candidate)
            self._measure_error(ws)
            torch.lt(ws.error, ws.least, out=ws.better)
            torch.where(ws.better, ws.candidate, ws.scale, out=ws.scale)
            torch.minimum(ws.error, ws.least, out=ws.least)
        settle_scales(ws.scale, ws.not_finite)

    def _find_levels(self, ws: Int4Workspace) -> None:
        """Set ``spare`` to the values' levels, ``-7.5`` to ``7.5``, by ``step``."""
        levels, step = self._grouped(ws.spare), ws.step.unsqueeze(-1)
        torch.div(self._grouped(ws.values), step, out=levels)
        levels.floor_().add_(0.5).clamp_(-_OUTERMOST, _OUTERMOST)

    def _measure_error(self, ws: Int4Workspace) -> None:
        """Set ``error`` to the squared error that ``step`` leaves in each group."""
        self._find_levels(ws)
        errors = self._grouped(ws.spare).mul_(ws.step.unsqueeze(-1))
        errors.sub_(self._grouped(ws.values)).square_()
        left = errors.shape[-1]
        while left > 1:
            half = left // 2
            errors[..., :half].add_(errors[..., left - half : left])
            left -= half
        ws.error.copy_(errors[..., 0])

    def decode(self, blocks: torch.Tensor, rows: torch.Tensor, workspace: Int4Workspace) -> None:
        ws = workspace.shaped(rows.shape[:-3])
        payload = self.payload(blocks)
        first, second = ws.levels.chunk(2, -1)
        torch.bitwise_and(payload, _LEVELS - 1, out=first)
        torch.bitwise_right_shift(payload, 4, out=second)
        ws.values.copy_(ws.levels).sub_(_OUTERMOST)
        ws.step.copy_(self.scales(blocks))
        self._grouped(ws.values).mul_(ws.step.unsqueeze(-1))
        self.rotation.restore(ws.values, ws.spare)
        store_rows(ws.values, rows)


class Int4Codec(KVCodec):
    """INT4 keys and values."""

    id = "int4"
    key_format = Int4Block
    value_format = Int4Block


class K8V4Codec(KVCodec):
    """Rotated INT8 keys, to which a model is more sensitive, and INT4 values."""

    id = "k8v4"
    key_format = Int8HadamardBlock
    value_format = Int4Block
