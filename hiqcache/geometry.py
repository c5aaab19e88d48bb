"""The shape of one rank's KV cache: what a codec needs to know to size its records."""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: SGLang's register mover copies a row in groups of 128 bytes and refuses any other
#: (``pick_group_bytes`` in ``kvcacheio/hicache.cuh``).
CUDA_ROW_ALIGNMENT = 128

#: Index copies take any row. Eight bytes keep each record's scales on their own alignment.
HOST_ROW_ALIGNMENT = 8


def row_alignment(payload_bytes: int, device_type: str) -> int:
    """Bytes that a record's length is a multiple of.

    A payload that is already whole groups of 128 bytes gets a record of whole groups on every
    device, so that one geometry has one format wherever it runs. Any other payload is padded
    that far only on CUDA, whose mover demands it.

    Parameters
    ----------
    payload_bytes : int
        Bytes of one record before its scales.
    device_type : str
        ``torch.device.type`` of the KV cache.
    """
    if device_type == "cuda" or payload_bytes % CUDA_ROW_ALIGNMENT == 0:
        return CUDA_ROW_ALIGNMENT
    return HOST_ROW_ALIGNMENT


@dataclass(frozen=True)
class KVGeometry:
    """One rank's KV cache, as its device pool holds it.

    Parameters
    ----------
    layers : int
        Layers whose KV this rank stores.
    kv_heads : int
        KV heads local to this rank.
    head_dim : int
        Values per head, the same for K and V.
    device_type : str
        ``torch.device.type`` of the device pool.
    dtype : torch.dtype
        Storage type of the device pool. Only ``torch.bfloat16`` is supported.

    Raises
    ------
    ValueError
        For a size below one or a dtype other than BF16.
    """

    layers: int
    kv_heads: int
    head_dim: int
    device_type: str = "cuda"
    dtype: torch.dtype = torch.bfloat16

    def __post_init__(self) -> None:
        for name in ("layers", "kv_heads", "head_dim"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"KVGeometry.{name} must be a positive integer, got {value!r}")
        if self.dtype != torch.bfloat16:
            raise ValueError(
                f"the device KV cache is {self.dtype}; HiQCache encodes torch.bfloat16 "
                "(serve with --kv-cache-dtype auto and a BF16 model)"
            )

    @property
    def row_values(self) -> int:
        """Values in one K (or V) row: one token, one layer."""
        return self.kv_heads * self.head_dim

    @property
    def row_bytes(self) -> int:
        """Bytes of one uncompressed K (or V) row."""
        return self.row_values * self.dtype.itemsize

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token's uncompressed KV takes: all layers, K and V."""
        return 2 * self.layers * self.row_bytes
