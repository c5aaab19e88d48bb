"""Units of every format: the bytes that a second description makes, and those that are frozen.

``tests/fixtures/formats_v1.py`` is the description.
"""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hiqcache.codecs import codec_class, codec_names
from hiqcache.codecs.base import BlockFormat, KVCodec
from hiqcache.codecs.int4 import Int4Block
from hiqcache.codecs.int8 import Int8HadamardBlock
from hiqcache.geometry import KVGeometry
from tests.fixtures import formats_v1, int8_v1
from tests.fixtures.formats_v1 import DIGESTS, FROZEN, HEAD_DIM, KV_HEADS, V_HEAD_DIM, Form
from tests.unit.kv_rows import (
    VALUE_BITS,
    decode,
    decode_units,
    encode,
    encode_units,
    from_bits,
    from_bytes,
    page_rows,
    same_values,
)

TAGS = pytest.mark.parametrize("tag", FROZEN)


def digests() -> dict[str, dict[str, str]]:
    return json.loads(DIGESTS.read_text())


def codec_of(tag: str) -> KVCodec:
    name, page_size = FROZEN[tag]
    return codec_class(name)(KVGeometry(1, KV_HEADS, HEAD_DIM, V_HEAD_DIM, page_size))


def frozen_units(tag: str) -> torch.Tensor:
    data = DIGESTS.with_name(f"{tag}.units").read_bytes()
    assert int8_v1.digest(data) == digests()[tag]["units"]
    unit_bytes = codec_of(tag).unit.unit_bytes
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, unit_bytes)


@pytest.fixture(scope="module")
def frozen_rows() -> tuple[torch.Tensor, torch.Tensor]:
    packed = {
        "keys": int8_v1.packed(formats_v1.keys()),
        "values": int8_v1.packed(formats_v1.values()),
    }
    assert {name: int8_v1.digest(data) for name, data in packed.items()} == digests()["rows"]
    return (
        from_bytes(packed["keys"], KV_HEADS, HEAD_DIM),
        from_bytes(packed["values"], KV_HEADS, V_HEAD_DIM),
    )


def test_every_format_is_frozen_by_its_tag() -> None:
    assert {name for name, _ in FROZEN.values()} == set(codec_names())
    assert digests().keys() == {"rows", *FROZEN}
    assert [codec_of(tag).format_tag for tag in FROZEN] == list(FROZEN)


@TAGS
def test_frozen_rows_encode_to_the_frozen_units(
    frozen_rows: tuple[torch.Tensor, torch.Tensor], tag: str
) -> None:
    assert torch.equal(encode_units(codec_of(tag), *frozen_rows), frozen_units(tag))


@TAGS
def test_frozen_units_decode_to_the_frozen_values(tag: str) -> None:
    units = frozen_units(tag)
    keys, values = formats_v1.decoded([bytes(unit.tolist()) for unit in units], *FROZEN[tag])
    assert int8_v1.digest(keys + values) == digests()[tag]["restored"]
    restored = decode_units(codec_of(tag), units)
    assert same_values(restored[0], from_bytes(keys, KV_HEADS, HEAD_DIM))
    assert same_values(restored[1], from_bytes(values, KV_HEADS, V_HEAD_DIM))


def test_the_fixtures_are_never_written_again(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(DIGESTS.parent.iterdir())
    before = [file.stat().st_mtime_ns for file in files]
    assert formats_v1.main() == 2
    assert "never changes" in capsys.readouterr().err
    assert sorted(DIGESTS.parent.iterdir()) == files
    assert [file.stat().st_mtime_ns for file in files] == before


@st.composite
def any_rows(draw: st.DrawFn) -> torch.Tensor:
    """Two tokens of heads of values of their own kind, of sizes of one part and of several."""
    heads, dim = draw(st.integers(1, 2)), draw(st.sampled_from([2, 8, 16, 24, 40, 66, 80]))
    bits = [
        n
        for _ in range(2 * heads)
        for n in draw(st.lists(draw(VALUE_BITS), min_size=dim, max_size=dim))
    ]
    return from_bits(bits, heads, dim)


@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize(
    ("block_format", "form"),
    [
        pytest.param(Int8HadamardBlock, formats_v1.ROTATED_INT8, id="int8-hadamard"),
        pytest.param(Int4Block, formats_v1.INT4, id="int4"),
    ],
)
@settings(max_examples=50)
@given(rows=any_rows())
def test_any_rows_match_the_description(
    block_format: type[BlockFormat], form: Form, page_size: int, rows: torch.Tensor
) -> None:
    heads, dim = rows.shape[1:]
    block = block_format(page_rows(heads, dim, page_size))
    bits = rows.view(torch.uint16).tolist()
    blocks = encode(block, rows)
    expected = b"".join(
        form.encode_block(bits[start : start + page_size]) for start in range(0, 2, page_size)
    )
    assert bytes(blocks.flatten().tolist()) == expected
    restored = [form.decode(*form.encode(head)) for token in bits for head in token]
    assert same_values(
        decode(block, blocks), from_bits([n for head in restored for n in head], heads, dim)
    )
