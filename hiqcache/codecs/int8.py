r"""INT8 blocks: symmetric, one BF16 scale per token and head.

With ``s = bf16(max|x| / 127)`` over a head, an element is stored as ``q = round(x / s)`` (float32,
true division, half to even) and restored as ``bf16(q * s)``. Where ``s`` is a normal BF16 number

.. math:: |\hat x - x| \le s / 2 + 2^{-8} |\hat x|

(:mod:`hiqcache.fidelity` verifies it), no quotient rounds past 127, and encoding what was decoded
gives the same bytes, so a node that is backed up again after a restore does not drift. (A device
that flushes subnormal *inputs* to zero changes elements below ``2**-126``, to zeros.)

At the edges, each confined to the head it occurs in:

=====================================  ==========================================================
a head                                 is stored and restored as
=====================================  ==========================================================
with a NaN                             a NaN scale and zeros: NaN throughout. Attention would turn
                                       the one NaN into many; hiding it would hide a fault.
with an infinity                       the same: NaN throughout.
so small that ``s`` is subnormal       zeros; the error is ``max|x| < 127.5 * 2**-126``, and no
                                       device's flush-to-zero mode changes the bytes.
holding BF16's largest number          ``s = 2**121``, the largest scale whose ``127 * s`` is finite
                                       in BF16: the largest number restores as ``254/255`` of
                                       itself, within ``s / 2``.
of zeros (of either sign)              exact zeros
=====================================  ==========================================================

FP16 rows are stored the same way; a product past FP16's largest number restores as that number.

``int8-hadamard`` rotates each head before it quantises and after it restores
(:mod:`hiqcache.codecs.hadamard`), in the same bytes. The rotation keeps lengths, so over a head

.. math:: \lVert \hat x - x \rVert_2 \le \sqrt{d}\, (s / 2) + 2^{-8} \lVert \hat x \rVert_2

with ``s`` the step of the rotated head. An edge concerns the whole head, as above, but that a head
with BF16's largest numbers is restored within its bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hiqcache.codecs.base import BlockFormat, KVCodec, Workspace
from hiqcache.codecs.hadamard import HeadRotation
from hiqcache.codecs.layout import BlockLayout
from hiqcache.codecs.scales import SCALE_DTYPE, find_peaks, settle_scales, store_rows
from hiqcache.geometry import PageRows

_LEVELS = 127
#: The largest scale whose ``127 * s`` is finite in BF16.
_LARGEST_SCALE = 2.0**121


@dataclass(frozen=True)
class Int8Workspace(Workspace):
    """Temporaries of one stream's calls."""

    values: torch.Tensor  # [blocks, page, heads, dim] float32
    low: torch.Tensor  # [blocks, page, heads] float32
    high: torch.Tensor  # [blocks, page, heads] float32
    scale: torch.Tensor  # [blocks, page, heads] bfloat16
    not_finite: torch.Tensor  # [blocks, page, heads] bool


@dataclass(frozen=True)
class RotatedInt8Workspace(Int8Workspace):
    """The same, and room for a rotation."""

    spare: torch.Tensor  # [blocks, page, heads, dim] float32


class Int8Block(BlockFormat):
    """INT8 payload and BF16 scales; 1040 bytes a token for 8 heads of 128 values."""

    def __init__(self, rows: PageRows) -> None:
        super().__init__(rows)
        self.layout = BlockLayout(rows.page_size, rows.row_values, scales=rows.heads)

    def workspace(self, blocks: int, device: torch.device | str) -> Int8Workspace:
        rows, heads = self.rows.shape, self.rows.shape[:2]
        return Int8Workspace(
            values=torch.empty((blocks, *rows), dtype=torch.float32, device=device),
            low=torch.empty((blocks, *heads), dtype=torch.float32, device=device),
            high=torch.empty((blocks, *heads), dtype=torch.float32, device=device),
            scale=torch.empty((blocks, *heads), dtype=SCALE_DTYPE, device=device),
            not_finite=torch.empty((blocks, *heads), dtype=torch.bool, device=device),
        )

    def payload(self, blocks: torch.Tensor) -> torch.Tensor:
        """View ``[..., page_size, heads, dim]`` INT8 of ``[..., block_bytes]`` bytes."""
        levels = self.layout.payload(blocks).view(torch.int8)
        return levels.unflatten(-1, (self.rows.heads, self.rows.dim))

    def scales(self, blocks: torch.Tensor) -> torch.Tensor:
        """View ``[..., page_size, heads]`` BF16 of ``[..., block_bytes]`` bytes."""
        return self.layout.scale_strip(blocks)

    def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: Int8Workspace) -> None:
        ws = workspace.shaped(rows.shape[:-3])
        ws.values.copy_(rows)
        self._quantise(ws)
        self.payload(blocks).copy_(ws.values)
        self.scales(blocks).copy_(ws.scale)
        self.layout.zero_padding(blocks)

    def _quantise(self, ws: Int8Workspace) -> None:
        find_peaks(ws.values, ws.low, ws.high, ws.not_finite)
        # By a tensor: a device may multiply by a number's reciprocal, and the bytes be its own.
        ws.high.div_(ws.low.fill_(_LEVELS))
        ws.scale.copy_(ws.high).clamp_(max=_LARGEST_SCALE)
        settle_scales(ws.scale, ws.not_finite)
        ws.low.copy_(ws.scale)  # the quotient is by the scale as stored
        torch.div(ws.values, ws.low.unsqueeze(-1), out=ws.values)
        # A scale of zero or NaN leaves no finite quotient, and every other one leaves only those.
        torch.nan_to_num(ws.values, nan=0.0, posinf=0.0, neginf=0.0, out=ws.values)
        ws.values.round_().clamp_(-_LEVELS, _LEVELS)

    def decode(self, blocks: torch.Tensor, rows: torch.Tensor, workspace: Int8Workspace) -> None:
        ws = workspace.shaped(rows.shape[:-3])
        ws.values.copy_(self.payload(blocks))
        ws.low.copy_(self.scales(blocks))
        ws.values.mul_(ws.low.unsqueeze(-1))  # exact in float32: 7 bits times 8 bits
        self._restore(ws)
        store_rows(ws.values, rows)

    def _restore(self, ws: Int8Workspace) -> None:
        """Undo what came before :meth:`_quantise`."""


class Int8HadamardBlock(Int8Block):
    """INT8 blocks of rotated heads."""

    def __init__(self, rows: PageRows) -> None:
        super().__init__(rows)
        self.rotation = HeadRotation(rows.dim)

    def workspace(self, blocks: int, device: torch.device | str) -> RotatedInt8Workspace:
        plain = super().workspace(blocks, device)
        return RotatedInt8Workspace(**vars(plain), spare=torch.empty_like(plain.values))

    def _quantise(self, ws: RotatedInt8Workspace) -> None:  # type: ignore[override]
        self.rotation.rotate(ws.values, ws.spare)
        super()._quantise(ws)

    def _restore(self, ws: RotatedInt8Workspace) -> None:  # type: ignore[override]
        self.rotation.restore(ws.values, ws.spare)


class Int8Codec(KVCodec):
    """Without a rotation: 1152 bytes for a record of 8 heads of 128 values."""

    id = "int8"
    key_format = Int8Block
    value_format = Int8Block


class Int8HadamardCodec(KVCodec):
    """The same bytes, rotated heads."""

    id = "int8-hadamard"
    key_format = Int8HadamardBlock
    value_format = Int8HadamardBlock
