"""The few places where the supported releases differ for these tests."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from sglang.srt.mem_cache.pool_host import base, mha


def matched_on_device(match: Any) -> int:
    """Tokens of a match that are in the device pool."""
    if hasattr(match, "device_prefix_len"):  # 0.5.22
        return match.device_prefix_len
    return len(match.device_indices)


def device_slots(cache: Any, match: Any) -> torch.Tensor:
    """Device slots of the matched tokens."""
    if hasattr(cache, "path_device_indices"):  # 0.5.22
        return cache.path_device_indices(match.last_device_node)
    return match.device_indices


def restored_tokens(loaded: Any) -> int:
    """Tokens that a load back restored: a count, or their device slots before 0.5.22."""
    return loaded if isinstance(loaded, int) else len(loaded)


def finish_backups(cache: Any) -> None:
    """Have SGLang start and acknowledge the backups that are due."""
    if hasattr(cache, "flush_pending_backups"):  # 0.5.21; they start at once before
        cache.flush_pending_backups()
    cache.check_hicache_events()


def host_pool_input(device: Any) -> Any:
    """What a host pool is constructed with: buffer facts, or the device pool before 0.5.23."""
    if "buffer_info" in inspect.signature(mha.MHATokenToKVPoolHost).parameters:
        return device.get_device_pool_infos()[0].buffer_info
    return device


def build_host_pool(device: Any, *, drafts: tuple[Any, ...] = ()) -> Any:
    """Construct the selected host pool over a device pool, as SGLang's assembler does."""
    kv = host_pool_input(device)
    if kv is device:
        more: dict[str, Any] = {"mtp_draft_device_pools": drafts}
    else:
        infos = tuple(host_pool_input(draft) for draft in drafts)
        last = device.layer_num - 1
        more = dict(
            device_capacity_tokens=device.size,
            start_layer=0,
            end_layer=last,
            draft_buffer_infos=infos,
            write_back_staging=device.hicache_write_back_staging,
        )
    cls = mha.get_mha_host_pool_cls(kv)
    return cls(kv, 2.0, 0, device.page_size, "page_first", **more)


def limit_host_memory(monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    """Give host pools this many bytes, whatever the machine has free."""
    monkeypatch.setattr(base, "host_memory_budget_bytes", lambda *args, **kwargs: budget)
