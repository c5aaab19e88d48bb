"""The shape of one rank's KV cache: what a codec needs to know to size its units."""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: Storage types of a device pool whose rows the codecs encode.
KV_DTYPES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class PageRows:
    """The rows of K, or of V, of one page in one layer: ``[page_size, heads, dim]``."""

    page_size: int
    heads: int
    dim: int
    dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tokens, heads and values."""
        return self.page_size, self.heads, self.dim

    @property
    def row_values(self) -> int:
        """Values of one token."""
        return self.heads * self.dim

    @property
    def row_bytes(self) -> int:
        """Bytes of one token, uncompressed."""
        return self.row_values * self.dtype.itemsize


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
        Values per head of K.
    v_head_dim : int, optional
        Values per head of V; by default those of K.
    page_size : int
        Tokens per page.
    dtype : torch.dtype
        Storage type of the device pool, ``torch.bfloat16`` or ``torch.float16``.

    Raises
    ------
    ValueError
        For a size below one, or another dtype.
    """

    layers: int
    kv_heads: int
    head_dim: int
    v_head_dim: int | None = None
    page_size: int = 1
    dtype: torch.dtype = torch.bfloat16

    def __post_init__(self) -> None:
        if self.v_head_dim is None:
            object.__setattr__(self, "v_head_dim", self.head_dim)
        for name in ("layers", "kv_heads", "head_dim", "v_head_dim", "page_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"KVGeometry.{name} must be a positive integer, got {value!r}")
        if self.dtype not in KV_DTYPES:
            raise ValueError(
                f"the device KV cache is {self.dtype}; HiQCache encodes "
                f"{' and '.join(map(str, KV_DTYPES))} (serve with --kv-cache-dtype auto)"
            )

    @property
    def keys(self) -> PageRows:
        """Rows of K of one page."""
        return PageRows(self.page_size, self.kv_heads, self.head_dim, self.dtype)

    @property
    def values(self) -> PageRows:
        """Rows of V of one page."""
        dim = self.v_head_dim or self.head_dim
        return PageRows(self.page_size, self.kv_heads, dim, self.dtype)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token's uncompressed KV takes: all layers, K and V."""
        return self.layers * (self.keys.row_bytes + self.values.row_bytes)
