"""The codecs by their short names.

A package can bring its own: an entry point of the group ``hiqcache.codecs`` whose name is the
codec's ``id`` and whose value is a :class:`~hiqcache.codecs.base.KVCodec` subclass.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from hiqcache.codecs.base import KVCodec
from hiqcache.codecs.int4 import Int4Codec, K8V4Codec
from hiqcache.codecs.int8 import Int8Codec, Int8HadamardCodec
from hiqcache.geometry import KVGeometry

_BUILT_IN: dict[str, type[KVCodec]] = {
    codec.id: codec for codec in (Int8Codec, Int8HadamardCodec, K8V4Codec, Int4Codec)
}
_ENTRY_POINTS = "hiqcache.codecs"

__all__ = ["KVCodec", "built_in_names", "codec_class", "codec_names", "make_codec"]


def built_in_names() -> list[str]:
    """Short names of the codecs that this package itself brings."""
    return list(_BUILT_IN)


def codec_names() -> list[str]:
    """Short names of all codecs that a server can be started with."""
    added = {e.name for e in entry_points(group=_ENTRY_POINTS)} - _BUILT_IN.keys()
    return [*_BUILT_IN, *sorted(added)]


def codec_class(name: str) -> type[KVCodec]:
    """Class of the codec ``name``.

    Raises
    ------
    ValueError
        For an unknown name, which the message answers with the known ones, or an entry point
        that does not load a codec of that name.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for entry in entry_points(group=_ENTRY_POINTS, name=name):
        return _load(entry)
    raise ValueError(f"unknown codec {name!r}; choose from {', '.join(codec_names())}")


def _load(entry: EntryPoint) -> type[KVCodec]:
    try:
        found = entry.load()
    except Exception as error:  # whatever another package's module raises
        raise ValueError(
            f"codec {entry.name!r} does not load from {entry.value}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, KVCodec)):
        raise ValueError(f"codec {entry.name!r}: {entry.value} is not a KVCodec class")
    if (own := getattr(found, "id", None)) != entry.name:
        # Its units would be tagged as another format's.
        raise ValueError(f"codec {entry.name!r}: the id of {entry.value} is {own!r}")
    return found


def make_codec(name: str, geometry: KVGeometry) -> KVCodec:
    """Build the codec ``name`` for ``geometry``.

    Raises
    ------
    ValueError
        For an unknown name, or a geometry that the codec cannot serve or saves nothing for.
    """
    codec = codec_class(name)(geometry)
    if codec.saves_bytes and codec.bytes_per_token >= geometry.bytes_per_token:
        raise ValueError(
            f"codec {name!r} saves nothing for {geometry.kv_heads} KV heads of "
            f"{geometry.head_dim} per rank at page size {geometry.page_size}: a token takes "
            f"{codec.bytes_per_token} bytes, raw {geometry.bytes_per_token}; use a page size of "
            "8 or more, fewer ranks, or --hicache-l2-codec none"
        )
    return codec
