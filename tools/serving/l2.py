"""Host caches by codec and size, and two of them with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from hiqcache.geometry import KVGeometry

#: Value of ``--hicache-l2-codec`` for SGLang's own BF16 pool.
NO_CODEC = "none"


#: Values of ``--hicache-write-policy``, SGLang's default first.
WRITE_POLICIES = ("write_through", "write_back", "write_through_selective")
WRITE_THROUGH, WRITE_BACK, SELECTIVE = WRITE_POLICIES


@dataclass(frozen=True)
class DevicePool:
    """The device cache that SGLang sizes a host cache by."""

    tokens: int
    page_size: int


@dataclass(frozen=True)
class L2:
    """A host cache.

    Parameters
    ----------
    codec
        Value of ``--hicache-l2-codec``.
    size
        The option that sizes it, and its value.
    tokens
        What it should hold then.
    write_policy
        Value of ``--hicache-write-policy``.
    """

    codec: str
    size: tuple[str, str]
    tokens: int
    write_policy: str = WRITE_THROUGH

    @classmethod
    def by_ratio(
        cls, codec: str, ratio: float, device: DevicePool, write_policy: str = WRITE_THROUGH
    ) -> L2:
        """Return one that holds so many times the device cache's tokens."""
        from hiqcache.capacity import tokens_for_ratio

        tokens = tokens_for_ratio(ratio, device.tokens, device.page_size)
        return cls(codec, ("--hicache-ratio", repr(ratio)), tokens, write_policy)

    @classmethod
    def by_bytes(
        cls,
        codec: str,
        budget: int,
        geometry: KVGeometry,
        device: DevicePool,
        write_policy: str = WRITE_THROUGH,
    ) -> L2:
        """Return one of so many bytes, but for less than a page."""
        from hiqcache.capacity import ratio_for_bytes

        token = stored_bytes(codec, geometry)
        ratio = ratio_for_bytes(budget, token, device.tokens, device.page_size)
        return cls.by_ratio(codec, ratio, device, write_policy)

    @classmethod
    def by_size(
        cls, codec: str, gigabytes: int, geometry: KVGeometry, write_policy: str = WRITE_THROUGH
    ) -> L2:
        """Return one of so many decimal gigabytes."""
        from hiqcache.capacity import tokens_for_size

        tokens = tokens_for_size(gigabytes, stored_bytes(codec, geometry), geometry.page_size)
        return cls(codec, ("--hicache-size", str(gigabytes)), tokens, write_policy)

    def options(self) -> list[str]:
        """Return the server's options."""
        return [
            "--enable-hierarchical-cache",
            *("--hicache-l2-codec", self.codec),
            *("--hicache-write-policy", self.write_policy),
            *self.size,
        ]


def stored_bytes(codec: str, geometry: KVGeometry) -> int:
    """Return the bytes of a token, all layers, in a host cache of that codec."""
    from hiqcache.codecs import make_codec

    if codec == NO_CODEC:
        return geometry.bytes_per_token
    return make_codec(codec, geometry).bytes_per_token


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
    budget = raw_tokens * geometry.bytes_per_token
    return (
        L2.by_bytes(NO_CODEC, budget, geometry, device),
        L2.by_bytes(codec, budget, geometry, device),
    )
