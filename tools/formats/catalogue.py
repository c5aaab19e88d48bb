"""The formats of this package: what it tests, documents and keeps the bytes of."""

from __future__ import annotations

from hiqcache.codecs import built_in_names


def built_in() -> list[str]:
    """Names of the codecs that ``hiqcache`` itself brings, whatever other packages add."""
    return built_in_names()
