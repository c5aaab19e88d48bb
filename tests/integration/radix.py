"""SGLang's device pool, radix cache, controller and transfer engine around one host pool."""

from __future__ import annotations

import types
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import (
    EvictParams,
    InitLoadBackParams,
    InsertParams,
    MatchPrefixParams,
)
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.unified_cache.components import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.runtime_context import get_context
from torch.distributed import ProcessGroup

from hiqcache.geometry import KVGeometry

from .releases import device_slots, finish_backups, matched_on_device, restored_tokens

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

Rows = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Setup:
    """One configuration of cache and model geometry."""

    codec: str | None = "int8"
    layout: str = "page_first"
    io_backend: str = "kernel"
    page_size: int = 16
    policy: str = "write_through"
    layers: int = 3
    kv_heads: int = 8
    head_dim: int = 128
    v_head_dim: int = 128
    dtype: torch.dtype = torch.bfloat16
    device_tokens: int = 640
    ratio: float = 4.0
    size_gb: int = 0
    device_pool: type = MHATokenToKVPool
    device: str = DEVICE

    @property
    def geometry(self) -> KVGeometry:
        """What a codec is made for."""
        return KVGeometry(
            self.layers, self.kv_heads, self.head_dim, self.v_head_dim, self.page_size, self.dtype
        )

    @property
    def server_args(self) -> dict:
        """SGLang's server arguments for it."""
        return dict(
            device=self.device,
            enable_hierarchical_cache=True,
            hicache_ratio=self.ratio,
            hicache_size=self.size_gb,
            hicache_mem_layout=self.layout,
            hicache_io_backend=self.io_backend,
            hicache_write_policy=self.policy,
            hicache_l2_codec=self.codec,
            page_size=self.page_size,
        )


@dataclass
class Radix:
    """A running cache. ``kv`` holds what was inserted, by sequence seed."""

    setup: Setup
    device: MHATokenToKVPool
    allocator: TokenToKVPoolAllocator
    cache: UnifiedRadixCache
    kv: dict[int, Rows] = field(default_factory=dict)
    #: (device slots, host slots) of each backup, as the transfer engine asked for them.
    backups: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        backup = self.host.backup_from_device_all_layer

        def recorded(device_pool, host_indices, device_indices, io_backend):
            self.backups.append((device_indices.clone(), host_indices.clone()))
            backup(device_pool, host_indices, device_indices, io_backend)

        self.host.backup_from_device_all_layer = recorded

    @property
    def host(self):
        """The L2 pool."""
        return self.cache.host_pool_group.entries[0].host_pool

    def key(self, seed: int, tokens: int) -> RadixKey:
        """Token ids of the sequence ``seed``."""
        generator = torch.Generator().manual_seed(seed)
        return RadixKey(
            array("q", torch.randint(3, 30000, (tokens,), generator=generator).tolist())
        )

    def insert(self, seed: int, tokens: int) -> torch.Tensor:
        """Compute (here: draw) the KV of a sequence, insert it, and return its device slots."""
        slots = self.allocator.alloc(tokens)
        if slots is None:
            self.cache.evict(EvictParams(num_tokens=tokens))
            slots = self.allocator.alloc(tokens)
        s = self.setup
        generator = torch.Generator().manual_seed(1000 + seed)
        self.kv[seed] = []
        for layer in range(s.layers):
            k, v = (
                torch.randn((tokens, s.kv_heads, dim), generator=generator).to(s.device, s.dtype)
                for dim in (s.head_dim, s.v_head_dim)
            )
            self.device.k_buffer[layer][slots] = k
            self.device.v_buffer[layer][slots] = v
            self.kv[seed].append((k, v))
        self.cache.insert(InsertParams(key=self.key(seed, tokens), value=slots))
        finish_backups(self.cache)
        return slots

    def touch(self, seed: int, tokens: int) -> None:
        """A second hit, after which the selective policy backs a node up."""
        match = self.match(seed, tokens)
        slots = device_slots(self.cache, match)
        key = self.key(seed, tokens)
        # SGLang frees inserted slots as duplicates but for those that are the tree's own.
        self.cache.insert(InsertParams(key=key, value=slots, prev_prefix_len=len(slots)))
        finish_backups(self.cache)

    def match(self, seed: int, tokens: int):
        """SGLang's match of the sequence."""
        return self.cache.match_prefix(MatchPrefixParams(key=self.key(seed, tokens)))

    def found(self, seed: int, tokens: int) -> tuple[int, int]:
        """Tokens of the sequence that a match finds on the device, and on the host."""
        match = self.match(seed, tokens)
        return matched_on_device(match), match.host_hit_length

    def host_slots(self, device_slots: torch.Tensor) -> torch.Tensor:
        """Host slots of tokens that were just backed up from these device slots."""
        table = {}
        for devices, hosts in self.backups:
            table.update(zip(devices.tolist(), hosts.tolist(), strict=True))
        return torch.tensor([table[slot] for slot in device_slots.tolist()])

    def load_back(self, seed: int, tokens: int) -> int:
        """Restore the sequence from L2; returns the tokens that SGLang says it restored."""
        restored = self.start_load_back(seed, tokens)
        self.finish_load_back()
        return restored

    def start_load_back(self, seed: int, tokens: int) -> int:
        """Have SGLang allocate device slots for the sequence and queue their load."""
        return self.queue_load_back(self.match(seed, tokens))

    def queue_load_back(self, match) -> int:
        """The same for any match; returns the tokens that SGLang says it restores."""
        request = types.SimpleNamespace(
            rid="r",
            last_node=match.last_device_node,
            swa_host_hit_length=0,
            mamba_host_hit_length=0,
            kv=types.SimpleNamespace(mamba_pool_idx=None),
        )
        loaded, _ = self.cache.init_load_back(
            InitLoadBackParams(
                best_match_node=match.best_match_node,
                host_hit_length=match.host_hit_length,
                req=request,
            )
        )
        return restored_tokens(loaded)

    def finish_load_back(self) -> None:
        """Submit what is queued and wait for each layer, as a forward pass does."""
        self.device.layer_transfer_counter.set_consumer(self.cache.ready_to_load_host_cache())
        for layer in range(self.setup.layers):
            self.device.layer_transfer_counter.wait_until(layer)
        self.cache.check_hicache_events()

    def read(self, seed: int, tokens: int) -> Rows:
        """The sequence's KV rows as attention would read them from the device pool."""
        assert self.found(seed, tokens) == (tokens, 0)
        slots = device_slots(self.cache, self.match(seed, tokens))
        return [
            (self.device.get_key_buffer(layer)[slots], self.device.get_value_buffer(layer)[slots])
            for layer in range(self.setup.layers)
        ]


def synchronize() -> None:
    """Wait for what a direct call of the host pool enqueued."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


@contextmanager
def radix(setup: Setup, group: ProcessGroup | None = None) -> Iterator[Radix]:
    """Build the cache that ``setup`` describes, with HiCache attached, and shut it down.

    ``group`` are the ranks that hold the other heads of the same tokens.
    """
    s = setup
    with get_context().override_server_args(**s.server_args) as server_args:
        device = s.device_pool(
            s.device_tokens,
            s.page_size,
            s.dtype,
            s.kv_heads,
            s.head_dim,
            s.layers,
            s.device,
            False,
            v_head_dim=s.v_head_dim,
        )
        allocator = (
            TokenToKVPoolAllocator(s.device_tokens, s.dtype, s.device, device, False)
            if s.page_size == 1
            else PagedTokenToKVPoolAllocator(
                s.device_tokens, s.page_size, s.dtype, s.device, device, False
            )
        )
        params = CacheInitParams(
            disable=False,
            req_to_token_pool=ReqToTokenPool(
                size=8, max_context_len=2048, device=s.device, enable_memory_saver=False
            ),
            token_to_kv_pool_allocator=allocator,
            page_size=s.page_size,
            tree_components=(ComponentType.FULL,),
            tp_cache_group=group,
        )
        cache = UnifiedRadixCache(params)
        cache.init_hicache(server_args, params)
        try:
            yield Radix(setup, device, allocator, cache)
        finally:
            cache.shutdown()
            for entry in cache.host_pool_group.entries:
                entry.host_pool.destroy()
                # SGLang's views of the arena would keep it until the next collection of cycles.
                vars(entry.host_pool).clear()
