"""What was measured of restoring a prefix against computing it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from evidence.record import RAW
from reporting.break_even import BUSES, break_evens
from reporting.content import Block, Plot, Section, Table, Text
from reporting.measures import NOTHING, Measure, three_digits
from reporting.restore import Restore, Row
from reporting.restore_plot import RECOMPUTED, draw_restore
from reporting.spread import CONFIDENCE

_SECONDS = Measure("time", "s", lambda _: None, three_digits)


def restores(measured: Restore) -> Section:
    """Return the section."""
    words = (
        f"{measured.model}. A prefix is computed, leaves L1, and is asked for again. Gained: "
        "seconds of computing less those of restoring, the mean over the repeats with its "
        f"{CONFIDENCE} % interval. Times raw: the median over that of the raw L2. Decode: with the "
        "scatter of what was decoded. On a CPU, SGLang's torch_native attention computes what "
        "comes of a restored prefix too and throws it away, so that a restore saves little there."
    )
    caption = (
        "Time to first token against prefix length: restored from each L2, and "
        f"{RECOMPUTED}. Medians, with whiskers from the least to the largest repeat."
    )
    blocks: tuple[Block, ...] = (
        Text(words), Plot("restore", caption, draw_restore(measured)), _table(measured),
        *_weighed(measured),
    )  # fmt: skip
    return Section("Restoring against computing", blocks)


def _weighed(measured: Restore) -> tuple[Block, ...]:
    """Where decoding costs more than the bytes that it saves, if it was timed."""
    found = break_evens(measured)
    if not found:
        return ()
    words = (
        "Break-even: the bandwidth at which a move of fewer bytes and its decoding, one after the "
        "other, take as long as the move of a raw restore; below it the encoded restore is the "
        "faster. Decoding was measured on this machine, and is the bytes of KV that it makes in a "
        "second. For a bus: the decoding that breaks even there, and how many times as long as a "
        "raw restore one would take if a machine with that bus decoded as slowly as this one. No "
        "decoding was timed on a GPU."
    )
    header = (
        "configuration, prefix", "decoding, GB/s", "break-even, GB/s",
        *(f"{bus}, {rate / 1e9:.0f} GB/s: needs, GB/s" for bus, rate in BUSES.items()),
        *(f"{bus}, as slowly: times raw" for bus in BUSES),
    )  # fmt: skip
    rows = tuple(
        (
            f"{one.configuration}, {one.prefix_tokens:,} tokens",
            *map(_gigabytes, (one.decode_rate, one.bandwidth)),
            *(_gigabytes(one.needed_rate(rate)) for rate in BUSES.values()),
            *(three_digits(one.against_raw(rate)) for rate in BUSES.values()),
        )
        for one in found
    )
    return Text(words), Table(header, rows)


def _gigabytes(rate: float) -> str:
    return three_digits(rate / 1e9)


def _table(measured: Restore) -> Table:
    counted = [name for row in measured.rows for name in row.phases if row.phase(name) is not None]
    phases = list(dict.fromkeys(counted))
    header = (
        "configuration, prefix", "time to first token, s", f"{RECOMPUTED}, s", "gained, s",
        "times raw",
        *(f"{name.removesuffix('_s').replace('_', ' ')}, s" for name in phases), "bytes in L2",
    )  # fmt: skip
    raw = {
        row.prefix_tokens: median(row.ttft_s) for row in measured.rows if row.configuration == RAW
    }
    return Table(header, tuple(_cells(row, raw, phases) for row in measured.rows))


def _cells(row: Row, raw: Mapping[int, float], phases: list[str]) -> tuple[str, ...]:
    reference = raw.get(row.prefix_tokens)
    found = map(row.phase, phases)
    return (
        f"{row.configuration}, {row.prefix_tokens:,} tokens",
        _SECONDS.spread(row.ttft_s),
        _SECONDS.spread(row.cold_ttft_s),
        _SECONDS.difference(row.gained) if row.gained else NOTHING,
        three_digits(median(row.ttft_s) / reference) if reference else NOTHING,
        *(NOTHING if value is None else three_digits(value) for value in found),
        NOTHING if row.bytes is None else f"{row.bytes:,}",
    )
