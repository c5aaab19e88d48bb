"""The formats of this package: what it tests, documents and keeps the bytes of."""

from __future__ import annotations

from hiqcache.codecs import codec_class, codec_names


def built_in() -> list[str]:
    """Names of the codecs that ``hiqcache`` itself brings."""
    return [n for n in codec_names() if codec_class(n).__module__.startswith("hiqcache.")]
