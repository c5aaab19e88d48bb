"""What an encoded L2 cannot be combined with, refused when the server starts.

Each of these either writes or reads raw KV in the host pool behind the codec's back, or keeps KV
that no codec here encodes. The table speaks of SGLang's server arguments by name and reads them
from any object that has them, after SGLang has resolved them; an argument that a release does not
have yet cannot be set there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hiqcache.codecs import codec_names


@dataclass(frozen=True)
class Refusal:
    """One server argument, the values that are refused, and why."""

    field: str
    refused: Callable[[Any], bool]
    #: Completes "--hicache-l2-codec CODEC ...": the thing, then the way out.
    reason: str


def _is_set(value: Any) -> bool:
    return value is not None and value is not False


def _not_in(*supported: str) -> Callable[[Any], bool]:
    return lambda value: value not in supported


_RAW = "uses the host pool for raw KV"

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "enable_hierarchical_cache",
        lambda enabled: not enabled,
        "has nothing to encode without HiCache: add --enable-hierarchical-cache",
    ),
    Refusal("disable_radix_cache", _is_set, "needs the radix cache: drop --disable-radix-cache"),
    Refusal(
        "radix_cache_backend",
        _is_set,
        "needs SGLang's own radix cache: drop --radix-cache-backend",
    ),
    Refusal("enable_lmcache", _is_set, "encodes HiCache, not LMCache: drop --enable-lmcache"),
    Refusal("enable_flexkv", _is_set, "encodes HiCache, not FlexKV: drop --enable-flexkv"),
    Refusal(
        "hicache_storage_backend",
        _is_set,
        "has no L3 format yet: drop --hicache-storage-backend",
    ),
    Refusal(
        # Either end of its range disables it: 0 in 0.5.21, 1 since. The other one ("always")
        # takes a decode server, which is refused below.
        "disaggregation_decode_host_receive_threshold",
        lambda threshold: 0 < threshold < 1,
        f"is refused: PD host-receive {_RAW}; drop --disaggregation-decode-host-receive-threshold",
    ),
    Refusal(
        "disaggregation_decode_retraction_backup",
        lambda backup: backup == "host_pool",
        f"is refused: decode retraction backup {_RAW}; "
        "set --disaggregation-decode-retraction-backup cpu_tensor",
    ),
    Refusal(
        "disaggregation_decode_enable_offload_kvcache",
        _is_set,
        f"is refused: decode KV offload {_RAW}; "
        "drop --disaggregation-decode-enable-offload-kvcache",
    ),
    Refusal(
        "disaggregation_mode",
        lambda mode: mode == "decode",
        "is not for a decode server: drop --disaggregation-mode decode",
    ),
    Refusal(
        "enable_pd_role_switch",
        _is_set,
        "is not for a server that can become a decode server: drop --enable-pd-role-switch",
    ),
    Refusal("enable_hisparse", _is_set, f"is refused: HiSparse {_RAW}; drop --enable-hisparse"),
    Refusal(
        "dcp_size",
        lambda size: size > 1,
        "does not encode token-sharded (DCP) KV: drop --dcp-size",
    ),
    Refusal(
        "enable_unified_memory",
        _is_set,
        "does not encode unified page envelopes: drop --enable-unified-memory",
    ),
    Refusal(
        "enable_kv_cache_sharding",
        _is_set,
        "does not encode interleaved pages: drop --enable-kv-cache-sharding",
    ),
    Refusal(
        "kv_cache_dtype",
        _not_in("auto", "bf16", "bfloat16"),
        "encodes a BF16 or FP16 KV cache, not a quantised one: drop --kv-cache-dtype",
    ),
    Refusal(
        "speculative_algorithm",
        _is_set,
        "does not encode a draft model's KV: drop --speculative-algorithm",
    ),
    Refusal(
        "hicache_io_backend",
        _not_in("kernel", "direct"),
        "is moved by --hicache-io-backend kernel or direct only",
    ),
    Refusal(
        "hicache_mem_layout",
        _not_in("layer_first", "page_first", "page_first_direct"),
        "supports --hicache-mem-layout layer_first, page_first and page_first_direct only",
    ),
)

#: Said of a storage backend that is attached to a running server.
STORAGE_ATTACH_REFUSED = (
    "an encoded L2 (--hicache-l2-codec) has no L3 format yet; "
    "restart with --hicache-l2-codec none to attach a storage backend"
)


def refusals(config: Any) -> Iterator[str]:
    """Reasons for which a server of these resolved arguments cannot use a codec."""
    for refusal in REFUSALS:
        if hasattr(config, refusal.field) and refusal.refused(getattr(config, refusal.field)):
            yield refusal.reason


def refuse_server(codec: str, config: Any) -> None:
    """Raise for an unknown codec, or the first thing in ``config`` that it cannot go with.

    Parameters
    ----------
    codec : str
        Value of ``--hicache-l2-codec``.
    config
        SGLang's resolved server arguments, as attributes.

    Raises
    ------
    ValueError
        One line: the codec, the argument and the way out.
    """
    if codec not in codec_names():
        known = ", ".join(codec_names())
        raise ValueError(f"--hicache-l2-codec {codec} is unknown; choose none, {known}")
    for reason in refusals(config):
        raise ValueError(f"--hicache-l2-codec {codec} {reason}")


def refuse_device_pool(codec: str, pool: Any, supported: type) -> None:
    """Raise unless the KV cache is exactly SGLang's plain MHA pool.

    MLA, hybrid, sliding-window, quantised and wrapped pools keep KV that would stay unencoded,
    and many of them subclass the plain pool, so a subclass is refused too.

    Raises
    ------
    ValueError
        Names the pool's class.
    """
    if type(pool) is not supported:
        raise ValueError(
            f"--hicache-l2-codec {codec} encodes {supported.__name__} only, and this model's KV "
            f"cache is {type(pool).__name__}; serve it with --hicache-l2-codec none"
        )


def refuse_cache(codec: str, cache: Any, encoded: type) -> None:
    """Raise unless the radix cache that was built keeps all its host copies encoded.

    SGLang chooses among several caches, by more than its arguments; whichever it chose, what
    counts is what holds the host copies.

    Parameters
    ----------
    codec : str
        Value of ``--hicache-l2-codec``.
    cache
        SGLang's prefix cache.
    encoded : type
        Class of the encoded host pool.

    Raises
    ------
    ValueError
        Names the cache's class and the classes of its host pools.
    """
    group = getattr(cache, "host_pool_group", None)
    pools = [entry.host_pool for entry in getattr(group, "entries", ())]
    if not pools or not all(isinstance(pool, encoded) for pool in pools):
        kept = ", ".join(type(pool).__name__ for pool in pools) or "no host pool"
        raise ValueError(
            f"--hicache-l2-codec {codec} has no effect on the cache that SGLang chose, "
            f"{type(cache).__name__} with {kept}; serve with --hicache-l2-codec none"
        )


def refuse_buffers(
    codec: str,
    keys: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    layout: Any,
    scales: Any,
    drafts: Sequence[Any],
) -> None:
    """Raise unless the device buffers are plain rows, ``[slots, kv_heads, head_dim]``.

    Parameters
    ----------
    codec : str
        Value of ``--hicache-l2-codec``.
    keys, values : sequence of torch.Tensor
        The KV cache, a tensor for each layer. K and V may differ in ``head_dim``.
    layout
        SGLang's name of their layout, or its enumeration member.
    scales
        Scales of a quantised KV cache, or None.
    drafts : sequence
        Packed draft pools.

    Raises
    ------
    ValueError
        Names what is in the way.
    """
    k_shapes, v_shapes = (sorted({tuple(b.shape[1:]) for b in part}) for part in (keys, values))
    shapes = list(dict.fromkeys(k_shapes + v_shapes))
    layout = getattr(layout, "value", layout)
    found = {
        "a stage without KV layers": not keys,
        "packed draft layers": len(drafts) > 0,
        "a quantised KV cache": scales is not None,
        f"the device layout {layout!r}": layout != "nhd",
        f"layers of different shapes ({shapes})": max(len(k_shapes), len(v_shapes)) > 1,
        f"device rows of shape {shapes}": any(len(shape) != 2 for shape in shapes),
        f"K and V of different heads ({shapes})": len({shape[0] for shape in shapes}) > 1,
    }
    for thing, present in found.items():
        if present:
            raise ValueError(
                f"--hicache-l2-codec {codec} does not encode {thing}; "
                "serve with --hicache-l2-codec none"
            )
