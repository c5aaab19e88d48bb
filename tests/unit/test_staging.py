"""Encode, move, decode: round trips on a real arena, and what two streams may do to each other."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hiqcache.codecs.base import KVCodec
from hiqcache.codecs.int8 import Int8Codec
from hiqcache.codecs.raw import RawCodec
from hiqcache.geometry import KVGeometry
from hiqcache.staging import StagedTransfer
from tests.unit.host_arena import POISON, HostArena
from tests.unit.int8_rows import decode, encode
from tests.unit.recording_stream import HotPath, NotEnqueuedError, RecordingStream, execute

CPU = torch.device("cpu")
GEOMETRY = KVGeometry(layers=3, kv_heads=3, head_dim=16, device_type="cpu")
CHUNK = 64
CODECS = [pytest.param(Int8Codec, id="int8"), pytest.param(RawCodec, id="raw")]

CodecClass = type[KVCodec]
Cache = list[torch.Tensor]


def cache(slots: int, seed: int, geometry: KVGeometry = GEOMETRY) -> Cache:
    """A BF16 ``[slots, kv_heads, head_dim]`` of noise for each layer."""
    generator = torch.Generator().manual_seed(seed)
    shape = (slots, geometry.kv_heads, geometry.head_dim)
    return [
        torch.randn(shape, generator=generator).bfloat16().mul_(layer + 1)
        for layer in range(geometry.layers)
    ]


def paged_slots(count: int, slots: int, page_size: int, seed: int) -> torch.Tensor:
    """The first ``count`` slots of shuffled pages; a page's slots follow each other."""
    generator = torch.Generator().manual_seed(seed)
    pages = torch.randperm(slots // page_size, generator=generator)
    return (pages[:, None] * page_size + torch.arange(page_size)).flatten()[:count]


# --- construction ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device_type", "page_size", "wanted", "chunk"),
    [
        ("cpu", 1, None, 64),
        ("cpu", 128, None, 128),
        ("meta", 1, None, 256),
        ("cpu", 48, None, 96),
        ("cpu", 64, 100, 128),
        ("cpu", 1, 100, 100),
        ("cpu", 16, 1, 16),
    ],
)
def test_a_chunk_is_whole_pages(
    device_type: str, page_size: int, wanted: int | None, chunk: int
) -> None:
    transfer = StagedTransfer(Int8Codec(GEOMETRY), torch.device(device_type), page_size, wanted)
    assert transfer.chunk_tokens == chunk
    assert transfer.backup_records.shape == (2, 3, chunk, 56)
    assert transfer.load_records.shape == (2, 3, chunk, 56)
    assert transfer.load_records[:, 0].data_ptr() == transfer.load_records[:, 2].data_ptr()
    g = GEOMETRY
    records, rows = 2 * (3 + 1) * chunk, (3 + 2) * chunk
    temporaries = 4 * g.row_values + (4 + 4 + 2 + 1) * g.kv_heads
    assert transfer.nbytes == records * 56 + rows * (g.row_bytes + temporaries)


def test_the_staging_buffers_start_as_zeros() -> None:
    transfer = StagedTransfer(Int8Codec(GEOMETRY), CPU, 1, CHUNK)
    assert not transfer.backup_records.any()
    assert not transfer.load_records.any()


def test_the_summary_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    codec = Int8Codec(KVGeometry(layers=36, kv_heads=8, head_dim=128))
    with caplog.at_level(logging.INFO, logger="hiqcache.staging"):
        transfer = StagedTransfer(codec, torch.device("meta"))
    assert transfer.summary() == (
        "int8, 82944 B/token (147456 raw, 1.778x), records of 1152 B, 78.6 MiB of staging"
    )
    assert caplog.messages == [f"L2 codec {transfer.summary()}"]


def test_the_directions_share_no_memory() -> None:
    transfer = StagedTransfer(Int8Codec(GEOMETRY), CPU, 1, CHUNK)
    backup, load = transfer._backup, transfer._load

    def tensors(lane: object) -> list[torch.Tensor]:
        found = [v for v in vars(lane).values() if isinstance(v, torch.Tensor)]
        return found + [v for v in vars(lane.workspace).values()]  # type: ignore[attr-defined]

    memories = [tensor.untyped_storage().data_ptr() for tensor in tensors(backup) + tensors(load)]
    assert len(memories) == 14
    assert len(set(memories)) == len(memories)


# --- round trips -------------------------------------------------------------------------------

SLOTS = 384
COUNTS = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5]


@dataclass
class RoundTrip:
    """A device pool, a host arena and the slots of some tokens in both."""

    codec: KVCodec
    page_size: int
    count: int
    pages_of: int = 1

    def __post_init__(self) -> None:
        self.transfer = StagedTransfer(self.codec, CPU, self.page_size, CHUNK)
        self.arena = HostArena(self.transfer, SLOTS, self.pages_of)
        self.keys, self.values = cache(SLOTS, seed=1), cache(SLOTS, seed=2)
        self.sources, self.hosts, self.targets = (
            paged_slots(self.count, SLOTS, self.page_size, seed) for seed in (3, 4, 5)
        )

    def backup(self) -> None:
        self.transfer.backup(self.keys, self.values, self.sources, self.hosts, self.arena.store)

    def load(self, keys: Cache, values: Cache) -> None:
        for layer, (k, v) in enumerate(zip(keys, values, strict=True)):
            fetch = self.arena.fetch(layer)
            self.transfer.load(k, v, self.targets, self.hosts, fetch)

    def expected_records(self) -> torch.Tensor:
        """The whole arena after a backup."""
        records = torch.full_like(self.arena.records, POISON)
        for component, layers in enumerate((self.keys, self.values)):
            for layer, rows in enumerate(layers):
                records[component, layer, self.hosts] = encode(self.codec, rows[self.sources])
        return records

    def expected_cache(self, before: Cache, layers: Cache) -> Cache:
        """A cache that was ``before``, after a load of what was backed up from ``layers``."""
        after = [rows.clone() for rows in before]
        for rows, source in zip(after, layers, strict=True):
            rows[self.targets] = decode(self.codec, encode(self.codec, source[self.sources]))
        return after


def assert_same_bits(found: Cache, expected: Cache) -> None:
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a.view(torch.int16), b.view(torch.int16))


@pytest.mark.parametrize("codec_class", CODECS)
@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("count", COUNTS)
def test_a_round_trip_is_the_codecs_own(
    codec_class: CodecClass, page_size: int, count: int
) -> None:
    trip = RoundTrip(codec_class(GEOMETRY), page_size, count)
    trip.backup()
    assert torch.equal(trip.arena.records, trip.expected_records())
    keys, values = cache(SLOTS, seed=6), cache(SLOTS, seed=7)
    expected_keys = trip.expected_cache(keys, trip.keys)
    expected_values = trip.expected_cache(values, trip.values)
    trip.load(keys, values)
    assert_same_bits(keys, expected_keys)
    assert_same_bits(values, expected_values)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("page_size", [16, 64])
def test_a_mover_of_whole_pages(page_size: int, count: int) -> None:
    trip = RoundTrip(Int8Codec(GEOMETRY), page_size, count, pages_of=page_size)
    trip.backup()
    expected = trip.expected_records()
    touched = torch.zeros(SLOTS // page_size, dtype=torch.bool)
    touched[trip.hosts // page_size] = True
    whole_pages = touched.repeat_interleave(page_size)
    assert torch.equal(trip.arena.records[:, :, trip.hosts], expected[:, :, trip.hosts])
    assert (trip.arena.records[:, :, ~whole_pages] == POISON).all()
    # The rest of a page that the chunk ends in comes out of a staging buffer, not out of nowhere.
    rest = whole_pages.index_fill(0, trip.hosts, False)
    assert not (trip.arena.records[:, :, rest] == POISON).all(-1).any()
    keys, values = cache(SLOTS, seed=6), cache(SLOTS, seed=7)
    expected_keys = trip.expected_cache(keys, trip.keys)
    trip.load(keys, values)
    assert_same_bits(keys, expected_keys)


def test_a_mover_sees_each_chunk_once() -> None:
    transfer = StagedTransfer(RawCodec(GEOMETRY), CPU, 16, CHUNK)
    slots, hosts = torch.arange(3 * CHUNK + 5), torch.arange(3 * CHUNK + 5) + 1000
    seen: list[tuple[list[int], list[int]]] = []

    def mover(host_indices: torch.Tensor, staging_rows: torch.Tensor) -> None:
        seen.append((host_indices.tolist(), staging_rows.tolist()))

    expected = [
        (list(range(1000 + start, 1000 + start + n)), list(range(n)))
        for start, n in [(0, 64), (64, 64), (128, 64), (192, 5)]
    ]
    keys, values = cache(SLOTS, seed=1), cache(SLOTS, seed=2)
    transfer.backup(keys, values, slots, hosts, mover)
    assert seen == expected
    seen.clear()
    transfer.load(keys[0], values[0], slots, hosts, mover)
    assert seen == expected


def test_nothing_is_moved_for_no_tokens() -> None:
    transfer = StagedTransfer(RawCodec(GEOMETRY), CPU, 1, CHUNK)
    nothing = torch.empty(0, dtype=torch.int64)

    def mover(host_indices: torch.Tensor, staging_rows: torch.Tensor) -> None:
        raise AssertionError("moved")

    keys, values = cache(4, seed=1), cache(4, seed=2)
    transfer.backup(keys, values, nothing, nothing, mover)
    transfer.load(keys[0], values[0], nothing, nothing, mover)


def test_a_second_round_trip_has_the_bytes_of_the_first() -> None:
    trip = RoundTrip(Int8Codec(GEOMETRY), 16, CHUNK + 16)
    trip.backup()
    first = trip.arena.records.clone()
    trip.targets = trip.sources
    trip.load(trip.keys, trip.values)
    trip.arena.records.fill_(POISON)
    trip.backup()
    assert torch.equal(trip.arena.records, first)


def test_indices_of_32_bits_and_a_strided_cache() -> None:
    trip = RoundTrip(Int8Codec(GEOMETRY), 1, CHUNK + 7)
    fused = [torch.stack([k, v], 1) for k, v in zip(trip.keys, trip.values, strict=True)]
    trip.keys, trip.values = [kv[:, 0] for kv in fused], [kv[:, 1] for kv in fused]
    assert not trip.keys[0].is_contiguous()
    trip.sources, trip.targets = trip.sources.int(), trip.targets.int()
    trip.backup()
    assert torch.equal(trip.arena.records, trip.expected_records())
    expected_keys = trip.expected_cache(trip.keys, trip.keys)
    expected_values = trip.expected_cache(trip.values, trip.values)
    trip.load(trip.keys, trip.values)
    assert_same_bits(trip.keys, expected_keys)
    assert_same_bits(trip.values, expected_values)


# --- the hot path ------------------------------------------------------------------------------


def memory_of(transfer: StagedTransfer) -> list[int]:
    buffers = (transfer.backup_records, transfer.load_records)
    rows = (transfer._backup.rows, transfer._load.rows)
    return [tensor.data_ptr() for tensor in (*buffers, *rows)]


@pytest.mark.parametrize("codec_class", CODECS)
@pytest.mark.parametrize("count", COUNTS)
def test_the_hot_path_allocates_nothing_and_never_synchronises(
    codec_class: CodecClass, count: int
) -> None:
    trip = RoundTrip(codec_class(GEOMETRY), 1, count)
    before = memory_of(trip.transfer)
    # The mover is not the library's; it gets the staging buffer, which must be the same one.
    moved: list[int] = []

    def mover(hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
        moved.append(staging_rows.data_ptr())

    with HotPath() as hot_path:
        trip.transfer.backup(trip.keys, trip.values, trip.sources, trip.hosts, mover)
        trip.transfer.load(trip.keys[0], trip.values[0], trip.targets, trip.hosts, mover)
    assert bool(hot_path.operations) == (count > 0)
    assert len(set(moved)) == (count > 0)
    assert memory_of(trip.transfer) == before


SLIPS: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda rows: rows.view(torch.int16).flatten()[0].item(),
    "if": lambda rows: bool(rows.view(torch.int16).any()),
    "nonzero": lambda rows: rows.nonzero(),
    "mask": lambda rows: rows[rows > 0],
    "clone": lambda rows: rows.clone(),
    "sum": lambda rows: rows + rows,
    "float": lambda rows: rows.float(),
    "contiguous": lambda rows: rows[..., ::2].contiguous(),
    "reshape": lambda rows: rows.transpose(0, 1).reshape(-1),
    "empty": lambda rows: torch.empty(3),
}


@pytest.mark.parametrize("stream", [HotPath, RecordingStream])
@pytest.mark.parametrize("slip", SLIPS)
def test_a_codec_that_allocates_or_synchronises_is_caught(
    slip: str, stream: type[HotPath] | type[RecordingStream]
) -> None:
    class Slips(RawCodec):
        def encode(self, rows: torch.Tensor, records: torch.Tensor, workspace: None) -> None:
            SLIPS[slip](rows)
            super().encode(rows, records, workspace)

    trip = RoundTrip(Slips(GEOMETRY), 1, 3)
    with stream(), pytest.raises(NotEnqueuedError):
        trip.backup()


def test_a_device_whose_values_cannot_be_read_is_served() -> None:
    # Meta tensors have no values: reading one on the host is an error, as it would be a wait on
    # CUDA. Indices come on the host, as SGLang's direct backend hands them over.
    meta = torch.device("meta")
    transfer = StagedTransfer(Int8Codec(GEOMETRY), meta, 1, CHUNK)
    keys, values = ([rows.to(meta) for rows in cache(SLOTS, seed=seed)] for seed in (1, 2))
    slots, hosts = torch.arange(CHUNK + 5), torch.arange(CHUNK + 5)
    seen: list[tuple[str, list[int]]] = []

    def mover(host_indices: torch.Tensor, staging_rows: torch.Tensor) -> None:
        seen.append((host_indices.device.type, staging_rows.tolist()))

    transfer.backup(keys, values, slots, hosts, mover)
    transfer.load(keys[0], values[0], slots, hosts, mover)
    chunks = [("cpu", list(range(CHUNK))), ("cpu", list(range(5)))]
    assert seen == chunks * 2
    with pytest.raises((RuntimeError, NotImplementedError)):
        keys[0][0, 0, 0].item()


@pytest.mark.parametrize(
    ("device_indices", "host_indices"), [("meta", "meta"), ("meta", "cpu"), ("cpu", "cpu")]
)
def test_staging_rows_are_where_the_device_indices_are(
    device_indices: str, host_indices: str
) -> None:
    # A kernel reads both on the device, but may want the host slots on the host.
    transfer = StagedTransfer(RawCodec(GEOMETRY), torch.device("meta"), 1, CHUNK)
    keys, values = ([rows.to("meta") for rows in cache(SLOTS, seed=seed)] for seed in (1, 2))
    seen: list[tuple[str, str, torch.dtype]] = []

    def mover(hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
        seen.append((hosts.device.type, staging_rows.device.type, staging_rows.dtype))

    slots = torch.arange(3, device=device_indices)
    transfer.backup(keys, values, slots, torch.arange(3, device=host_indices), mover)
    assert seen == [(host_indices, device_indices, torch.int64)]


def launches(layers: int) -> tuple[int, int]:
    """Gathers of one chunk's backup, and what else would be launched for it."""
    transfer = StagedTransfer(Int8Codec(KVGeometry(layers, 2, 8, "cpu")), CPU, 1, CHUNK)
    kv = torch.zeros(2, layers, SLOTS, 2, 8, dtype=torch.bfloat16)
    slots = torch.arange(CHUNK)
    with HotPath() as hot_path:
        transfer.backup(kv[0], kv[1], slots, slots, lambda hosts, rows: None)
    writes = [x for x in hot_path.operations if x.endswith("out") or x.endswith("_.default")]
    gathers = [x for x in writes if "index_select" in x]
    return len(gathers), len(writes) - len(gathers)


def test_a_backup_launches_as_much_for_all_layers_as_for_one_but_the_gathers() -> None:
    gathers, others = launches(1)
    assert gathers == 2 and 0 < others < 50
    assert launches(36) == (72, others)


# --- two streams -------------------------------------------------------------------------------

SMALL = KVGeometry(layers=2, kv_heads=2, head_dim=8, device_type="cpu")
SMALL_CHUNK = 4
NOT_YET = -(2**40)  # no slot: an index read before the stream wrote it cannot be used


class TwoStreams:
    """A backup and a load, enqueued on two streams before any of their inputs exist.

    The first piece of work of each stream writes what its direction reads: the KV cache rows or
    the host records, and the indices. So whatever looks at values while a call runs, or runs
    outside its stream, sees poison.
    """

    def __init__(
        self,
        codec: KVCodec,
        tokens: tuple[int, int] = (10, 9),
        alter: Callable[[StagedTransfer], None] = lambda transfer: None,
    ) -> None:
        self.codec = codec
        self.transfer = StagedTransfer(codec, CPU, 1, SMALL_CHUNK)
        alter(self.transfer)
        self.arena = HostArena(self.transfer, slots=24)
        slots = torch.randperm(24, generator=torch.Generator().manual_seed(0))
        hosts = torch.randperm(24, generator=torch.Generator().manual_seed(1))
        saved, loaded = tokens
        self.backup_slots, self.backup_hosts = slots[:saved], hosts[:saved]
        self.load_slots, self.load_hosts = slots[-loaded:], hosts[-loaded:]
        self.keys, self.values = ([torch.zeros_like(r) for r in cache(24, 0, SMALL)] for _ in "kv")
        self.late = {name: torch.empty_like(index) for name, index in self._indices().items()}
        self.backup_stream, self.load_stream = RecordingStream(), RecordingStream()
        self.reset()
        self._enqueue()

    def _indices(self) -> dict[str, torch.Tensor]:
        names = ("backup_slots", "backup_hosts", "load_slots", "load_hosts")
        return {name: getattr(self, name) for name in names}

    def reset(self) -> None:
        """Put poison everywhere."""
        for rows in (*self.keys, *self.values):
            rows.fill_(-7.0)
        for index in self.late.values():
            index.fill_(NOT_YET)
        for records in (self.arena.records, *self._staging()):
            records.fill_(POISON)

    def _staging(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transfer.backup_records, self.transfer.load_records

    def _sources(self) -> tuple[Cache, Cache]:
        """What is to be backed up."""
        return cache(24, 11, SMALL), cache(24, 12, SMALL)

    def _stored(self) -> torch.Tensor:
        """Records that are to be loaded, ``[2, layers, tokens, record_bytes]``."""
        pools = (cache(24, 13, SMALL), cache(24, 14, SMALL))
        rows = [[layer[: len(self.load_hosts)] for layer in pool] for pool in pools]
        return torch.stack([torch.stack([encode(self.codec, r) for r in pool]) for pool in rows])

    def _write_backup_inputs(self) -> None:
        for name in ("backup_slots", "backup_hosts"):
            self.late[name].copy_(getattr(self, name))
        for cached, source in zip((self.keys, self.values), self._sources(), strict=True):
            for rows, new in zip(cached, source, strict=True):
                rows[self.backup_slots] = new[self.backup_slots]

    def _write_load_inputs(self) -> None:
        for name in ("load_slots", "load_hosts"):
            self.late[name].copy_(getattr(self, name))
        self.arena.records[:, :, self.load_hosts] = self._stored()

    def _enqueue(self) -> None:
        backup, load = self.backup_stream, self.load_stream
        backup.launch(self._write_backup_inputs)
        load.launch(self._write_load_inputs)
        late = self.late

        def store(hosts: torch.Tensor, rows: torch.Tensor) -> None:
            backup.launch(lambda: self.arena.store(hosts, rows))

        with backup:
            self.transfer.backup(
                self.keys, self.values, late["backup_slots"], late["backup_hosts"], store
            )
        for layer in range(SMALL.layers):
            fetch = self.arena.fetch(layer)

            def enqueue_fetch(
                hosts: torch.Tensor, rows: torch.Tensor, fetch: Callable[..., None] = fetch
            ) -> None:
                load.launch(lambda: fetch(hosts, rows))

            with load:
                self.transfer.load(
                    self.keys[layer],
                    self.values[layer],
                    late["load_slots"],
                    late["load_hosts"],
                    enqueue_fetch,
                )

    def untouched(self) -> bool:
        """Whether poison is all there is."""
        records = (self.arena.records, *self._staging())
        return (
            all(bool((rows == -7.0).all()) for rows in (*self.keys, *self.values))
            and all(bool((part == POISON).all()) for part in records)
            and all(bool((index == NOT_YET).all()) for index in self.late.values())
        )

    def right(self) -> bool:
        """Whether the arena and the caches are what both directions should leave."""
        expected_records = torch.full_like(self.arena.records, POISON)
        stored = self._stored()
        expected_records[:, :, self.load_hosts] = stored
        caches = []
        for component, sources in enumerate(self._sources()):
            for layer, source in enumerate(sources):
                rows = source[self.backup_slots]
                expected_records[component, layer, self.backup_hosts] = encode(self.codec, rows)
                expected = torch.full_like(source, -7.0)
                expected[self.backup_slots] = rows
                expected[self.load_slots] = decode(self.codec, stored[component, layer])
                caches.append(expected)
        found = (*self.keys, *self.values)
        same = (torch.equal(a, b) for a, b in zip(found, caches, strict=True))
        return torch.equal(self.arena.records, expected_records) and all(same)

    def right_after(self, turns: Iterable[bool]) -> bool:
        """Execute both streams' work in this order, from poison."""
        self.reset()
        execute(self.backup_stream, self.load_stream, turns)
        return self.right()

    def interruptions(self) -> Iterable[Iterable[bool]]:
        """Each stream interrupted once, at every place, by all of the other; and in turns."""
        backups, loads = len(self.backup_stream.work), len(self.load_stream.work)
        for done in range(backups + 1):
            yield itertools.chain([False] * done, [True] * loads)
        for done in range(loads + 1):
            yield itertools.chain([True] * done, [False] * backups)
        for several in (1, 2, 3, 5, 7, 11, 17, 29):
            yield ([False] * several + [True] * several) * (backups + loads)


@pytest.mark.parametrize("codec_class", CODECS)
def test_a_call_only_enqueues(codec_class: CodecClass) -> None:
    streams = TwoStreams(codec_class(SMALL))
    assert streams.untouched()
    assert len(streams.backup_stream.work) > 3 * 2 * 2
    assert len(streams.load_stream.work) > 3 * 2 * 2


@pytest.mark.parametrize("codec_class", CODECS)
@pytest.mark.parametrize("tokens", [(10, 9), (4, 13), (1, 8)])
def test_both_directions_are_right_under_any_interruption(
    codec_class: CodecClass, tokens: tuple[int, int]
) -> None:
    streams = TwoStreams(codec_class(SMALL), tokens)
    assert all(streams.right_after(turns) for turns in streams.interruptions())


@pytest.fixture(scope="module")
def int8_streams() -> TwoStreams:
    return TwoStreams(Int8Codec(SMALL))


@settings(max_examples=60)
@given(turns=st.lists(st.booleans(), max_size=700))
def test_both_directions_are_right_in_any_order(
    int8_streams: TwoStreams, turns: list[bool]
) -> None:
    assert int8_streams.right_after(turns)


def _share_records(transfer: StagedTransfer) -> None:
    transfer._load = replace(transfer._load, records=transfer._backup.records[:, :1])


def _share_rows(transfer: StagedTransfer) -> None:
    transfer._load = replace(transfer._load, rows=transfer._backup.rows)


def _share_workspace(transfer: StagedTransfer) -> None:
    transfer._load = replace(transfer._load, workspace=transfer._backup.workspace)


@pytest.mark.parametrize("share", [_share_records, _share_rows, _share_workspace])
def test_a_shared_buffer_gives_wrong_bytes(share: Callable[[StagedTransfer], None]) -> None:
    streams = TwoStreams(Int8Codec(SMALL), alter=share)
    one_after_the_other: list[list[bool]] = [[], [True] * len(streams.load_stream.work)]
    assert all(streams.right_after(turns) for turns in one_after_the_other)
    assert not all(streams.right_after(turns) for turns in streams.interruptions())


def test_a_stream_that_runs_out_of_order_gives_wrong_bytes() -> None:
    streams = TwoStreams(Int8Codec(SMALL))
    assert streams.right_after([])
    work = streams.backup_stream.work
    for place in range(1, len(work) - 1):
        swapped = [*work[:place], work[place + 1], work[place], *work[place + 2 :]]
        streams.backup_stream.work = swapped
        if not streams.right_after([]):
            break
    else:
        raise AssertionError("no order matters")


def test_a_mover_that_does_not_wait_for_its_stream_gives_wrong_bytes() -> None:
    class Impatient(TwoStreams):
        def _enqueue(self) -> None:
            launch = self.backup_stream.launch
            kernels: list[Callable[[], None]] = []
            self.backup_stream.launch = kernels.append  # type: ignore[method-assign]
            super()._enqueue()
            self.backup_stream.launch = launch  # type: ignore[method-assign]
            self.backup_stream.work[:0] = kernels

    assert not Impatient(Int8Codec(SMALL)).right_after([])


def test_values_read_while_a_call_runs_are_poison() -> None:
    class Peeks(RawCodec):
        def encode(self, rows: torch.Tensor, records: torch.Tensor, workspace: None) -> None:
            super().encode(rows, records, workspace)
            first = rows.view(torch.uint8)
            while first.dim() > 0:
                first = first[0]
            records[..., 0].fill_(first.tolist())

    assert TwoStreams(RawCodec(SMALL)).right_after([])
    assert not TwoStreams(Peeks(SMALL)).right_after([])
