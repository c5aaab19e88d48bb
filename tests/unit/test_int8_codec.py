"""INT8 blocks: the bytes, the edges, and that nothing drifts.

``tests/fixtures/int8_v1.py`` is the integer description of the format that the codec is held to.
"""

import json

import pytest
import torch
from hypothesis import given, settings

from hiqcache.codecs.int8 import Int8Block, Int8Codec
from hiqcache.fidelity import verified_error_bound
from hiqcache.geometry import KVGeometry
from tests.fixtures import int8_v1
from tests.unit.kv_rows import (
    decode,
    encode,
    from_bits,
    from_bytes,
    int8_block,
    int8_rows,
    paged,
    same_values,
)

NAN_SCALE = [0xC0, 0x7F]


def rows_of(*heads: list[float]) -> torch.Tensor:
    """One token; every number must be a BF16 one."""
    rows = torch.tensor([heads], dtype=torch.float64)
    assert torch.equal(rows.bfloat16().double().nan_to_num(), rows.nan_to_num())
    return rows.bfloat16()


def bytes_of(records: torch.Tensor) -> bytes:
    return bytes(records.flatten().tolist())


def levels_of(rows: torch.Tensor) -> torch.Tensor:
    """What is stored for the values of one token, ``[heads, dim]``."""
    block = int8_block(*rows.shape[1:])
    return block.payload(encode(block, rows))[0, 0]


def integer_bits(rows: torch.Tensor) -> list[list[list[int]]]:
    return rows.view(torch.uint16).tolist()


# --- the bytes ---------------------------------------------------------------------------------


def test_a_record_by_hand() -> None:
    # Scales 1 and 2; 2.5 and 0.5 are ties and go to the even integer, 3.5 as well.
    rows = rows_of([127.0, -2.5, 3.5], [-254.0, 1.0, 2.0])
    golden = bytes.fromhex("7f fe 04  81 00 01   80 3f  00 40").ljust(128, b"\0")
    block = int8_block(2, 3)
    assert bytes_of(encode(block, rows)) == golden
    restored = decode(block, torch.tensor([list(golden)], dtype=torch.uint8))
    assert torch.equal(restored, rows_of([127.0, -2.0, 4.0], [-254.0, 0.0, 2.0]))


def test_a_record_of_an_odd_payload_by_hand() -> None:
    rows = rows_of([127.0, 1.0, -1.0, 2.0, -2.0, 0.0, -127.0])
    golden = bytes.fromhex("7f 01 ff 02 fe 00 81  00  80 3f").ljust(128, b"\0")
    block = int8_block(1, 7)
    assert bytes_of(encode(block, rows)) == golden
    assert torch.equal(decode(block, encode(block, rows)), rows)


def test_a_page_by_hand() -> None:
    # The payload of all tokens, then a byte, for their 21 are odd; then their scales.
    rows = torch.cat([rows_of([127.0, 1.0, -1.0, 2.0, -2.0, 0.0, -127.0]) * n for n in (1, 2, 4)])
    payload = bytes.fromhex("7f 01 ff 02 fe 00 81") * 3
    golden = (payload + bytes.fromhex("00  80 3f  00 40  80 40")).ljust(128, b"\0")
    block = int8_block(1, 7, page_size=3)
    assert bytes_of(encode(block, rows)) == golden
    assert torch.equal(decode(block, encode(block, rows)), rows)


def test_a_record_of_qwen3_8b_has_1152_bytes() -> None:
    layout = int8_block(8, 128).layout
    assert (layout.scale_offset, layout.used_bytes, layout.block_bytes) == (1024, 1040, 1152)


@pytest.mark.parametrize("page_size", [1, 3, 16])
@pytest.mark.parametrize("kv_heads", [1, 3, 5])
@pytest.mark.parametrize("head_dim", [7, 64, 80, 96, 112, 128, 192, 256])
def test_pages_of_any_geometry_match_the_integer_description(
    kv_heads: int, head_dim: int, page_size: int
) -> None:
    block = int8_block(kv_heads, head_dim, page_size)
    bits = [int8_v1.scrambled(n) & ~0x0080 for n in range(2 * page_size * kv_heads * head_dim)]
    rows = from_bits(bits, kv_heads, head_dim)
    for page, stored in zip(paged(rows, page_size), encode(block, rows), strict=True):
        assert bytes_of(stored) == page_of_records(integer_bits(page), block)
    report = verified_error_bound(rows, block)
    assert (report.differing, report.idempotent) == (0, True)


def page_of_records(page: list[list[list[int]]], block: Int8Block) -> bytes:
    """A block from the integer description of each of its tokens."""
    layout = block.layout
    used = [
        int8_v1.encode(row, int8_block(block.rows.heads, block.rows.dim).block_bytes)
        for row in page
    ]
    values, scales = block.rows.row_values, 2 * block.rows.heads
    payload = b"".join(record[:values] for record in used)
    first = values + values % 2
    strip = b"".join(record[first : first + scales] for record in used)
    return (payload.ljust(layout.scale_offset, b"\0") + strip).ljust(layout.block_bytes, b"\0")


# --- the frozen fixture ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frozen_rows() -> torch.Tensor:
    packed = int8_v1.packed(int8_v1.rows())
    assert int8_v1.digest(packed) == json.loads(int8_v1.DIGESTS.read_text())["rows"]
    return from_bytes(packed, int8_v1.KV_HEADS, int8_v1.HEAD_DIM)


@pytest.fixture(scope="module")
def frozen_records() -> torch.Tensor:
    data = int8_v1.RECORDS.read_bytes()
    assert int8_v1.digest(data) == json.loads(int8_v1.DIGESTS.read_text())["records"]
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, int8_v1.RECORD_BYTES)


def test_the_fixture_is_of_this_format() -> None:
    tag = json.loads(int8_v1.DIGESTS.read_text())["format_tag"]
    assert tag == int8_v1.FORMAT_TAG == Int8Codec(KVGeometry(1, 8, 128)).format_tag


def test_frozen_rows_encode_to_the_frozen_bytes(
    frozen_rows: torch.Tensor, frozen_records: torch.Tensor
) -> None:
    assert torch.equal(encode(int8_block(8, 128), frozen_rows), frozen_records)


def test_frozen_bytes_decode_to_the_frozen_values(frozen_records: torch.Tensor) -> None:
    table = [int8_v1.decode(bytes_of(record), 8, 128) for record in frozen_records]
    packed = int8_v1.packed(table)
    assert int8_v1.digest(packed) == json.loads(int8_v1.DIGESTS.read_text())["restored"]
    restored = decode(int8_block(8, 128), frozen_records)
    assert same_values(restored, from_bytes(packed, 8, 128))


def test_the_fixture_is_never_written_again(capsys: pytest.CaptureFixture[str]) -> None:
    before = int8_v1.RECORDS.stat().st_mtime_ns
    assert int8_v1.main() == 2
    assert "never changes" in capsys.readouterr().err
    assert int8_v1.RECORDS.stat().st_mtime_ns == before


# --- rounding ----------------------------------------------------------------------------------


def test_ties_go_to_the_even_integer() -> None:
    rows = rows_of([127.0, 0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, 126.5])
    assert levels_of(rows).tolist() == [[127, 0, 2, 2, 4, 0, -2, -2, 126]]


def test_the_quotient_is_a_true_division() -> None:
    # The step is 1.75. 21.875 / 1.75 is the tie 12.5, which a float32 reciprocal overshoots.
    rows = rows_of([222.0, 21.875])
    reciprocal = torch.tensor(1.0) / torch.tensor(1.75)
    assert (rows.float() * reciprocal).round().tolist() == [[[127.0, 13.0]]]
    assert levels_of(rows).tolist() == [[127, 12]]


def test_the_quotient_is_by_the_scale_as_stored() -> None:
    # 130 / 127 = 1.0236 is stored as 1.0234375, and 86 / 1.0236 and 86 / 1.0234375 differ in the
    # integer nearest to them only for a head like this one.
    found = _head_that_tells_the_stored_scale_apart()
    block = int8_block(1, 2)
    records = encode(block, found)
    stored = block.scales(records)[0].double()
    unrounded = found.double().abs().max() / 127
    by_stored = (found.double() / stored).round()
    assert not torch.equal(by_stored, (found.double() / unrounded).round())
    assert torch.equal(levels_of(found).double(), by_stored[0])


def _head_that_tells_the_stored_scale_apart() -> torch.Tensor:
    for largest in range(128, 255):
        for value in range(1, largest):
            stored = float(torch.tensor(largest / 127).bfloat16())
            if round(value / stored) != round(value / (largest / 127)):
                return rows_of([float(largest), float(value)])
    raise AssertionError("there is no such head")


# --- no clamp, no drift ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def every_mantissa() -> torch.Tensor:
    """Heads led by each of the 128 significands, over the exponents that have a normal step."""
    significands = torch.arange(128, 256, dtype=torch.float64)
    exponents = [-126, -125, *range(-119, 121, 9), 119, 120]
    rest = torch.cat([significands, significands / 2, significands / 2**6])
    rest = rest * torch.tensor([1.0, -1.0]).repeat(192)
    heads = torch.cat(
        [
            significands[:, None],
            rest.expand(128, -1).clamp(-significands[:, None], significands[:, None]),
        ],
        1,
    )
    rows = torch.stack([heads * 2.0**exponent for exponent in exponents])
    assert torch.equal(rows.bfloat16().double(), rows)
    return rows.bfloat16()


def test_the_clamp_never_fires_for_any_mantissa(every_mantissa: torch.Tensor) -> None:
    report = verified_error_bound(every_mantissa, int8_block(*every_mantissa.shape[1:]))
    # The one head that starts with BF16's largest number is the documented exception.
    assert report.heads.largest == 1
    below_largest = every_mantissa[:-1]
    report = verified_error_bound(below_largest, int8_block(*below_largest.shape[1:]))
    assert report.heads.ordinary == below_largest.shape[0] * 128
    assert (report.clamped, report.differing) == (0, 0)


def test_three_generations_have_the_same_bytes(every_mantissa: torch.Tensor) -> None:
    block = int8_block(*every_mantissa.shape[1:])
    first = encode(block, every_mantissa)
    generation = first
    for _ in range(3):
        generation = encode(block, decode(block, generation))
        assert torch.equal(generation, first)


# --- edges -------------------------------------------------------------------------------------

LARGEST = torch.finfo(torch.bfloat16).max
NAN, INF = float("nan"), float("inf")

#: A head, its payload, its scale's bytes, and what it is restored as.
EDGES: dict[str, tuple[list[float], list[int], list[int], list[float]]] = {
    "NaN": ([1.0, NAN, -2.0, 0.0], [0] * 4, NAN_SCALE, [NAN] * 4),
    "-NaN": ([1.0, -NAN, -2.0, 0.0], [0] * 4, NAN_SCALE, [NAN] * 4),
    "infinity": ([1.0, INF, -2.0, 0.0], [0] * 4, NAN_SCALE, [NAN] * 4),
    "-infinity": ([1.0, 3.0, -INF, 0.0], [0] * 4, NAN_SCALE, [NAN] * 4),
    "infinities": ([INF, -INF, INF, 0.0], [0] * 4, NAN_SCALE, [NAN] * 4),
    "NaN and infinity": ([INF, NAN, 1.0, 0.0], [0] * 4, NAN_SCALE, [NAN] * 4),
    "smallest number": ([2.0**-133, 0.0, -(2.0**-133), 0.0], [0] * 4, [0, 0], [0.0] * 4),
    "largest lost": ([126.5 * 2.0**-126, -(2.0**-120), 0.0, 0.0], [0] * 4, [0, 0], [0.0] * 4),
    "smallest kept": (
        [127 * 2.0**-126, -(2.0**-120), 0.0, 2.0**-127],
        [127, -64, 0, 0],
        [0x80, 0x00],
        [127 * 2.0**-126, -(2.0**-120), 0.0, 0.0],
    ),
    "largest number": (
        [LARGEST, -LARGEST, LARGEST / 2, 1.0],
        [127, -127, 64, 0],
        [0x00, 0x7C],
        [127 * 2.0**121, -127 * 2.0**121, 64 * 2.0**121, 0.0],
    ),
    "zeros": ([0.0] * 4, [0] * 4, [0, 0], [0.0] * 4),
    "zeros of both signs": ([-0.0, 0.0, -0.0, 0.0], [0] * 4, [0, 0], [0.0] * 4),
    "negative zeros": ([-0.0] * 4, [0] * 4, [0, 0], [0.0] * 4),
}


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_is_confined_to_its_head(edge: str) -> None:
    head, payload, scale, restored = EDGES[edge]
    plain = rows_of([1.0, -2.0, 3.0, 0.5], [4.0, 1.0, -1.0, 0.25], [-8.0, 7.0, 0.0, 1.0])
    rows = plain.repeat(3, 1, 1)
    rows[1, 1] = rows_of(head)[0, 0]
    block = int8_block(3, 4)
    expected = encode(block, plain).repeat(3, 1)
    expected[1, 4:8] = torch.tensor(payload, dtype=torch.int8).view(torch.uint8)
    expected[1, 14:16] = torch.tensor(scale, dtype=torch.uint8)
    assert torch.equal(encode(block, rows), expected)
    values = decode(block, expected)
    assert same_values(values[1, 1], rows_of(restored)[0, 0])
    assert torch.equal(encode(block, values), expected)
    assert torch.equal(values[[0, 2]], decode(block, encode(block, plain)).expand(2, -1, -1))


def test_a_negative_zero_is_restored_as_zero() -> None:
    block = int8_block(1, 4)
    restored = decode(block, encode(block, rows_of([1.0, -0.0, 0.0, -(2.0**-20)])))
    assert restored.view(torch.int16).tolist() == [[[0x3F80, 0, 0, 0]]]


@pytest.mark.parametrize("edge", ["smallest number", "largest lost", "smallest kept"])
def test_flush_to_zero_does_not_change_where_the_scale_vanishes(edge: str) -> None:
    block = int8_block(1, 4)
    rows = rows_of(EDGES[edge][0])
    plain = encode(block, rows)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no flush-to-zero mode")
    try:
        flushed = encode(block, rows)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(flushed, plain)


# --- anything ----------------------------------------------------------------------------------


@settings(max_examples=200)
@given(rows=int8_rows())
def test_any_rows_match_the_integer_description(rows: torch.Tensor) -> None:
    block = int8_block(*rows.shape[1:])
    records = encode(block, rows)
    restored = decode(block, records)
    for row, record, back in zip(integer_bits(rows), records, restored, strict=True):
        assert bytes_of(record) == int8_v1.encode(row, block.block_bytes)
        bits = [n for head in int8_v1.decode(bytes_of(record), *rows.shape[1:]) for n in head]
        assert same_values(back, from_bits(bits, *rows.shape[1:])[0])


@settings(max_examples=200)
@given(rows=int8_rows())
def test_any_rows_are_within_the_bound(rows: torch.Tensor) -> None:
    report = verified_error_bound(rows, int8_block(*rows.shape[1:]))
    assert report.differing == 0
    assert report.idempotent
