"""The registry of codecs, what packages add to it, the contract, and the raw codec."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from formats.catalogue import built_in
from hiqcache.codecs import _BUILT_IN, codec_class, codec_names, make_codec
from hiqcache.codecs.base import BlockFormat
from hiqcache.codecs.int8 import Int8Codec
from hiqcache.codecs.raw import RawCodec
from hiqcache.geometry import KV_DTYPES, KVGeometry
from tests.unit.kv_rows import decode_units, encode_units, from_bits

GEOMETRY = KVGeometry(2, 3, 48)
BUILT_IN = ["int8", "int8-hadamard", "k8v4", "int4"]

PLUGIN = """
from hiqcache.codecs.int8 import Int8Codec

class HalfCodec(Int8Codec):
    id = "half"
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


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_codec_is_built_by_its_name(name: str) -> None:
    codec = make_codec(name, GEOMETRY)
    assert type(codec) is codec_class(name)
    assert codec.id == name
    assert codec.geometry is GEOMETRY


def test_these_are_built_in() -> None:
    assert codec_names() == BUILT_IN


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^unknown codec 'int7'; choose from int8, .*, int4$"):
        make_codec("int7", GEOMETRY)


def test_raw_is_no_choice() -> None:
    assert "raw" not in codec_names()
    with pytest.raises(ValueError, match="unknown codec 'raw'"):
        codec_class("raw")


def test_a_package_adds_a_codec_by_an_entry_point(install: Install) -> None:
    install("half_codec", "[hiqcache.codecs]\nhalf = half_codec:HalfCodec\n")
    assert codec_names() == [*BUILT_IN, "half"]
    codec = make_codec("half", GEOMETRY)
    assert (codec.id, codec.format_tag) == ("half", "l2-half-v1")
    assert codec.unit == make_codec("int8", GEOMETRY).unit
    with pytest.raises(ValueError, match=r"choose from .*, int4, half$"):
        codec_class("quarter")


def test_an_entry_point_of_another_group_is_not_a_codec(install: Install) -> None:
    install("other_codec", "[other.codecs]\nhalf = other_codec:HalfCodec\n")
    assert codec_names() == BUILT_IN


def test_a_package_does_not_replace_a_built_in_codec(install: Install) -> None:
    install("shadow_codec", "[hiqcache.codecs]\nint8 = shadow_codec:HalfCodec\n")
    assert codec_class("int8") is Int8Codec
    assert codec_names() == BUILT_IN


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:Codec", "does not load from no_such_module:Codec"),
        ("broken_codec:NoSuchName", "does not load from broken_codec:NoSuchName"),
        ("json:loads", "json:loads is not a KVCodec class"),
        ("raising_codec:Codec", "does not load from raising_codec:Codec: no driver"),
        ("broken_codec:HalfCodec", "the id of broken_codec:HalfCodec is 'half'"),
        ("hiqcache.codecs.base:KVCodec", "the id of hiqcache.codecs.base:KVCodec is None"),
    ],
)
def test_an_entry_point_that_is_no_codec_is_refused(
    install: Install, value: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "raising_codec.py").write_text("raise RuntimeError('no driver')")
    install("broken_codec", f"[hiqcache.codecs]\nbroken = {value}\n")
    with pytest.raises(ValueError, match=f"codec 'broken'.*{message}"):
        codec_class("broken")
    assert built_in() == BUILT_IN


@pytest.mark.parametrize(
    ("kv_heads", "head_dim", "page_size", "ratio"),
    [(8, 128, 1, 1.778), (4, 128, 1, 1.6), (2, 128, 1, 1.333), (1, 128, 1, 1.0), (2, 64, 1, 1.0),
     (1, 64, 1, 1.0), (8, 128, 8, 1.969), (1, 128, 8, 1.778), (1, 128, 64, 1.969),
     (1, 64, 64, 1.939)],
)  # fmt: skip
def test_a_geometry_that_padding_leaves_no_gain_is_refused(
    kv_heads: int, head_dim: int, page_size: int, ratio: float
) -> None:
    geometry = KVGeometry(36, kv_heads, head_dim, page_size=page_size)
    if ratio > 1:
        codec = make_codec("int8", geometry)
        assert geometry.bytes_per_token / codec.bytes_per_token == pytest.approx(ratio, abs=5e-4)
    else:
        refusal = r"^codec 'int8' saves nothing for . KV heads of .* 8 or more, fewer ranks, or --h"
        with pytest.raises(ValueError, match=refusal):
            make_codec("int8", geometry)


def test_a_control_may_save_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_BUILT_IN, "raw", RawCodec)
    assert make_codec("raw", GEOMETRY).bytes_per_token >= GEOMETRY.bytes_per_token


def test_a_format_must_fulfil_the_contract() -> None:
    class Unfinished(BlockFormat):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unfinished(GEOMETRY.keys)  # type: ignore[abstract]


def test_a_tag_names_the_pages_that_are_not_tokens() -> None:
    assert make_codec("int8", GEOMETRY).format_tag == "l2-int8-v1"
    assert make_codec("k8v4", replace(GEOMETRY, page_size=16)).format_tag == "l2-k8v4-v1-p16"


@pytest.mark.parametrize(
    ("name", "page_size", "padding"),
    [("int8", 1, 224), ("int8", 8, 0), ("int8", 64, 0), ("int8-hadamard", 1, 224),
     ("int4", 1, 192), ("int4", 4, 0), ("k8v4", 1, 208), ("k8v4", 8, 128), ("k8v4", 16, 0)],
)  # fmt: skip
def test_padding_is_what_no_block_uses(name: str, page_size: int, padding: int) -> None:
    codec = make_codec(name, KVGeometry(36, 8, 128, page_size=page_size))
    assert codec.padding_bytes == padding


# --- the raw codec -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", KV_DTYPES)
@pytest.mark.parametrize("page_size", [1, 4])
def test_the_raw_codec_restores_every_bit(page_size: int, dtype: torch.dtype) -> None:
    tokens = 200
    bits = range(0, 0x10000, 7)
    k = from_bits([*bits, *bits][: tokens * 48], 3, 16).view(dtype)
    v = from_bits([*bits, *bits][-tokens * 24 :], 3, 8).view(dtype)
    codec = RawCodec(KVGeometry(2, 3, 16, 8, page_size, dtype))
    units = encode_units(codec, k, v)
    keys, values = units[:, : 96 * page_size], units[:, codec.unit.key_bytes :]
    assert torch.equal(keys.reshape(tokens, 96), k.flatten(1).view(torch.uint8))
    assert torch.equal(
        values[:, : 48 * page_size].reshape(tokens, 48), v.flatten(1).view(torch.uint8)
    )
    for restored, original in zip(decode_units(codec, units), (k, v), strict=True):
        assert torch.equal(restored.view(torch.int16), original.view(torch.int16))
