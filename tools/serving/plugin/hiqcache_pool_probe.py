"""An SGLang plug-in that writes down how large a host pool is where its bytes are.

SGLang finds it by the entry point in the ``dist-info`` folder beside it, so it is enough to put
this folder on the server's import path. Every host pool that a cache is made of appends one line of
JSON to the file that ``HIQCACHE_POOL_REPORT`` names. It reads what every pool has, raw or encoded,
in every supported release, once the pool is made: an encoded one counts rows, not tokens, while it
allocates its memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

TARGET = "sglang.srt.mem_cache.pool_host.group.HostPoolGroup.__init__"


def _storage_bytes(buffers: torch.Tensor | Sequence[torch.Tensor]) -> int:
    tensors = buffers if isinstance(buffers, Sequence) else [buffers]
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


def describe(entry: Any) -> dict[str, Any]:
    """Return the figures of a host pool, and the capacity of the device pool that it serves."""
    pool = entry.host_pool
    return {
        "pool": type(pool).__name__,
        "slots": pool.size,
        "size_per_token": pool.size_per_token,
        "nbytes": _storage_bytes(pool.kv_buffer),
        "page_size": pool.page_size,
        "layout": pool.layout,
        "device_tokens": entry.device_pool.size,
    }


def report(result: None, group: Any, entries: Sequence[Any]) -> None:
    """Append the figures of a group's pools; SGLang calls this after it has made the group."""
    with Path(os.environ["HIQCACHE_POOL_REPORT"]).open("a", encoding="utf-8") as file:
        for entry in entries:
            file.write(json.dumps(describe(entry)) + "\n")


def install() -> None:
    """Ask SGLang to call :func:`report`, if a report is wanted."""
    if "HIQCACHE_POOL_REPORT" in os.environ:
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType

        HookRegistry.register(TARGET, report, HookType.AFTER)
