"""The host cache of each configuration: of the same bytes, or of the same tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence.record import NO_L2, RAW
from patchstack.errors import Exit, ToolError
from serving.l2 import L2, NO_CODEC, DevicePool

if TYPE_CHECKING:
    from hiqcache.geometry import KVGeometry


def codec_flag(configuration: str) -> str:
    """Return a configuration's value of ``--hicache-l2-codec``."""
    return NO_CODEC if configuration == RAW else configuration


def l2_of_bytes(
    configuration: str, budget: int, geometry: KVGeometry, device: DevicePool, write_policy: str
) -> L2 | None:
    """Return a configuration's host cache of so many bytes, but for less than a page.

    A budget of whole decimal gigabytes, to a token, is given as ``--hicache-size``, as an operator
    would.
    """
    from hiqcache.capacity import GIGABYTE

    if configuration == NO_L2:
        return None
    codec = codec_flag(configuration)
    gigabytes = round(budget / GIGABYTE)
    if abs(budget - gigabytes * GIGABYTE) < geometry.bytes_per_token:
        return L2.by_size(codec, gigabytes, geometry, write_policy)
    return L2.by_bytes(codec, budget, geometry, device, write_policy)


def l2_of_tokens(
    configuration: str, tokens: int, device: DevicePool, write_policy: str
) -> L2 | None:
    """Return a configuration's host cache of so many tokens, whole pages.

    Raises
    ------
    ToolError
        If no ratio gives them.
    """
    if configuration == NO_L2:
        return None
    # SGLang adds a page to what the ratio gives; half a token keeps float rounding out of it.
    ratio = (tokens - device.page_size + 0.5) / device.tokens
    found = L2.by_ratio(codec_flag(configuration), ratio, device, write_policy)
    if found.tokens != tokens:
        raise ToolError(
            f"an L2 of {tokens:,} tokens is not whole pages of {device.page_size}",
            f"take {found.tokens:,}",
            Exit.USAGE,
        )
    return found
