"""Host caches by codec and size, and two of them with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from hiqcache.geometry import KVGeometry

#: Value of ``--hicache-l2-codec`` for SGLang's own BF16 pool.
RAW = "none"


@dataclass(frozen=True)
class L2:
    """A host cache.

    Parameters
    ----------
    codec
        Value of ``--hicache-l2-codec``.
    ratio
        Value of ``--hicache-ratio``.
    tokens
        What it should hold then.
    """

    codec: str
    ratio: float
    tokens: int

    def options(self) -> list[str]:
        """Return the server's options."""
        return [
            "--enable-hierarchical-cache",
            *("--hicache-l2-codec", self.codec),
            *("--hicache-ratio", repr(self.ratio)),
        ]


def usable_codecs(geometry: KVGeometry, names: Sequence[str] | None) -> list[str]:
    """Return the codecs of these names, or all.

    Raises
    ------
    ToolError
        If there is no such codec, or it cannot serve the model.
    """
    from hiqcache.codecs import codec_names, make_codec

    codecs = list(dict.fromkeys(names or codec_names()))
    for name in codecs:
        try:
            make_codec(name, geometry)
        except ValueError as error:
            raise ToolError(str(error), "choose by --codec", Exit.USAGE) from error
    return codecs


@dataclass(frozen=True)
class DevicePool:
    """The device cache that SGLang sizes a host cache by."""

    tokens: int
    page_size: int


def equal_l2s(
    geometry: KVGeometry, codec: str, raw_tokens: int, device: DevicePool
) -> tuple[L2, L2]:
    """Return a raw and an encoded host cache of the same bytes, but for less than a page.

    Parameters
    ----------
    geometry
        The model's KV cache.
    codec
        Codec of the encoded one.
    raw_tokens
        Tokens that the raw one holds. They fix the bytes of both.
    device
        The device cache.
    """
    from hiqcache.capacity import ratio_for_bytes, tokens_for_ratio
    from hiqcache.codecs import make_codec

    budget = raw_tokens * geometry.bytes_per_token

    def of(name: str, bytes_per_token: int) -> L2:
        ratio = ratio_for_bytes(budget, bytes_per_token, device.tokens, device.page_size)
        return L2(name, ratio, tokens_for_ratio(ratio, device.tokens, device.page_size))

    encoded = make_codec(codec, geometry).bytes_per_token
    return of(RAW, geometry.bytes_per_token), of(codec, encoded)
