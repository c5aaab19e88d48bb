"""Bytes per token to tokens, by the rule that SGLang's host pools size themselves with.

``HostKVCache.__init__`` (``mem_cache/pool_host/base.py``): a fixed size is decimal gigabytes per
rank; a ratio multiplies the device pool's tokens; either way the result is rounded down to pages
and one page is added.
"""

from __future__ import annotations

from typing import Any

from hiqcache.codecs.base import KVCodec

GIGABYTE = 10**9


def _whole_pages(tokens: int, page_size: int) -> int:
    return (tokens // page_size + 1) * page_size


def tokens_for_size(size_gb: float, bytes_per_token: int, page_size: int = 1) -> int:
    """Tokens of a host pool started with ``--hicache-size size_gb``.

    Parameters
    ----------
    size_gb : float
        Decimal gigabytes per rank.
    bytes_per_token : int
        All layers, K and V, as stored on the host.
    page_size : int
        Tokens per page.

    Returns
    -------
    int
        Tokens, a multiple of ``page_size``.
    """
    return _whole_pages(int(size_gb * GIGABYTE // bytes_per_token), page_size)


def tokens_for_ratio(ratio: float, device_tokens: int, page_size: int = 1) -> int:
    """Tokens of a host pool started with ``--hicache-ratio ratio``."""
    return _whole_pages(int(device_tokens * ratio), page_size)


def ratio_for_bytes(
    budget_bytes: int, bytes_per_token: int, device_tokens: int, page_size: int = 1
) -> float:
    """``--hicache-ratio`` that fills a byte budget exactly, or fails to by less than a page.

    Raises
    ------
    ValueError
        If the budget does not hold two pages: SGLang adds one to whatever the ratio gives.
    """
    pages = budget_bytes // (bytes_per_token * page_size)
    if pages < 2:
        raise ValueError(
            f"{budget_bytes} bytes hold {pages} page(s) of {page_size} tokens at "
            f"{bytes_per_token} bytes per token; a host pool needs at least two"
        )
    # Half a token above the wanted page count, so that float rounding cannot lose a page.
    return ((pages - 1) * page_size + 0.5) / device_tokens


def codec_ratio(ratio: float, codec: KVCodec, config: Any) -> float:
    """Ratio of a host pool: SGLang's own default buys the tokens that its bytes hold encoded.

    A ratio counts tokens, so one that the operator chose is kept, with less memory for it. The
    default stands for the memory that a raw pool would take.

    Parameters
    ----------
    ratio : float
        As SGLang resolved it.
    codec : KVCodec
        What the pool is kept with.
    config
        SGLang's server arguments as they were given: ``hicache_ratio`` is None by default.
    """
    if config.hicache_ratio is not None:
        return ratio
    # One quotient, the same for any number of layers: stages of a pipeline size alike.
    return ratio * (codec.geometry.bytes_per_token / codec.bytes_per_token)
