"""Rows and records for tests: small codecs, BF16 by its bits, and strategies that draw both."""

from collections.abc import Sequence

import torch
from hypothesis import strategies as st

from hiqcache.codecs.base import KVCodec
from hiqcache.codecs.int8 import Int8Codec
from hiqcache.geometry import KVGeometry

GARBAGE = 0xA5


def int8_codec(
    kv_heads: int, head_dim: int, device_type: str = "cpu", layers: int = 1
) -> Int8Codec:
    return Int8Codec(KVGeometry(layers, kv_heads, head_dim, device_type))


def from_bits(bits: Sequence[int], kv_heads: int, head_dim: int) -> torch.Tensor:
    """Rows ``[tokens, kv_heads, head_dim]`` of the BF16 numbers with these bits."""
    return torch.tensor(bits, dtype=torch.uint16).view(torch.bfloat16).view(-1, kv_heads, head_dim)


def from_bytes(data: bytes, kv_heads: int, head_dim: int) -> torch.Tensor:
    """Rows of little-endian BF16 numbers."""
    flat = torch.frombuffer(bytearray(data), dtype=torch.bfloat16)
    return flat.view(-1, kv_heads, head_dim)


def encode(codec: KVCodec, rows: torch.Tensor, garbage: int = GARBAGE) -> torch.Tensor:
    """Encode into memory that held something else."""
    records = torch.full((rows.shape[0], codec.record_bytes), garbage, dtype=torch.uint8)
    codec.encode(rows, records, codec.workspace(rows.shape[0], "cpu"))
    return records


def decode(codec: KVCodec, records: torch.Tensor) -> torch.Tensor:
    """Decode into memory that held something else."""
    g = codec.geometry
    rows = torch.full((records.shape[0], g.kv_heads, g.head_dim), -7.0, dtype=g.dtype)
    codec.decode(records, rows, codec.workspace(records.shape[0], "cpu"))
    return rows


def same_values(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal element by element; NaN equals NaN, and 0 equals -0."""
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def _bits_near(exponent: int, spread: int) -> st.SearchStrategy[int]:
    """Bits of numbers whose exponent field is within ``spread`` below ``exponent``."""
    low, high = max(exponent - spread, 0) << 7, (exponent << 7) | 0x7F
    magnitudes = st.integers(low, min(high, 0x7F7F))
    return st.builds(lambda m, sign: m | sign, magnitudes, st.sampled_from([0, 0x8000]))


#: Bits of one head's values: of one scale, tiny, huge, of mixed scale, or anything at all.
VALUE_BITS = st.one_of(
    st.integers(0, 254).flatmap(lambda exponent: st.just(_bits_near(exponent, 3))),
    st.just(_bits_near(8, 8)),
    st.just(_bits_near(254, 2)),
    st.integers(0, 254).flatmap(lambda exponent: st.just(_bits_near(exponent, 40))),
    st.just(st.integers(0, 0xFFFF)),
)


@st.composite
def int8_rows(draw: st.DrawFn) -> torch.Tensor:
    """Rows of a random small geometry, each head with values of its own kind."""
    tokens, heads, dim = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 24))
    bits = [
        n
        for _ in range(tokens * heads)
        for n in draw(st.lists(draw(VALUE_BITS), min_size=dim, max_size=dim))
    ]
    return from_bits(bits, heads, dim)
