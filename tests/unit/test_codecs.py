"""The registry of codecs, what packages add to it, the contract, and the raw codec."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hiqcache.codecs import codec_class, codec_names, make_codec
from hiqcache.codecs.base import KVCodec
from hiqcache.codecs.int8 import Int8Codec
from hiqcache.codecs.raw import RawCodec
from hiqcache.geometry import KVGeometry
from tests.unit.int8_rows import decode, encode, from_bits

GEOMETRY = KVGeometry(2, 3, 16, "cpu")

PLUGIN = """
from hiqcache.codecs.int8 import Int8Codec

class HalfCodec(Int8Codec):
    id = "half"
    format_tag = "l2-half-v1"
"""

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package with an entry point on ``sys.path``, as an installer would."""

    def _install(module: str, entry_points: str) -> None:
        (tmp_path / f"{module}.py").write_text(PLUGIN)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(tmp_path)

    return _install


def test_int8_is_built_in() -> None:
    assert codec_names()[0] == "int8"
    assert codec_class("int8") is Int8Codec
    codec = make_codec("int8", GEOMETRY)
    assert isinstance(codec, Int8Codec)
    assert codec.geometry is GEOMETRY


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^unknown codec 'int7'; choose from int8$"):
        make_codec("int7", GEOMETRY)


def test_raw_is_no_choice() -> None:
    assert "raw" not in codec_names()
    with pytest.raises(ValueError, match="unknown codec 'raw'"):
        codec_class("raw")


def test_a_package_adds_a_codec_by_an_entry_point(install: Install) -> None:
    install("half_codec", "[hiqcache.codecs]\nhalf = half_codec:HalfCodec\n")
    assert codec_names() == ["int8", "half"]
    codec = make_codec("half", GEOMETRY)
    assert (codec.id, codec.format_tag) == ("half", "l2-half-v1")
    assert codec.record_bytes == make_codec("int8", GEOMETRY).record_bytes
    with pytest.raises(ValueError, match=r"choose from int8, half$"):
        codec_class("quarter")


def test_an_entry_point_of_another_group_is_not_a_codec(install: Install) -> None:
    install("other_codec", "[other.codecs]\nhalf = other_codec:HalfCodec\n")
    assert codec_names() == ["int8"]


def test_a_package_does_not_replace_a_built_in_codec(install: Install) -> None:
    install("shadow_codec", "[hiqcache.codecs]\nint8 = shadow_codec:HalfCodec\n")
    assert codec_class("int8") is Int8Codec
    assert codec_names() == ["int8"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:Codec", "does not load from no_such_module:Codec"),
        ("broken_codec:NoSuchName", "does not load from broken_codec:NoSuchName"),
        ("json:loads", "json:loads is not a KVCodec class"),
    ],
)
def test_an_entry_point_that_is_no_codec_is_refused(
    install: Install, value: str, message: str
) -> None:
    install("broken_codec", f"[hiqcache.codecs]\nbroken = {value}\n")
    with pytest.raises(ValueError, match=f"codec 'broken'.*{message}"):
        codec_class("broken")


@pytest.mark.parametrize(
    ("kv_heads", "head_dim", "device", "ratio"),
    [(8, 128, "cuda", 1.778), (4, 128, "cuda", 1.6), (2, 128, "cuda", 1.333), (1, 128, "cpu", 1.0),
     (1, 128, "cuda", 1.0), (2, 64, "cuda", 1.0), (1, 64, "cpu", 1.778)],
)  # fmt: skip
def test_a_geometry_that_padding_leaves_no_gain_is_refused(
    kv_heads: int, head_dim: int, device: str, ratio: float
) -> None:
    geometry = KVGeometry(36, kv_heads, head_dim, device)
    if ratio > 1:
        codec = make_codec("int8", geometry)
        assert geometry.row_bytes / codec.record_bytes == pytest.approx(ratio, abs=5e-4)
    else:
        with pytest.raises(ValueError, match=r"'int8' saves nothing for . KV heads.* none, or few"):
            make_codec("int8", geometry)


def test_a_codec_must_fulfil_the_contract() -> None:
    class Unfinished(KVCodec):
        id = "unfinished"
        format_tag = "l2-unfinished-v0"

    with pytest.raises(TypeError, match="abstract"):
        Unfinished(GEOMETRY)  # type: ignore[abstract]


@pytest.mark.parametrize("codec", [Int8Codec(GEOMETRY), RawCodec(GEOMETRY)], ids=lambda c: c.id)
def test_bytes_per_token_are_those_of_all_layers_of_k_and_v(codec: KVCodec) -> None:
    assert codec.bytes_per_token == 2 * 2 * codec.record_bytes


def test_the_raw_codec_restores_every_bit() -> None:
    bits = range(0, 0x10000, 7)
    rows = from_bits([*bits, *[0] * (-len(bits) % 48)], 3, 16)
    codec = RawCodec(GEOMETRY)
    assert codec.record_bytes == GEOMETRY.row_bytes == 96
    records = encode(codec, rows)
    assert torch.equal(records, rows.flatten(1).view(torch.uint8))
    assert torch.equal(decode(codec, records).view(torch.int16), rows.view(torch.int16))


def test_raw_records_may_be_strided() -> None:
    rows = from_bits(range(0x3F00, 0x3F00 + 4 * 48), 3, 16)
    arena = torch.full((4, 2, 96), 0xA5, dtype=torch.uint8)
    codec = RawCodec(GEOMETRY)
    codec.encode(rows, arena[:, 1], None)
    assert (arena[:, 0] == 0xA5).all()
    restored = torch.zeros_like(rows)
    codec.decode(arena[:, 1], restored, None)
    assert torch.equal(restored, rows)
