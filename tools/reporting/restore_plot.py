"""Restoring against computing: time to first token by the length of the prefix."""

from __future__ import annotations

from matplotlib.figure import Figure

from reporting.drawing import finished, new_axes, whiskers
from reporting.looks import looks
from reporting.restore import Restore
from reporting.spread import Spread

RECOMPUTED = "computed anew"


def draw_restore(measured: Restore) -> Figure:
    """Return the drawing: a line for each L2, and one for what was computed without any."""
    axes = new_axes("prefix, tokens", "time to first token, s")
    lines: dict[str, list[tuple[int, Spread]]] = {}
    for row in measured.restored:
        lines.setdefault(row.configuration, []).append((row.prefix_tokens, Spread.of(row.ttft_s)))
    cold = [(at, Spread.of(seconds)) for at, seconds in measured.cold.items()]
    if cold:
        lines[RECOMPUTED] = cold
    for name, look in looks(lines).items():
        whiskers(axes, sorted(lines[name], key=lambda point: point[0]), look)
    axes.set(xlim=(0, None), ylim=(0, None))
    return finished(axes)
