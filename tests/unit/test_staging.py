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

from hiqcache import staging
from hiqcache.codecs.base import KVCodec
from hiqcache.codecs.int4 import Int4Codec, K8V4Codec
from hiqcache.codecs.int8 import Int8Codec, Int8HadamardCodec
from hiqcache.codecs.raw import RawBlock, RawCodec
from hiqcache.geometry import KVGeometry
from hiqcache.staging import StagedTransfer, _Lane
from tests.unit.host_arena import POISON, HostArena
from tests.unit.kv_rows import decode_units, encode_units
from tests.unit.recording_stream import HotPath, NotEnqueuedError, RecordingStream, execute

CPU = torch.device("cpu")
GEOMETRY = KVGeometry(layers=3, kv_heads=3, head_dim=16)
CHUNK = 64
PAGE_SIZES = [1, 16, 64]
CLASSES = [Int8Codec, Int8HadamardCodec, Int4Codec, K8V4Codec, RawCodec]
CODECS = [pytest.param(codec_class, id=codec_class.id) for codec_class in CLASSES]

CodecClass = type[KVCodec]
Cache = list[torch.Tensor]


def caches(slots: int, seed: int, geometry: KVGeometry = GEOMETRY) -> tuple[Cache, Cache]:
    """K and V, ``[slots, kv_heads, dim]`` of noise for each layer."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = (
        [
            torch.randn((slots, rows.heads, rows.dim), generator=generator).to(rows.dtype) * layer
            for layer in range(1, geometry.layers + 1)
        ]
        for rows in (geometry.keys, geometry.values)
    )
    return keys, values


def paged_slots(count: int, slots: int, page_size: int, seed: int) -> torch.Tensor:
    """The first ``count`` slots of shuffled pages; a page's slots follow each other."""
    generator = torch.Generator().manual_seed(seed)
    pages = torch.randperm(slots // page_size, generator=generator)
    return (pages[:, None] * page_size + torch.arange(page_size)).flatten()[:count]


@pytest.fixture(autouse=True)
def _kernels_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is recorded and held back is torch's operations.
    monkeypatch.setenv("HIQCACHE_KERNELS", "torch")


# --- construction ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device_type", "page_size", "wanted", "backup", "load"),
    [
        ("cpu", 1, None, 64, 512),
        ("cpu", 128, None, 128, 512),
        ("cpu", 1024, None, 1024, 1024),
        # Where a launch costs, a load's one layer is decoded in chunks of as much memory.
        ("meta", 1, None, 128, 3 * 128),
        ("cpu", 48, None, 96, 528),
        ("cpu", 64, 100, 128, 128),
        ("cpu", 1, 100, 100, 100),
        ("cpu", 16, 1, 16, 16),
    ],
)
def test_a_chunk_is_whole_pages(
    device_type: str, page_size: int, wanted: int | None, backup: int, load: int
) -> None:
    g = replace(GEOMETRY, page_size=page_size)
    codec = Int8Codec(g)
    transfer = StagedTransfer(codec, torch.device(device_type), wanted)
    assert transfer.chunk_tokens == backup
    rows = 3 * backup + load
    units = rows // page_size
    temporaries = 4 * g.keys.row_values + (4 + 4 + 2 + 1) * g.kv_heads
    assert transfer.nbytes == (
        units * codec.unit.unit_bytes + rows * (g.keys.row_bytes + temporaries)
    )


def test_the_summary_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def summary(page_size: int) -> str:
        g = KVGeometry(layers=36, kv_heads=8, head_dim=128, page_size=page_size)
        return StagedTransfer(Int8Codec(g), torch.device("meta")).summary()

    with caplog.at_level(logging.INFO, logger="hiqcache.staging"):
        assert summary(1) == (
            "int8, 82944 B/token (147456 raw, 1.778x), pages of 1 in 2 x 1 rows of 1152 B, "
            "75.0 MiB of staging, torch kernels"
        )
        assert summary(64) == (
            "int8, 74880 B/token (147456 raw, 1.969x), pages of 64 in 2 x 40 rows of 1664 B, "
            "73.1 MiB of staging, torch kernels"
        )
    assert caplog.messages == [f"L2 codec {summary(page_size)}" for page_size in (1, 64)]


@pytest.mark.parametrize("v_head_dim", [16, 24])
@pytest.mark.parametrize("codec_class", CODECS)
def test_the_directions_share_no_memory(codec_class: CodecClass, v_head_dim: int) -> None:
    transfer = StagedTransfer(codec_class(replace(GEOMETRY, v_head_dim=v_head_dim)), CPU, CHUNK)
    backup, load = (memory_of(lane) for lane in (transfer._backup, transfer._load))
    assert len(backup) == len(load) >= 3
    assert not backup & load


def memory_of(lane: _Lane) -> set[int]:
    """Where each tensor of a lane begins."""
    return {tensor.data_ptr() for tensor in [*lane.buffers(), *lane.host_rows.values()]}


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("codec_class", CODECS)
def test_a_half_of_a_unit_lies_in_the_rows_that_a_mover_is_given(
    codec_class: CodecClass, page_size: int
) -> None:
    # Widths that are cut into several rows, and blocks of K and V that a cut does not meet.
    codec = codec_class(KVGeometry(2, 5, 256, 192, page_size))
    transfer = StagedTransfer(codec, CPU, 3 * page_size)
    unit, rows = codec.unit, transfer._load.staging_rows["cpu"]
    for lane, halves in (
        (transfer._backup, transfer.backup_halves),
        (transfer._load, transfer.load_halves),
    ):
        start = lane.units.data_ptr()
        layer_bytes = lane.units[0].nbytes
        for part, half in enumerate(halves):
            assert half.shape[0] == 2 and half.dtype == torch.uint8
            # Bytes of a layer that this half does not reach: the other half of one unit.
            assert half.data_ptr() == start + part * unit.half_bytes
            assert half.shape[1] * unit.mover_row_bytes == layer_bytes - unit.half_bytes
            for page in range(3):
                first, last = half[0, rows[page, 0]], half[0, rows[page, -1]]
                begins = start + page * unit.unit_bytes + part * unit.half_bytes
                assert first.data_ptr() == begins
                assert last.data_ptr() + last.nbytes == begins + unit.half_bytes
    k, v = transfer.load_halves
    assert k[0].data_ptr() == k[1].data_ptr() and v[0].data_ptr() == v[1].data_ptr()


# --- round trips -------------------------------------------------------------------------------

SLOTS = 384


def counts(page_size: int) -> list[int]:
    """Tokens of whole pages: none, around one chunk, and several."""
    few = [0, 1, CHUNK // page_size - 1, CHUNK // page_size, CHUNK // page_size + 1]
    return sorted({n * page_size for n in [*few, 3 * CHUNK // page_size + 2]})


PAGES_AND_COUNTS = [(page, count) for page in PAGE_SIZES for count in counts(page)]


@dataclass
class RoundTrip:
    """A device pool, a host arena and the slots of some tokens in both."""

    codec: KVCodec
    count: int
    runs: bool = False

    def __post_init__(self) -> None:
        g = self.codec.geometry
        self.transfer = StagedTransfer(self.codec, CPU, CHUNK)
        self.arena = HostArena(self.transfer, SLOTS // g.page_size, self.runs)
        self.keys, self.values = caches(SLOTS, 1, g)
        self.sources, self.hosts, self.targets = (
            paged_slots(self.count, SLOTS, g.page_size, seed) for seed in (3, 4, 5)
        )

    @property
    def host_pages(self) -> torch.Tensor:
        """Pages of the arena that the tokens are kept in."""
        page_size = self.codec.geometry.page_size
        return self.hosts[::page_size] // page_size

    def backup(self) -> None:
        self.transfer.backup(self.keys, self.values, self.sources, self.hosts, self.arena.store)

    def load(self, keys: Cache, values: Cache) -> None:
        for layer, (k, v) in enumerate(zip(keys, values, strict=True)):
            fetch = self.arena.fetch(layer)
            self.transfer.load(k, v, self.targets, self.hosts, fetch)

    def encoded(self) -> torch.Tensor:
        """The units of the tokens, ``[layers, pages, unit_bytes]``."""
        pool = zip(self.keys, self.values, strict=True)
        return torch.stack(
            [encode_units(self.codec, k[self.sources], v[self.sources]) for k, v in pool]
        )

    def expected_units(self) -> torch.Tensor:
        """The whole arena after a backup."""
        units = torch.full_like(self.arena.units, POISON)
        units[:, self.host_pages] = self.encoded()
        return units

    def expected_caches(self, keys: Cache, values: Cache) -> tuple[Cache, Cache]:
        """What these caches are after a load of what was backed up."""
        after = [rows.clone() for rows in keys], [rows.clone() for rows in values]
        for layer, units in enumerate(self.encoded()):
            for rows, restored in zip(after, decode_units(self.codec, units), strict=True):
                rows[layer][self.targets] = restored
        return after


def assert_same_bits(found: Cache, expected: Cache) -> None:
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a.view(torch.int16), b.view(torch.int16))


def assert_round_trip_is_the_codecs_own(trip: RoundTrip) -> None:
    trip.backup()
    assert torch.equal(trip.arena.units, trip.expected_units())
    keys, values = caches(SLOTS, 6, trip.codec.geometry)
    expected_keys, expected_values = trip.expected_caches(keys, values)
    trip.load(keys, values)
    assert_same_bits(keys, expected_keys)
    assert_same_bits(values, expected_values)


@pytest.mark.parametrize("runs", [False, True], ids=["rows", "runs"])
@pytest.mark.parametrize(("page_size", "count"), PAGES_AND_COUNTS)
@pytest.mark.parametrize("codec_class", CODECS)
def test_a_round_trip_is_the_codecs_own(
    codec_class: CodecClass, page_size: int, count: int, runs: bool
) -> None:
    codec = codec_class(replace(GEOMETRY, page_size=page_size))
    assert_round_trip_is_the_codecs_own(RoundTrip(codec, count, runs))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("codec_class", CODECS)
def test_k_and_v_of_different_widths_and_of_fp16(
    codec_class: CodecClass, page_size: int, dtype: torch.dtype
) -> None:
    codec = codec_class(KVGeometry(2, 3, 48, 32, page_size, dtype))
    assert_round_trip_is_the_codecs_own(RoundTrip(codec, CHUNK + page_size))


def test_a_load_may_take_longer_chunks_than_a_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CPU_CHUNK_TOKENS", (32, 96))
    trip = RoundTrip(Int8Codec(replace(GEOMETRY, page_size=16)), 3 * 96 + 16)
    trip.transfer = StagedTransfer(trip.codec, CPU)
    trip.arena = HostArena(trip.transfer, SLOTS // 16)
    trip.backup()
    keys, values = ([torch.zeros_like(rows) for rows in part] for part in (trip.keys, trip.values))
    expected = trip.expected_caches(keys, values)
    pages: list[int] = []

    def counted(hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
        pages.append(len(hosts) // trip.codec.unit.rows_per_half)
        fetch(hosts, staging_rows)

    for layer, (k, v) in enumerate(zip(keys, values, strict=True)):
        fetch = trip.arena.fetch(layer)
        trip.transfer.load(k, v, trip.targets, trip.hosts, counted)
    assert pages == [6, 6, 6, 1] * GEOMETRY.layers
    assert_same_bits(keys, expected[0])
    assert_same_bits(values, expected[1])


def test_a_mover_sees_each_chunk_once() -> None:
    # Three mover rows to each half of a unit, whose other half lies between them.
    codec = RawCodec(replace(GEOMETRY, page_size=64))
    assert (codec.unit.rows_per_half, codec.unit.mover_row_bytes) == (3, 2048)
    transfer = StagedTransfer(codec, CPU, 2 * 64)
    slots, hosts = torch.arange(3 * 64), paged_slots(3 * 64, 64 * 64, 64, seed=1)
    first, second, third = hosts[::64].tolist()
    seen: list[tuple[list[int], list[int]]] = []

    def mover(host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
        seen.append((host_rows.tolist(), staging_rows.tolist()))

    def rows(*pages: int) -> list[int]:
        return [page // 64 * 3 + row for page in pages for row in range(3)]

    expected = [(rows(first, second), [0, 1, 2, 6, 7, 8]), (rows(third), [0, 1, 2])]
    keys, values = caches(SLOTS, 1)
    transfer.backup(keys, values, slots, hosts, mover)
    assert seen == expected
    seen.clear()
    transfer.load(keys[0], values[0], slots, hosts, mover)
    assert seen == expected


def refusing_mover(host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
    raise AssertionError("moved")


def test_nothing_is_moved_for_no_tokens() -> None:
    transfer = StagedTransfer(RawCodec(GEOMETRY), CPU, CHUNK)
    nothing = torch.empty(0, dtype=torch.int64)
    keys, values = caches(4, 1)
    transfer.backup(keys, values, nothing, nothing, refusing_mover)
    transfer.load(keys[0], values[0], nothing, nothing, refusing_mover)


@pytest.mark.parametrize("count", [1, 15, 17, CHUNK + 1, 3 * CHUNK - 1])
def test_a_part_of_a_page_is_refused_before_anything_is_moved(count: int) -> None:
    transfer = StagedTransfer(RawCodec(replace(GEOMETRY, page_size=16)), CPU, CHUNK)
    keys, values = caches(SLOTS, 1)
    before = [rows.clone() for rows in (*keys, *values)]
    slots = torch.arange(count)
    with pytest.raises(ValueError, match=rf"^{count} tokens are no whole pages of 16; "):
        transfer.backup(keys, values, slots, slots, refusing_mover)
    with pytest.raises(ValueError, match=rf"^{count} tokens are no whole pages of 16; "):
        transfer.load(keys[0], values[0], slots, slots, refusing_mover)
    assert_same_bits([*keys, *values], before)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_second_round_trip_has_the_bytes_of_the_first(page_size: int) -> None:
    trip = RoundTrip(Int8Codec(replace(GEOMETRY, page_size=page_size)), CHUNK + page_size)
    trip.backup()
    first = trip.arena.units
    trip.targets = trip.sources
    trip.load(trip.keys, trip.values)
    trip.arena.rows.fill_(POISON)
    trip.backup()
    assert torch.equal(trip.arena.units, first)


def test_indices_of_32_bits_and_a_strided_cache() -> None:
    trip = RoundTrip(Int8Codec(GEOMETRY), CHUNK + 7)
    fused = [torch.stack([k, v], 1) for k, v in zip(trip.keys, trip.values, strict=True)]
    trip.keys, trip.values = [kv[:, 0] for kv in fused], [kv[:, 1] for kv in fused]
    assert not trip.keys[0].is_contiguous()
    trip.sources, trip.targets = trip.sources.int(), trip.targets.int()
    trip.backup()
    assert torch.equal(trip.arena.units, trip.expected_units())
    expected_keys, expected_values = trip.expected_caches(trip.keys, trip.values)
    trip.load(trip.keys, trip.values)
    assert_same_bits(trip.keys, expected_keys)
    assert_same_bits(trip.values, expected_values)


# --- the hot path ------------------------------------------------------------------------------


@pytest.mark.parametrize("v_head_dim", [16, 24])
@pytest.mark.parametrize(("page_size", "count"), PAGES_AND_COUNTS)
@pytest.mark.parametrize("codec_class", CODECS)
def test_the_hot_path_allocates_nothing_and_never_synchronises(
    codec_class: CodecClass, page_size: int, count: int, v_head_dim: int
) -> None:
    codec = codec_class(replace(GEOMETRY, page_size=page_size, v_head_dim=v_head_dim))
    trip = RoundTrip(codec, count)
    lanes = trip.transfer._backup, trip.transfer._load
    before = [memory_of(lane) for lane in lanes]
    # The mover is not the library's; it gets the staging buffer, which must be the same one.
    moved: list[tuple[int, int]] = []

    def mover(host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
        moved.append((host_rows.data_ptr(), staging_rows.data_ptr()))

    with HotPath() as hot_path:
        trip.transfer.backup(trip.keys, trip.values, trip.sources, trip.hosts, mover)
        trip.transfer.load(trip.keys[0], trip.values[0], trip.targets, trip.hosts, mover)
    assert bool(hot_path.writes) == (count > 0)
    assert len(set(moved)) == (2 if count else 0)  # each direction's own
    assert [memory_of(lane) for lane in lanes] == before


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
    class Slips(RawBlock):
        def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: None) -> None:
            SLIPS[slip](rows)
            super().encode(rows, blocks, workspace)

    class SlipsCodec(RawCodec):
        value_format = Slips

    trip = RoundTrip(SlipsCodec(GEOMETRY), 3)
    with stream(), pytest.raises(NotEnqueuedError):
        trip.backup()


def test_a_device_whose_values_cannot_be_read_is_served() -> None:
    # Meta tensors have no values: reading one on the host is an error, as it would be a wait on
    # CUDA. Indices come on the host, as SGLang's direct backend hands them over.
    meta = torch.device("meta")
    transfer = StagedTransfer(Int8Codec(GEOMETRY), meta, CHUNK)
    keys, values = ([rows.to(meta) for rows in pool] for pool in caches(SLOTS, 1))
    slots, hosts = torch.arange(CHUNK + 5), torch.arange(CHUNK + 5)
    seen: list[tuple[str, list[int]]] = []

    def mover(host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
        seen.append((host_rows.device.type, staging_rows.tolist()))

    transfer.backup(keys, values, slots, hosts, mover)
    transfer.load(keys[0], values[0], slots, hosts, mover)
    chunks = [("cpu", list(range(0, 2 * CHUNK, 2))), ("cpu", list(range(0, 2 * 5, 2)))]
    assert seen == chunks * 2
    with pytest.raises((RuntimeError, NotImplementedError)):
        keys[0][0, 0, 0].item()


@pytest.mark.parametrize(
    ("device_indices", "host_indices"), [("meta", "meta"), ("meta", "cpu"), ("cpu", "cpu")]
)
def test_staging_rows_are_where_the_device_indices_are(
    device_indices: str, host_indices: str
) -> None:
    # A kernel reads both on the device, but may want the host rows on the host.
    transfer = StagedTransfer(RawCodec(GEOMETRY), torch.device("meta"), CHUNK)
    keys, values = ([rows.to("meta") for rows in pool] for pool in caches(SLOTS, 1))
    seen: list[tuple[str, str, torch.dtype]] = []

    def mover(host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
        seen.append((host_rows.device.type, staging_rows.device.type, staging_rows.dtype))

    slots = torch.arange(3, device=device_indices)
    transfer.backup(keys, values, slots, torch.arange(3, device=host_indices), mover)
    assert seen == [(host_indices, device_indices, torch.int64)]


def launches(codec_class: CodecClass, layers: int) -> tuple[int, int]:
    """Gathers of one chunk's backup, and what else is launched for it."""
    g = KVGeometry(layers, 2, 8)
    transfer = StagedTransfer(codec_class(g), CPU, CHUNK)
    keys, values = caches(SLOTS, 1, g)
    slots = torch.arange(CHUNK)
    with HotPath() as hot_path:
        transfer.backup(keys, values, slots, slots, lambda hosts, rows: None)
    gathers = [x for x in hot_path.writes if "index_select" in x]
    return len(gathers), len(hot_path.writes) - len(gathers)


@pytest.mark.parametrize("codec_class", CODECS)
def test_a_backup_launches_as_much_for_all_layers_as_for_one_but_the_gathers(
    codec_class: CodecClass,
) -> None:
    gathers, others = launches(codec_class, 1)
    assert gathers == 2 and others > 0
    assert launches(codec_class, 36) == (72, others)


def test_the_launches_are_those_that_the_design_tells_of() -> None:
    g = KVGeometry(2, 8, 128, page_size=16)
    keys, values = caches(SLOTS, 1, g)
    slots = torch.arange(CHUNK)
    found = {}
    for codec_class in (Int8Codec, Int8HadamardCodec, K8V4Codec, Int4Codec):
        transfer = StagedTransfer(codec_class(g), CPU, CHUNK)
        with HotPath() as backup:
            transfer.backup(keys, values, slots, slots, lambda hosts, rows: None)
        with HotPath() as load:
            transfer.load(keys[0], values[0], slots, slots, lambda hosts, rows: None)
        found[codec_class.id] = len(backup.writes) - 2 * g.layers, len(load.writes)
    assert found == {
        "int8": (47, 15),
        "int8-hadamard": (81, 49),
        "k8v4": (245, 52),
        "int4": (409, 55),
    }


# --- two streams -------------------------------------------------------------------------------

SMALL = KVGeometry(layers=2, kv_heads=2, head_dim=8)
SMALL_PAGES = 24
SMALL_CHUNK = 4  # pages
NOT_YET = -(2**40)  # no slot: an index read before the stream wrote it cannot be used


class TwoStreams:
    """A backup and a load, enqueued on two streams before any of their inputs exist.

    The first piece of work of each stream writes what its direction reads: the KV cache rows or
    the host units, and the indices. So whatever looks at values while a call runs, or runs
    outside its stream, sees poison.

    Parameters
    ----------
    codec : KVCodec
        Of a small geometry.
    pages : tuple of int
        Pages that are backed up and loaded.
    alter : callable
        Breaks the transfer before it is used.
    """

    def __init__(
        self,
        codec: KVCodec,
        pages: tuple[int, int] = (10, 9),
        alter: Callable[[StagedTransfer], None] = lambda transfer: None,
    ) -> None:
        self.codec = codec
        g = codec.geometry
        self.transfer = StagedTransfer(codec, CPU, SMALL_CHUNK * g.page_size)
        alter(self.transfer)
        self.arena = HostArena(self.transfer, SMALL_PAGES)
        slots, hosts = (
            paged_slots(SMALL_PAGES * g.page_size, SMALL_PAGES * g.page_size, g.page_size, seed)
            for seed in (0, 1)
        )
        saved, loaded = (count * g.page_size for count in pages)
        self.backup_slots, self.backup_hosts = slots[:saved], hosts[:saved]
        self.load_slots, self.load_hosts = slots[-loaded:], hosts[-loaded:]
        self.sources = caches(len(slots), 11, g)
        stored = caches(loaded, 13, g)
        self.stored = torch.stack([encode_units(codec, k, v) for k, v in zip(*stored, strict=True)])
        self.keys, self.values = caches(len(slots), 0, g)
        self.late = {name: torch.empty_like(index) for name, index in self._indices().items()}
        self.backup_stream, self.load_stream = RecordingStream(), RecordingStream()
        self.reset()
        self._enqueue()
        self.expected_units, self.expected_caches = self._expected()

    def _indices(self) -> dict[str, torch.Tensor]:
        names = ("backup_slots", "backup_hosts", "load_slots", "load_hosts")
        return {name: getattr(self, name) for name in names}

    def _pages(self, slots: torch.Tensor) -> torch.Tensor:
        page_size = self.codec.geometry.page_size
        return slots[::page_size] // page_size

    def _caches(self) -> list[torch.Tensor]:
        return [*self.keys, *self.values]

    def _memory(self) -> list[torch.Tensor]:
        lanes = self.transfer._backup, self.transfer._load
        # What is behind the blocks is zero from the start, and nobody writes it.
        blocks = [part for lane in lanes for part in self.codec.parts(lane.units)[:2]]
        return [self.arena.rows, *blocks]

    def reset(self) -> None:
        """Put poison everywhere."""
        for rows in self._caches():
            rows.fill_(-7.0)
        for index in self.late.values():
            index.fill_(NOT_YET)
        for memory in self._memory():
            memory.fill_(POISON)
        for lane in (self.transfer._backup, self.transfer._load):
            for rows in lane.host_rows.values():
                rows.zero_()  # a row that there is

    def _write_backup_inputs(self) -> None:
        for name in ("backup_slots", "backup_hosts"):
            self.late[name].copy_(getattr(self, name))
        for rows, source in zip(self._caches(), itertools.chain(*self.sources), strict=True):
            rows[self.backup_slots] = source[self.backup_slots]

    def _write_load_inputs(self) -> None:
        for name in ("load_slots", "load_hosts"):
            self.late[name].copy_(getattr(self, name))
        self.arena.write(self._pages(self.load_hosts), self.stored)

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
        for layer in range(self.codec.geometry.layers):
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
        return (
            all(bool((rows == -7.0).all()) for rows in self._caches())
            and all(bool((memory == POISON).all()) for memory in self._memory())
            and all(bool((index == NOT_YET).all()) for index in self.late.values())
        )

    def _expected(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """What both directions should leave in the arena and in the caches."""
        units = torch.full_like(self.arena.units, POISON)
        units[:, self._pages(self.load_hosts)] = self.stored
        keys, values = ([torch.full_like(r, -7.0) for r in pool] for pool in self.sources)
        for layer, (k, v) in enumerate(zip(*self.sources, strict=True)):
            saved = k[self.backup_slots], v[self.backup_slots]
            units[layer, self._pages(self.backup_hosts)] = encode_units(self.codec, *saved)
            restored = decode_units(self.codec, self.stored[layer])
            for rows, backed_up, loaded in zip((keys, values), saved, restored, strict=True):
                rows[layer][self.backup_slots] = backed_up
                rows[layer][self.load_slots] = loaded
        return units, [*keys, *values]

    def right(self) -> bool:
        """Whether the arena and the caches are what both directions should leave."""
        pairs = zip(self._caches(), self.expected_caches, strict=True)
        return torch.equal(self.arena.units, self.expected_units) and all(
            torch.equal(found, expected) for found, expected in pairs
        )

    def right_after(self, turns: Iterable[bool]) -> bool:
        """Execute both streams' work in this order, from poison."""
        self.reset()
        execute(self.backup_stream, self.load_stream, turns)
        return self.right()

    def interruptions(self) -> Iterable[Iterable[bool]]:
        """Each stream interrupted once by all of the other, and in turns.

        A stream is interrupted at every place, one of more than 200 pieces at 200 of them.
        """
        backups, loads = len(self.backup_stream.work), len(self.load_stream.work)
        for done in range(0, backups + 1, 1 + backups // 200):
            yield itertools.chain([False] * done, [True] * loads)
        for done in range(0, loads + 1, 1 + loads // 200):
            yield itertools.chain([True] * done, [False] * backups)
        for several in (1, 2, 3, 5, 7, 11, 17, 29):
            yield ([False] * several + [True] * several) * (backups + loads)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("codec_class", CODECS)
def test_a_call_only_enqueues(codec_class: CodecClass, page_size: int) -> None:
    streams = TwoStreams(codec_class(replace(SMALL, page_size=page_size)))
    assert streams.untouched()
    assert len(streams.backup_stream.work) > 3 * 2 * 2
    assert len(streams.load_stream.work) > 3 * 2 * 2


@pytest.mark.parametrize(
    ("page_size", "v_head_dim", "pages"),
    [(1, 8, (10, 9)), (1, 8, (4, 13)), (1, 8, (1, 8)), (3, 8, (10, 9)), (1, 12, (10, 9))],
)
@pytest.mark.parametrize("codec_class", CODECS)
def test_both_directions_are_right_under_any_interruption(
    codec_class: CodecClass, page_size: int, v_head_dim: int, pages: tuple[int, int]
) -> None:
    codec = codec_class(replace(SMALL, page_size=page_size, v_head_dim=v_head_dim))
    streams = TwoStreams(codec, pages)
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


def _share_units(transfer: StagedTransfer) -> None:
    shared = {name: getattr(transfer._backup, name)[:1] for name in ("units", "staged")}
    transfer._load = replace(transfer._load, **shared)


def _share_paths(transfer: StagedTransfer) -> None:
    backup = transfer._backup
    transfer._load = replace(transfer._load, keys=backup.keys, values=backup.values)


def _share_host_rows(transfer: StagedTransfer) -> None:
    transfer._load = replace(transfer._load, host_rows=transfer._backup.host_rows)


@pytest.mark.parametrize("share", [_share_units, _share_paths, _share_host_rows])
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
    class Peeks(RawBlock):
        def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: None) -> None:
            super().encode(rows, blocks, workspace)
            first = rows.view(torch.uint8)
            while first.dim() > 0:
                first = first[0]
            blocks[..., 0].fill_(first.tolist())

    class PeeksCodec(RawCodec):
        key_format = Peeks

    assert TwoStreams(RawCodec(SMALL)).right_after([])
    assert not TwoStreams(PeeksCodec(SMALL)).right_after([])
