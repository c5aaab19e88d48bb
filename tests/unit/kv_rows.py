"""Rows, blocks and units for tests: small formats, BF16 by its bits, strategies that draw rows."""

from collections.abc import Sequence

import torch
from hypothesis import strategies as st

from hiqcache.codecs.base import BlockFormat, KVCodec
from hiqcache.codecs.int8 import Int8Block
from hiqcache.geometry import PageRows

GARBAGE = 0xA5


def page_rows(heads: int, dim: int, page_size: int = 1) -> PageRows:
    return PageRows(page_size, heads, dim, torch.bfloat16)


def int8_block(heads: int, dim: int, page_size: int = 1) -> Int8Block:
    return Int8Block(page_rows(heads, dim, page_size))


def from_bits(bits: Sequence[int], kv_heads: int, head_dim: int) -> torch.Tensor:
    """Rows ``[tokens, kv_heads, head_dim]`` of the BF16 numbers with these bits."""
    return torch.tensor(bits, dtype=torch.uint16).view(torch.bfloat16).view(-1, kv_heads, head_dim)


def from_bytes(data: bytes, kv_heads: int, head_dim: int) -> torch.Tensor:
    """Rows of little-endian BF16 numbers."""
    flat = torch.frombuffer(bytearray(data), dtype=torch.bfloat16)
    return flat.view(-1, kv_heads, head_dim)


def paged(rows: torch.Tensor, page_size: int) -> torch.Tensor:
    """``[tokens, ...]`` as ``[pages, page_size, ...]``."""
    return rows.unflatten(0, (rows.shape[0] // page_size, page_size))


def encode(block: BlockFormat, rows: torch.Tensor, garbage: int = GARBAGE) -> torch.Tensor:
    """Encode the rows of tokens into blocks of memory that held something else."""
    pages = paged(rows, block.rows.page_size)
    blocks = torch.full((pages.shape[0], block.block_bytes), garbage, dtype=torch.uint8)
    block.encode(pages, blocks, block.workspace(pages.shape[0], "cpu"))
    return blocks


def decode(block: BlockFormat, blocks: torch.Tensor) -> torch.Tensor:
    """Decode blocks to rows of tokens, in memory that held something else."""
    rows = torch.full((blocks.shape[0], *block.rows.shape), -7.0, dtype=block.rows.dtype)
    block.decode(blocks, rows, block.workspace(blocks.shape[0], "cpu"))
    return rows.flatten(0, 1)


def encode_units(
    codec: KVCodec, keys: torch.Tensor, values: torch.Tensor, garbage: int = GARBAGE
) -> torch.Tensor:
    """Encode the K and V of tokens into units of memory that held something else."""
    k, v = (paged(rows, codec.geometry.page_size) for rows in (keys, values))
    units = torch.full((k.shape[0], codec.unit.unit_bytes), garbage, dtype=torch.uint8)
    codec.encode(k, v, units, codec.workspace(k.shape[0], "cpu"))
    return units


def decode_units(codec: KVCodec, units: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Decode units to the K and V of tokens, in memory that held something else."""
    k, v = (
        torch.full((units.shape[0], *block.rows.shape), -7.0, dtype=block.rows.dtype)
        for block in (codec.keys, codec.values)
    )
    codec.decode(units, k, v, codec.workspace(units.shape[0], "cpu"))
    return k.flatten(0, 1), v.flatten(0, 1)


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
