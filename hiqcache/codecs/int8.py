r"""INT8 records: symmetric, one BF16 scale per head.

A record of ``H`` heads of ``D`` values::

    0        H*D          H*D + 2*H                record_bytes
    | int8 payload | BF16 scales | zero padding ... |

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
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hiqcache.codecs.base import KVCodec
from hiqcache.geometry import KVGeometry, row_alignment

_LEVELS = 127
_SCALE_DTYPE = torch.bfloat16
_LARGEST_SCALE = 2.0**121
_LARGEST_SUBNORMAL = 2.0**-126 - 2.0**-133


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class RecordLayout:
    """Where a record's parts lie, in bytes."""

    kv_heads: int
    head_dim: int
    alignment: int

    @property
    def payload_bytes(self) -> int:
        """One byte for each value."""
        return self.kv_heads * self.head_dim

    @property
    def scale_offset(self) -> int:
        """First byte of the scales, on their own alignment."""
        return _round_up(self.payload_bytes, _SCALE_DTYPE.itemsize)

    @property
    def used_bytes(self) -> int:
        """Payload and scales, without the padding."""
        return self.scale_offset + self.kv_heads * _SCALE_DTYPE.itemsize

    @property
    def record_bytes(self) -> int:
        """The whole record."""
        return _round_up(self.used_bytes, self.alignment)

    def payload(self, records: torch.Tensor) -> torch.Tensor:
        """View ``[..., kv_heads, head_dim]`` INT8 of ``[..., record_bytes]`` bytes."""
        flat = records[..., : self.payload_bytes].view(torch.int8)
        return flat.unflatten(-1, (self.kv_heads, self.head_dim))

    def scales(self, records: torch.Tensor) -> torch.Tensor:
        """View ``[..., kv_heads]`` BF16 of ``[..., record_bytes]`` bytes."""
        return records[..., self.scale_offset : self.used_bytes].view(_SCALE_DTYPE)


@dataclass(frozen=True)
class Int8Workspace:
    """Temporaries of one stream's calls."""

    values: torch.Tensor  # [rows, heads, dim] float32
    low: torch.Tensor  # [rows, heads] float32
    high: torch.Tensor  # [rows, heads] float32
    scale: torch.Tensor  # [rows, heads] bfloat16
    not_finite: torch.Tensor  # [rows, heads] bool

    @classmethod
    def allocate(cls, rows: int, geometry: KVGeometry, device: torch.device | str) -> Int8Workspace:
        """Allocate for calls of up to ``rows`` rows."""
        heads = (rows, geometry.kv_heads)

        def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        return cls(
            values=empty(*heads, geometry.head_dim, dtype=torch.float32),
            low=empty(*heads, dtype=torch.float32),
            high=empty(*heads, dtype=torch.float32),
            scale=empty(*heads, dtype=_SCALE_DTYPE),
            not_finite=empty(*heads, dtype=torch.bool),
        )

    def shaped(self, leading: torch.Size) -> Int8Workspace:
        """View as many rows as ``leading`` has, in its shape."""
        return Int8Workspace(
            *(
                buffer[: leading.numel()].view(*leading, *buffer.shape[1:])
                for buffer in (self.values, self.low, self.high, self.scale, self.not_finite)
            )
        )


class Int8Codec(KVCodec):
    """INT8 payload and BF16 scales; 1152 bytes for 8 heads of 128 values."""

    id = "int8"
    format_tag = "l2-int8-v1"

    def __init__(self, geometry: KVGeometry) -> None:
        super().__init__(geometry)
        alignment = row_alignment(geometry.row_values, geometry.device_type)
        self.layout = RecordLayout(geometry.kv_heads, geometry.head_dim, alignment)

    @property
    def record_bytes(self) -> int:
        return self.layout.record_bytes

    def workspace(self, rows: int, device: torch.device | str) -> Int8Workspace:
        return Int8Workspace.allocate(rows, self.geometry, device)

    def encode(self, rows: torch.Tensor, records: torch.Tensor, workspace: Int8Workspace) -> None:
        ws = workspace.shaped(rows.shape[:-2])
        ws.values.copy_(rows)
        _head_scales(ws)
        ws.low.copy_(ws.scale)  # the quotient is by the scale as stored
        torch.div(ws.values, ws.low.unsqueeze(-1), out=ws.values)
        # A scale of zero or NaN leaves no finite quotient, and every other one leaves only those.
        torch.nan_to_num(ws.values, nan=0.0, posinf=0.0, neginf=0.0, out=ws.values)
        ws.values.round_().clamp_(-_LEVELS, _LEVELS)
        self.layout.payload(records).copy_(ws.values)
        self.layout.scales(records).copy_(ws.scale)
        records[..., self.layout.payload_bytes : self.layout.scale_offset].zero_()
        records[..., self.layout.used_bytes :].zero_()

    def decode(self, records: torch.Tensor, rows: torch.Tensor, workspace: Int8Workspace) -> None:
        ws = workspace.shaped(rows.shape[:-2])
        ws.values.copy_(self.layout.payload(records))
        ws.low.copy_(self.layout.scales(records))
        ws.values.mul_(ws.low.unsqueeze(-1))  # exact in float32: 7 bits times 8 bits
        rows.copy_(ws.values)


def _head_scales(ws: Int8Workspace) -> None:
    """Set ``ws.scale`` from ``ws.values`` by the rules in the module's docstring."""
    torch.amin(ws.values, dim=-1, out=ws.low)
    torch.amax(ws.values, dim=-1, out=ws.high)
    torch.maximum(ws.high, ws.low.neg_(), out=ws.high)
    # x - x is zero for a finite x and NaN for any other.
    torch.sub(ws.high, ws.high, out=ws.low)
    torch.ne(ws.low, ws.low, out=ws.not_finite)
    ws.scale.copy_(ws.high.div_(_LEVELS))
    torch.threshold_(ws.scale, _LARGEST_SUBNORMAL, 0.0)
    ws.scale.clamp_(max=_LARGEST_SCALE)
    ws.scale.masked_fill_(ws.not_finite, float("nan"))
