"""Random use of SGLang's cache over an encoded pool, beside a model that knows every byte.

The model keeps its own device slots and host pages. It is told only what SGLang asks of the host
pool: which slots it allocates and frees, which device slots it backs up to which host slots and
loads from them. What the bytes then are it computes with the codec alone, a page at a time, so the
staging buffers, the chunks and the movers have no part in it.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

import torch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.radix_cache import RadixKey

from hiqcache.codecs import make_codec

from .radix import Radix
from .releases import device_slots, finish_backups, matched_on_device

#: A page that is another one differs by the root of two; a format that was applied many times by
#: a good deal less.
LARGEST_ERROR = 0.4

Page = tuple[int, ...]


@dataclass
class Model:
    """What device slots and host pages hold, and which host slots are taken."""

    r: Radix
    device: torch.Tensor = field(init=False)  # [2, layers, slots, heads, dim]
    units: torch.Tensor = field(init=False)  # [layers, host pages, unit_bytes]
    taken: set[int] = field(default_factory=set)  # host pages
    moved: dict[str, int] = field(default_factory=lambda: {"backed up": 0, "loaded": 0})

    def __post_init__(self) -> None:
        s, host = self.r.setup, self.r.host
        self.codec = make_codec(s.codec, s.geometry)
        self.device = torch.stack([torch.stack(list(b)) for b in self._buffers()])
        shape = (s.layers, host.page_num, self.codec.unit.unit_bytes)
        self.units = torch.zeros(shape, dtype=torch.uint8)
        host.kv_buffer.zero_()
        for name, told in {
            "alloc": self._allocated,
            "free": self._freed,
            "backup_from_device_all_layer": self._backed_up,
            "load_to_device_per_layer": self._loaded,
        }.items():
            self._listen(name, told)

    def _buffers(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        return self.r.device.k_buffer, self.r.device.v_buffer

    def _listen(self, name: str, told) -> None:
        method = getattr(self.r.host, name)

        def listening(*args, **kwargs):
            result = method(*args, **kwargs)
            told(result, *args, **kwargs)
            return result

        setattr(self.r.host, name, listening)

    def _host_pages(self, slots: torch.Tensor) -> list[int]:
        page = self.r.setup.page_size
        pages = slots.cpu().unflatten(0, (-1, page))
        assert torch.equal(pages, pages[:, :1] // page * page + torch.arange(page))
        return (pages[:, 0] // page).tolist()

    def _allocated(self, slots, wanted: int) -> None:
        if slots is None:
            assert wanted > self.r.host.available_size()
            return
        pages = self._host_pages(slots)
        assert len(slots) == wanted and not self.taken & set(pages)
        self.taken |= set(pages)

    def _freed(self, result, slots: torch.Tensor) -> None:
        pages = self._host_pages(slots) if slots.numel() else []
        assert self.taken >= set(pages) and len(set(pages)) == len(pages)
        self.taken -= set(pages)

    def _pages_of(self, slots: torch.Tensor) -> torch.Tensor:
        """The model's device pages, ``[2, layers, pages, page_size, heads, dim]``."""
        return self.device[:, :, slots.cpu()].unflatten(2, (-1, self.r.setup.page_size))

    def _backed_up(self, result, pool, host_indices, device_indices, io_backend) -> None:
        hosts = self._host_pages(host_indices)
        assert set(hosts) <= self.taken
        keys, values = self._pages_of(device_indices)
        units = torch.empty((*keys.shape[:2], self.units.shape[-1]), dtype=torch.uint8)
        self.codec.encode(keys, values, units, self.codec.workspace(units[..., 0].numel(), "cpu"))
        self.units[:, hosts] = units
        self.moved["backed up"] += len(hosts)

    def _loaded(
        self, result, pool, host_indices, device_indices, layer_id, io_backend, **kwargs
    ) -> None:
        hosts = self._host_pages(host_indices)
        assert set(hosts) <= self.taken
        pages = self._pages_of(device_indices)[:, layer_id]
        keys, values = torch.empty_like(pages[0]), torch.empty_like(pages[1])
        workspace = self.codec.workspace(len(hosts), "cpu")
        self.codec.decode(self.units[layer_id, hosts], keys, values, workspace)
        for component, restored in enumerate((keys, values)):
            self.device[component, layer_id, device_indices.cpu()] = restored.flatten(0, 1)
        self.moved["loaded"] += len(hosts)

    def arena_units(self) -> torch.Tensor:
        """The host arena's own bytes in the order of :attr:`units`."""
        s, host, unit = self.r.setup, self.r.host, self.codec.unit
        rows = (unit.rows_per_half, unit.mover_row_bytes)
        arena = host.kv_buffer.view(torch.uint8).flatten()
        match s.layout:
            case "layer_first":
                halves = arena.view(2, s.layers, host.page_num, *rows)
            case "page_first":
                halves = arena.view(2, host.page_num, rows[0], s.layers, rows[1]).permute(
                    0, 3, 1, 2, 4
                )
            case "page_first_direct":
                halves = arena.view(2, host.page_num, s.layers, *rows).transpose(1, 2)
        return halves.permute(1, 2, 0, 3, 4).flatten(2)

    def check(self) -> None:
        """Every byte of both pools, and what SGLang thinks is free."""
        host = self.r.host
        for expected, buffers in zip(self.device, self._buffers(), strict=True):
            assert torch.equal(
                expected.view(torch.int16), torch.stack(list(buffers)).view(torch.int16)
            )
        assert torch.equal(self.units, self.arena_units())
        free = host.size - len(self.taken) * self.r.setup.page_size
        assert host.available_size() == free
        assert int(host.slot_used.sum()) == host.size - free


class Storm:
    """Sequences that share prefixes, and random steps on them."""

    def __init__(self, r: Radix, seed: int) -> None:
        self.r, self.random = r, random.Random(seed)
        self.model = Model(r)
        self.sequences: list[list[Page]] = []
        self.steps: dict[str, int] = {}
        self._loading = 0

    def content(self, path: tuple[Page, ...]) -> torch.Tensor:
        """KV of the last page of ``path``, ``[2, layers, page_size, heads, dim]``."""
        s = self.r.setup
        digest = hashlib.blake2b(repr(path).encode(), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest) >> 1)
        shape = (2, s.layers, s.page_size, s.kv_heads, s.head_dim)
        return torch.randn(shape, generator=generator).to(s.dtype)

    def step(self) -> None:
        """One random step."""
        kinds = {
            self.insert: 6, self.touch: 2, self.evict: 3, self.evict_host: 1,
            self.start_load: 5, self.finish_loads: 2, self.shuffle: 2,
        }  # fmt: skip
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        self.steps[kind.__name__] = self.steps.get(kind.__name__, 0) + 1
        kind()

    def key(self, pages: list[Page]) -> RadixKey:
        """Token ids of a sequence of pages."""
        from array import array

        return RadixKey(array("q", [token for page in pages for token in page]))

    def match(self, pages: list[Page]):
        return self.r.cache.match_prefix(MatchPrefixParams(key=self.key(pages)))

    def _new_sequence(self) -> list[Page]:
        """A prefix of a known sequence, which may end inside a node, and pages of its own."""
        known = self.random.choice(self.sequences) if self.sequences else []
        shared = known[: self.random.randint(0, len(known))]
        own = self.random.randint(1, 4)
        page = self.r.setup.page_size
        return [
            *shared,
            *(tuple(self.random.randint(3, 30_000) for _ in range(page)) for _ in range(own)),
        ][:8]

    def insert(self) -> None:
        """A request: its prefix restored, the rest computed, all of it kept."""
        self.finish_loads()
        pages = self._new_sequence()
        tokens = len(pages) * self.r.setup.page_size
        if self.r.allocator.available_size() < 2 * tokens:
            self.r.cache.evict(EvictParams(num_tokens=2 * tokens))
            finish_backups(self.r.cache)
        self._load(pages)
        self.finish_loads()
        match = self.match(pages)
        kept = device_slots(self.r.cache, match)
        slots = self.r.allocator.alloc(tokens - len(kept))
        if slots is None:
            return
        for index, path in enumerate(self._paths(pages)[len(kept) // self.r.setup.page_size :]):
            at = slots.unflatten(0, (-1, self.r.setup.page_size))[index]
            self._write(at, self.content(path))
        value = torch.cat([kept, slots])
        self._keep(pages, value, len(kept))
        finish_backups(self.r.cache)
        self.sequences = [*self.sequences, pages][-40:]

    def _keep(self, pages: list[Page], slots: torch.Tensor, kept: int) -> None:
        """Insert a sequence, whose first ``kept`` slots are the tree's already."""
        params = InsertParams(key=self.key(pages), value=slots, prev_prefix_len=kept)
        self.r.cache.insert(params)

    def _paths(self, pages: list[Page]) -> list[tuple[Page, ...]]:
        return [tuple(pages[: end + 1]) for end in range(len(pages))]

    def _write(self, slots: torch.Tensor, kv: torch.Tensor) -> None:
        """Have attention write KV, in the pool and in the model."""
        for component, buffers in enumerate(self.model._buffers()):
            for layer, buffer in enumerate(buffers):
                buffer[slots] = kv[component, layer]
                self.model.device[component, layer, slots] = kv[component, layer]

    def touch(self) -> None:
        """A second hit, after which the selective policy backs a node up."""
        if self.sequences:
            pages = self.random.choice(self.sequences)
            slots = device_slots(self.r.cache, self.match(pages))
            if len(slots):
                kept = pages[: len(slots) // self.r.setup.page_size]
                self._keep(kept, slots, len(slots))
                finish_backups(self.r.cache)

    def evict(self) -> None:
        """Give device slots back."""
        self.finish_loads()
        tokens = self.random.randint(1, 8) * self.r.setup.page_size
        self.r.cache.evict(EvictParams(num_tokens=tokens))
        finish_backups(self.r.cache)

    def evict_host(self) -> None:
        """Give host slots back."""
        self.finish_loads()
        self.r.cache.evict_host(self.random.randint(1, 4) * self.r.setup.page_size)

    def start_load(self) -> None:
        """Queue the restore of a sequence; several are merged into one transfer."""
        if self.sequences:
            self._load(self.random.choice(self.sequences))

    def _load(self, pages: list[Page]) -> None:
        match = self.match(pages)
        if match.host_hit_length:
            self._loading += self.r.queue_load_back(match) > 0

    def finish_loads(self) -> None:
        """Submit what is queued and wait for it, then read what came back."""
        if self._loading:
            self._loading = 0
            self.r.finish_load_back()
            self.read()

    def shuffle(self) -> None:
        """Move pages in an order of their own, as no node of the tree lies."""
        s, host = self.r.setup, self.r.host
        count = self.random.randint(1, 5) * s.page_size
        slots, hosts = self.r.allocator.alloc(count), host.alloc(count)
        if slots is not None and hosts is not None:
            for page in slots.unflatten(0, (-1, s.page_size)):
                self._write(page, self.content(((self.random.randint(0, 9),),)))
            order = torch.randperm(count // s.page_size)
            shuffled = hosts.unflatten(0, (-1, s.page_size))[order].flatten()
            host.backup_from_device_all_layer(self.r.device, shuffled, slots, s.io_backend)
            for layer in range(s.layers):
                back = slots.unflatten(0, (-1, s.page_size))[order].flatten()
                host.load_to_device_per_layer(self.r.device, hosts, back, layer, s.io_backend)
        if slots is not None:
            self.r.allocator.free(slots)
        if hosts is not None:
            host.free(hosts)

    def read(self) -> None:
        """What attention would read of a sequence is its own KV, but for the format's loss."""
        pages = self.random.choice(self.sequences)
        match = self.match(pages)
        slots = device_slots(self.r.cache, match)
        assert len(slots) == matched_on_device(match)
        if not len(slots):
            return
        found = self.model._pages_of(slots).float()
        for index, path in enumerate(self._paths(pages)[: found.shape[2]]):
            expected = self.content(path).float()
            error = (found[:, :, index] - expected).norm() / expected.norm()
            assert error < LARGEST_ERROR, f"page {index} of {len(pages)}: {error:.3f}"
