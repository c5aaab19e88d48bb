"""INT8 records: the bytes, the edges, and that nothing drifts.

``tests/fixtures/int8_v1.py`` is the integer description of the format that the codec is held to.
"""

import json
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings

from hiqcache.codecs.int8 import Int8Codec, RecordLayout
from hiqcache.fidelity import verified_error_bound
from hiqcache.geometry import KVGeometry
from tests.fixtures import int8_v1
from tests.unit.int8_rows import (
    decode,
    encode,
    from_bits,
    from_bytes,
    int8_codec,
    int8_rows,
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


def integer_bits(rows: torch.Tensor) -> list[list[list[int]]]:
    return rows.view(torch.uint16).tolist()


# --- the bytes ---------------------------------------------------------------------------------


def test_a_record_by_hand() -> None:
    # Scales 1 and 2; 2.5 and 0.5 are ties and go to the even integer, 3.5 as well.
    rows = rows_of([127.0, -2.5, 3.5], [-254.0, 1.0, 2.0])
    golden = bytes.fromhex("7f fe 04  81 00 01   80 3f  00 40   00 00 00 00 00 00")
    codec = int8_codec(2, 3)
    assert bytes_of(encode(codec, rows)) == golden
    restored = decode(codec, torch.tensor([list(golden)], dtype=torch.uint8))
    assert torch.equal(restored, rows_of([127.0, -2.0, 4.0], [-254.0, 0.0, 2.0]))


def test_a_record_of_an_odd_payload_by_hand() -> None:
    rows = rows_of([127.0, 1.0, -1.0, 2.0, -2.0, 0.0, -127.0])
    golden = bytes.fromhex("7f 01 ff 02 fe 00 81  00  80 3f  00 00 00 00 00 00")
    codec = int8_codec(1, 7)
    assert bytes_of(encode(codec, rows)) == golden
    assert torch.equal(decode(codec, encode(codec, rows)), rows)


def test_qwen3_8b_has_records_of_1152_bytes() -> None:
    for device_type in ("cuda", "cpu"):
        codec = int8_codec(8, 128, device_type, layers=36)
        assert codec.layout == RecordLayout(8, 128, 128)
        assert (codec.layout.scale_offset, codec.layout.used_bytes) == (1024, 1040)
        assert codec.record_bytes == 1152
        assert codec.bytes_per_token == 82_944


@pytest.mark.parametrize(
    ("kv_heads", "head_dim", "cuda", "cpu"),
    [
        (1, 7, 128, 16),
        (3, 7, 128, 32),
        (1, 64, 128, 72),
        (3, 64, 256, 200),
        (4, 128, 640, 640),
        (5, 80, 512, 416),
        (1, 96, 128, 104),
        (5, 96, 512, 496),
        (3, 112, 384, 344),
        (1, 128, 256, 256),
        (3, 192, 640, 584),
        (2, 192, 512, 512),
        (1, 256, 384, 384),
        (5, 256, 1408, 1408),
        (8, 128, 1152, 1152),
        (63, 2, 256, 256),
    ],
)
def test_record_bytes_by_device(kv_heads: int, head_dim: int, cuda: int, cpu: int) -> None:
    assert int8_codec(kv_heads, head_dim, "cuda").record_bytes == cuda
    assert int8_codec(kv_heads, head_dim, "cpu").record_bytes == cpu


@pytest.mark.parametrize("device_type", ["cpu", "cuda"])
@pytest.mark.parametrize("kv_heads", [1, 3, 5])
@pytest.mark.parametrize("head_dim", [7, 64, 80, 96, 112, 128, 192, 256])
def test_records_of_any_geometry_match_the_integer_description(
    kv_heads: int, head_dim: int, device_type: str
) -> None:
    codec = int8_codec(kv_heads, head_dim, device_type)
    bits = [int8_v1.scrambled(n) & ~0x0080 for n in range(2 * kv_heads * head_dim)]
    rows = from_bits(bits, kv_heads, head_dim)
    records = encode(codec, rows)
    for row, record in zip(integer_bits(rows), records, strict=True):
        assert bytes_of(record) == int8_v1.encode(row, codec.record_bytes)
    assert verified_error_bound(rows, codec).differing == 0


def test_every_byte_of_a_record_is_written() -> None:
    codec = int8_codec(3, 7, "cuda")
    rows = from_bits(range(0x3F00, 0x3F00 + 42), 3, 7)
    records = encode(codec, rows, garbage=0x5A)
    assert torch.equal(records, encode(codec, rows, garbage=0xA5))
    assert not records[:, 21].any()
    assert not records[:, codec.layout.used_bytes :].any()


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
    assert tag == int8_v1.FORMAT_TAG == Int8Codec.format_tag


def test_frozen_rows_encode_to_the_frozen_bytes(
    frozen_rows: torch.Tensor, frozen_records: torch.Tensor
) -> None:
    assert torch.equal(encode(int8_codec(8, 128), frozen_rows), frozen_records)


def test_frozen_bytes_decode_to_the_frozen_values(frozen_records: torch.Tensor) -> None:
    table = [int8_v1.decode(bytes_of(record), 8, 128) for record in frozen_records]
    packed = int8_v1.packed(table)
    assert int8_v1.digest(packed) == json.loads(int8_v1.DIGESTS.read_text())["restored"]
    restored = decode(int8_codec(8, 128), frozen_records)
    assert same_values(restored, from_bytes(packed, 8, 128))


def test_the_fixture_is_never_written_again(capsys: pytest.CaptureFixture[str]) -> None:
    before = int8_v1.RECORDS.stat().st_mtime_ns
    assert int8_v1.main() == 2
    assert "never changes" in capsys.readouterr().err
    assert int8_v1.RECORDS.stat().st_mtime_ns == before


# --- rounding ----------------------------------------------------------------------------------


def test_ties_go_to_the_even_integer() -> None:
    rows = rows_of([127.0, 0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, 126.5])
    assert int8_codec(1, 9).layout.payload(encode(int8_codec(1, 9), rows)).tolist() == [
        [[127, 0, 2, 2, 4, 0, -2, -2, 126]]
    ]


def test_the_quotient_is_a_true_division() -> None:
    # The step is 1.75. 21.875 / 1.75 is the tie 12.5, which a float32 reciprocal overshoots.
    rows = rows_of([222.0, 21.875])
    reciprocal = torch.tensor(1.0) / torch.tensor(1.75)
    assert (rows.float() * reciprocal).round().tolist() == [[[127.0, 13.0]]]
    codec = int8_codec(1, 2)
    assert codec.layout.payload(encode(codec, rows)).tolist() == [[[127, 12]]]


def test_the_quotient_is_by_the_scale_as_stored() -> None:
    # 130 / 127 = 1.0236 is stored as 1.0234375, and 86 / 1.0236 and 86 / 1.0234375 differ in the
    # integer nearest to them only for a head like this one.
    found = _head_that_tells_the_stored_scale_apart()
    codec = int8_codec(1, 2)
    records = encode(codec, found)
    stored = codec.layout.scales(records).double()
    unrounded = found.double().abs().max() / 127
    by_stored = (found.double() / stored).round()
    assert not torch.equal(by_stored, (found.double() / unrounded).round())
    assert torch.equal(codec.layout.payload(records).double(), by_stored)


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
    report = verified_error_bound(every_mantissa, int8_codec(*every_mantissa.shape[1:]))
    # The one head that starts with BF16's largest number is the documented exception.
    assert report.heads.largest == 1
    below_largest = every_mantissa[:-1]
    report = verified_error_bound(below_largest, int8_codec(*below_largest.shape[1:]))
    assert report.heads.ordinary == below_largest.shape[0] * 128
    assert (report.clamped, report.differing) == (0, 0)


def test_three_generations_have_the_same_bytes(every_mantissa: torch.Tensor) -> None:
    codec = int8_codec(*every_mantissa.shape[1:])
    first = encode(codec, every_mantissa)
    generation = first
    for _ in range(3):
        generation = encode(codec, decode(codec, generation))
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
    codec = int8_codec(3, 4)
    expected = encode(codec, plain).repeat(3, 1)
    expected[1, 4:8] = torch.tensor(payload, dtype=torch.int8).view(torch.uint8)
    expected[1, 14:16] = torch.tensor(scale, dtype=torch.uint8)
    assert torch.equal(encode(codec, rows), expected)
    values = decode(codec, expected)
    assert same_values(values[1, 1], rows_of(restored)[0, 0])
    assert torch.equal(encode(codec, values), expected)
    assert torch.equal(values[[0, 2]], decode(codec, encode(codec, plain)).expand(2, -1, -1))


def test_a_negative_zero_is_restored_as_zero() -> None:
    codec = int8_codec(1, 4)
    restored = decode(codec, encode(codec, rows_of([1.0, -0.0, 0.0, -(2.0**-20)])))
    assert restored.view(torch.int16).tolist() == [[[0x3F80, 0, 0, 0]]]


@pytest.mark.parametrize("edge", ["smallest number", "largest lost", "smallest kept"])
def test_flush_to_zero_does_not_change_where_the_scale_vanishes(edge: str) -> None:
    codec = int8_codec(1, 4)
    rows = rows_of(EDGES[edge][0])
    plain = encode(codec, rows)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no flush-to-zero mode")
    try:
        flushed = encode(codec, rows)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(flushed, plain)


# --- memory ------------------------------------------------------------------------------------


def test_a_workspace_larger_than_the_call_and_used_before() -> None:
    codec = int8_codec(3, 16)
    rows = from_bits([int8_v1.scrambled(n) & ~0x0080 for n in range(20 * 48)], 3, 16)
    workspace = codec.workspace(20, "cpu")
    records = torch.empty((20, codec.record_bytes), dtype=torch.uint8)
    codec.encode(rows, records, workspace)
    for count in (7, 1, 0, 20):
        few = torch.full((count, codec.record_bytes), 0xA5, dtype=torch.uint8)
        codec.encode(rows[:count].flip(0), few, workspace)
        assert torch.equal(few, records[:count].flip(0))
        restored = torch.full_like(rows[:count], -7.0)
        codec.decode(few, restored, workspace)
        assert same_values(restored, decode(codec, few))


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one layer of many": lambda arena: arena[:, 1, :24],
    "every other token": lambda arena: arena[::2, 0, :24],
    "one of interleaved K and V": lambda arena: arena[:4, 2, 24:48],
}


@pytest.mark.parametrize("view", VIEWS)
def test_records_may_be_strided(view: str) -> None:
    codec = int8_codec(2, 8)
    assert codec.record_bytes == 24
    arena = torch.full((9, 3, 48), 0xA5, dtype=torch.uint8)
    records = VIEWS[view](arena)
    rows = from_bits([int8_v1.scrambled(n) & ~0x0080 for n in range(records.shape[0] * 16)], 2, 8)
    workspace = codec.workspace(9, "cpu")
    codec.encode(rows, records, workspace)
    assert torch.equal(records, encode(codec, rows))
    restored = torch.empty_like(rows)
    codec.decode(records, restored, workspace)
    assert same_values(restored, decode(codec, encode(codec, rows)))
    records.fill_(0xA5)
    assert (arena == 0xA5).all()


def test_rows_may_be_strided() -> None:
    codec = int8_codec(2, 8)
    fused = from_bits([int8_v1.scrambled(n) & ~0x0080 for n in range(5 * 4 * 8)], 4, 8)
    for rows in (fused[:, 2:], fused[::2, :2]):
        assert not rows.is_contiguous()
        records = encode(codec, rows)
        assert torch.equal(records, encode(codec, rows.contiguous()))
        cache = torch.full_like(fused, -7.0)
        target = cache[: rows.shape[0], 2:]
        codec.decode(records, target, codec.workspace(5, "cpu"))
        assert same_values(target, decode(codec, records))
        assert (cache[:, :2] == -7.0).all()


# --- anything ----------------------------------------------------------------------------------


@settings(max_examples=200)
@given(rows=int8_rows())
def test_any_rows_match_the_integer_description(rows: torch.Tensor) -> None:
    codec = int8_codec(*rows.shape[1:])
    records = encode(codec, rows)
    restored = decode(codec, records)
    for row, record, back in zip(integer_bits(rows), records, restored, strict=True):
        assert bytes_of(record) == int8_v1.encode(row, codec.record_bytes)
        bits = [n for head in int8_v1.decode(bytes_of(record), *rows.shape[1:]) for n in head]
        assert same_values(back, from_bits(bits, *rows.shape[1:])[0])


@settings(max_examples=200)
@given(rows=int8_rows())
def test_any_rows_are_within_the_bound(rows: torch.Tensor) -> None:
    report = verified_error_bound(rows, int8_codec(*rows.shape[1:]))
    assert report.differing == 0
    assert report.idempotent


def test_a_geometry_that_is_not_bf16_is_refused() -> None:
    with pytest.raises(ValueError, match=r"torch\.float16.*--kv-cache-dtype auto"):
        Int8Codec(KVGeometry(1, 8, 128, "cpu", torch.float16))
