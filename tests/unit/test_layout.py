"""Where bytes lie: no part overlaps another, movers like every row, and the sizes are known."""

from dataclasses import replace
from math import lcm

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hiqcache.codecs.base import KVCodec
from hiqcache.codecs.int4 import Int4Block, Int4Codec, K8V4Codec
from hiqcache.codecs.int8 import Int8Block, Int8Codec, Int8HadamardCodec
from hiqcache.codecs.layout import BlockLayout, UnitLayout, round_up
from hiqcache.codecs.raw import RawCodec
from hiqcache.geometry import KVGeometry
from hiqcache.staging import StagedTransfer
from tests.unit.kv_rows import encode_units

QWEN3_8B = KVGeometry(layers=36, kv_heads=8, head_dim=128)
HEAD_DIMS = [64, 80, 96, 112, 128, 192, 256]

dims = st.sampled_from(HEAD_DIMS)
odd_dims = st.sampled_from([1, 7, 65, 127])


def geometries(head_dims: st.SearchStrategy[int], pages: int) -> st.SearchStrategy[KVGeometry]:
    return st.builds(
        KVGeometry,
        layers=st.integers(1, 3),
        kv_heads=st.integers(1, 16),
        head_dim=head_dims,
        v_head_dim=head_dims,
        page_size=st.integers(1, pages),
        dtype=st.sampled_from([torch.bfloat16, torch.float16]),
    )


def codecs(pages: int = 128) -> st.SearchStrategy[KVCodec]:
    """A codec of any geometry that it serves."""
    rotated = st.sampled_from([Int8HadamardCodec, Int4Codec, K8V4Codec])
    plain = st.sampled_from([Int8Codec, RawCodec])
    return st.one_of(
        st.builds(lambda codec, g: codec(g), rotated, geometries(dims, pages)),
        st.builds(lambda codec, g: codec(g), plain, geometries(dims | odd_dims, pages)),
    )


# --- a block -----------------------------------------------------------------------------------


@given(
    page_size=st.integers(1, 128),
    payload_bytes=st.integers(1, 5000),
    scales=st.integers(0, 64),
)
def test_the_parts_of_a_block_are_disjoint_and_all_of_it(
    page_size: int, payload_bytes: int, scales: int
) -> None:
    layout = BlockLayout(page_size, payload_bytes, scales)
    block = torch.zeros(layout.block_bytes, dtype=torch.uint8)
    layout.payload(block).add_(1)
    layout.scale_strip(block).view(torch.uint8).add_(2)
    written = block.clone()
    block.fill_(9)
    layout.zero_padding(block)
    written[block == 0] += 4
    assert set(written.tolist()) <= {1, 2, 4}
    assert (written == 1).sum() == page_size * payload_bytes
    assert (written == 2).sum() == 2 * page_size * scales
    assert (written == 4).sum() <= 1 + 127


@given(
    page_size=st.integers(1, 128),
    payload_bytes=st.integers(1, 5000),
    scales=st.integers(0, 64),
)
def test_a_strip_of_scales_is_aligned_and_a_block_is_whole_groups(
    page_size: int, payload_bytes: int, scales: int
) -> None:
    layout = BlockLayout(page_size, payload_bytes, scales)
    assert layout.scale_offset % 2 == 0
    assert 0 <= layout.scale_offset - layout.payload_end <= 1
    assert layout.block_bytes % 128 == 0
    assert 0 <= layout.block_bytes - layout.used_bytes < 128


@pytest.mark.parametrize(("heads", "page_size"), [(8, 8), (4, 16), (2, 32), (1, 64)])
def test_64_scales_of_heads_of_128_values_need_no_padding(heads: int, page_size: int) -> None:
    for block in (Int8Block, Int4Block):
        layout = block(replace(QWEN3_8B, kv_heads=heads, page_size=page_size).keys).layout
        assert layout.block_bytes == layout.used_bytes
    half_a_page = Int8Block(replace(QWEN3_8B, kv_heads=heads, page_size=page_size // 2).keys).layout
    assert half_a_page.block_bytes - half_a_page.used_bytes == 64


# --- a unit ------------------------------------------------------------------------------------


@given(
    page_size=st.integers(1, 128),
    key_groups=st.integers(1, 5000),
    value_groups=st.integers(1, 5000),
)
def test_a_unit_is_cut_into_two_halves_of_rows_that_a_mover_likes(
    page_size: int, key_groups: int, value_groups: int
) -> None:
    unit = UnitLayout(page_size, 128 * key_groups, 128 * value_groups)
    used = unit.key_bytes + unit.value_bytes
    assert unit.unit_bytes == 2 * unit.half_bytes
    assert unit.half_bytes == unit.rows_per_half * unit.mover_row_bytes
    assert unit.mover_row_bytes % 128 == 0
    assert 128 <= unit.mover_row_bytes <= 2048
    assert unit.unit_bytes % page_size == 0
    assert 0 <= unit.unit_bytes - used < lcm(256, page_size)


@given(half_groups=st.integers(1, 5000))
def test_no_longer_row_would_cut_a_half(half_groups: int) -> None:
    unit = UnitLayout(1, 128 * half_groups, 128 * half_groups)
    longer = range(unit.mover_row_bytes + 128, 2048 + 1, 128)
    assert all(unit.half_bytes % row for row in longer)


@pytest.mark.parametrize(
    ("value", "multiple", "rounded"), [(0, 8, 0), (1, 8, 8), (8, 8, 8), (9, 8, 16), (5, 1, 5)]
)
def test_round_up(value: int, multiple: int, rounded: int) -> None:
    assert round_up(value, multiple) == rounded


# --- a codec -----------------------------------------------------------------------------------


@given(codec=codecs())
def test_bytes_per_token_are_what_a_host_pool_reserves(codec: KVCodec) -> None:
    g, unit = codec.geometry, codec.unit
    reserved = 2 * unit.rows_per_half * unit.mover_row_bytes
    assert codec.bytes_per_token * g.page_size == g.layers * reserved
    assert unit.key_bytes == codec.keys.block_bytes
    assert unit.value_bytes == codec.values.block_bytes


@given(codec=codecs(pages=24))
def test_a_lane_allocates_what_the_layout_says(codec: KVCodec) -> None:
    g = codec.geometry
    transfer = StagedTransfer(codec, torch.device("meta"), 2 * g.page_size)
    assert transfer._backup.units.nbytes == 2 * g.page_size * codec.bytes_per_token
    assert transfer._backup.staged.nbytes == transfer._backup.units.nbytes


@given(codec=codecs(pages=24), data=st.data())
def test_every_byte_of_a_unit_is_written(codec: KVCodec, data: st.DataObject) -> None:
    g = codec.geometry
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    keys, values = (
        torch.randn((2 * g.page_size, rows.heads, rows.dim), generator=generator).to(rows.dtype)
        for rows in (g.keys, g.values)
    )
    units = encode_units(codec, keys, values, garbage=0x5A)
    assert torch.equal(units, encode_units(codec, keys, values, garbage=0xA5))


# --- the sizes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec_class", "sizes"),
    [
        (RawCodec, {1: 147_456, 8: 147_456, 64: 147_456}),
        (Int8Codec, {1: 82_944, 2: 78_336, 4: 76_032, 7: 82_944, 8: 74_880, 64: 74_880}),
        (Int8HadamardCodec, {1: 82_944, 8: 74_880, 64: 74_880}),
        (K8V4Codec, {1: 64_512, 4: 57_600, 8: 57_600, 16: 57_024, 64: 57_024}),
        (Int4Codec, {1: 46_080, 2: 41_472, 4: 39_168, 8: 39_168, 64: 39_168}),
    ],
)
def test_a_token_of_qwen3_8b(codec_class: type[KVCodec], sizes: dict[int, int]) -> None:
    found = {page: codec_class(replace(QWEN3_8B, page_size=page)).bytes_per_token for page in sizes}
    assert found == sizes


@pytest.mark.parametrize(
    ("codec_class", "ratio"), [(Int8Codec, 1.969), (K8V4Codec, 2.586), (Int4Codec, 3.765)]
)
def test_the_ratios_of_qwen3_8b(codec_class: type[KVCodec], ratio: float) -> None:
    g = replace(QWEN3_8B, page_size=64)
    assert g.bytes_per_token / codec_class(g).bytes_per_token == pytest.approx(ratio, abs=5e-4)


@pytest.mark.parametrize(
    ("heads", "dim", "page_size", "bytes_"),
    [
        (1, 7, 1, 128),
        (1, 64, 1, 128),
        (3, 64, 1, 256),
        (5, 80, 1, 512),
        (5, 96, 1, 512),
        (3, 112, 1, 384),
        (1, 128, 1, 256),
        (8, 128, 1, 1152),
        (8, 128, 16, 16_640),
        (5, 256, 1, 1408),
        (63, 2, 1, 256),
    ],
)
def test_int8_blocks(heads: int, dim: int, page_size: int, bytes_: int) -> None:
    rows = KVGeometry(1, heads, dim, page_size=page_size).keys
    assert Int8Block(rows).block_bytes == Int8Block(rows).layout.block_bytes == bytes_


@pytest.mark.parametrize(
    ("dim", "groups", "token_bytes"),
    [
        (64, 1, 34),
        (80, 2, 44),
        (96, 2, 52),
        (112, 2, 60),
        (128, 2, 68),
        (192, 3, 102),
        (256, 4, 136),
    ],
)
def test_int4_groups_of_up_to_64_values(dim: int, groups: int, token_bytes: int) -> None:
    block = Int4Block(KVGeometry(1, 1, dim, page_size=64).keys)
    assert block.groups == groups
    assert block.layout.used_bytes == 64 * token_bytes


@pytest.mark.parametrize("dim", [7, 63, 65, 127, 130, 194])
def test_heads_that_int4_cannot_cut_are_refused(dim: int) -> None:
    with pytest.raises(ValueError, match=rf"^heads of {dim} values do not make .*codec int8$"):
        Int4Codec(KVGeometry(1, 8, dim))
    with pytest.raises(ValueError, match=rf"^heads of {dim} values"):
        K8V4Codec(KVGeometry(1, 8, 128, v_head_dim=dim))


@pytest.mark.parametrize("codec_class", [Int8HadamardCodec, K8V4Codec, Int4Codec])
def test_heads_that_are_not_rotated_are_refused(codec_class: type[KVCodec]) -> None:
    with pytest.raises(ValueError, match=r"^heads of 320 values are not rotated, at most 256 are"):
        codec_class(KVGeometry(1, 8, 320))
    assert Int8Codec(KVGeometry(1, 8, 320)).unit.unit_bytes > 0
