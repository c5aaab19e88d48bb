"""What was measured of restoring a prefix against computing it."""

from __future__ import annotations

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
        f"{CONFIDENCE} % interval."
    )
    caption = (
        "Time to first token against prefix length: restored from each L2, and "
        f"{RECOMPUTED}. Medians, with whiskers from the least to the largest repeat."
    )
    blocks: tuple[Block, ...] = (
        Text(words), Plot("restore", caption, draw_restore(measured)), _table(measured),
    )  # fmt: skip
    return Section("Restoring against computing", blocks)


def _table(measured: Restore) -> Table:
    phases = list(dict.fromkeys(name for row in measured.rows for name in row.phases))
    header = (
        "configuration, prefix", "time to first token, s", f"{RECOMPUTED}, s", "gained, s",
        *(f"{name.removesuffix('_s').replace('_', ' ')}, s" for name in phases), "bytes in L2",
    )  # fmt: skip
    return Table(header, tuple(_cells(row, phases) for row in measured.rows))


def _cells(row: Row, phases: list[str]) -> tuple[str, ...]:
    found = [row.phases.get(name) for name in phases]
    return (
        f"{row.configuration}, {row.prefix_tokens:,} tokens",
        _SECONDS.spread(row.ttft_s),
        _SECONDS.spread(row.cold_ttft_s),
        _SECONDS.difference(row.gained) if row.gained else NOTHING,
        *(NOTHING if value is None else three_digits(value) for value in found),
        NOTHING if row.bytes is None else f"{row.bytes:,}",
    )
