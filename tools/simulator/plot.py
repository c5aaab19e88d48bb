"""Hit rates as drawings that can be read in grey."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from io import BytesIO
from itertools import cycle
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from serving.delivery import write_bytes
from simulator.sweep import UNITS, Point, Sweep
from simulator.validation import TOLERATED, Compared

#: Told apart by dash and mark, so that a print in grey does too.
_LOOKS = (
    ("#777777", (0, (1, 2)), "x"), ("black", "-", "o"), ("#1f6fb4", "--", "s"),
    ("#c2571a", "-.", "^"), ("#3c8d40", ":", "D"), ("#7a4fa3", (0, (6, 1, 1, 1, 1, 1)), "v"),
)  # fmt: skip
#: The file of the same figures is the same file.
_SAME = {"svg.hashsalt": "hiqcache", "font.size": 9}


def write_figure(figure: Figure, file: Path) -> None:
    """Write a figure, in the format that the file's name ends with.

    Raises
    ------
    ValueError
        For a format that matplotlib does not write.
    """
    kind = file.suffix[1:].lower() or "png"
    dated = {"metadata": {"Date": None}} if kind == "svg" else {}
    drawn = BytesIO()
    with mpl.rc_context(_SAME):
        figure.savefig(drawn, dpi=150, format=kind, **dated)
    write_bytes(file, drawn.getvalue())


def draw_sweep(found: Sweep, title: str) -> Figure:
    """Draw the hit rate of each format; formats with the same points share a line."""
    with mpl.rc_context(_SAME):
        figure = Figure(figsize=(8, 5))
        axes = figure.subplots()
        figure.subplots_adjust(left=0.1, right=0.78, top=0.9, bottom=0.12)
        axes.plot(found.values, found.ceilings, color="#999999", linewidth=4, alpha=0.4,
                  label="ceiling")  # fmt: skip
        for look, names in zip(cycle(_LOOKS), found.alike, strict=False):
            _draw_line(axes, look, "\n".join(names), found.line(names[0]))
        _label(axes, UNITS[found.varied], title)
        if found.varied == "budget":
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, handlelength=4)
    return figure


def _draw_line(axes: Axes, look: tuple, name: str, line: Sequence[Point]) -> None:
    color, dashes, marker = look
    values = [point.value for point in line]
    axes.plot(
        values, [point.hit_rate for point in line], color=color, linestyle=dashes, marker=marker,
        markersize=4, linewidth=1.4, label=name, zorder=3,
    )  # fmt: skip
    lowest, highest = [p.lowest for p in line], [p.highest for p in line]
    axes.fill_between(values, lowest, highest, color=color, alpha=0.12, linewidth=0)


def _label(axes: Axes, unit: str, title: str) -> None:
    axes.set(xlabel=unit, ylabel="hit rate, % of the prompts' tokens", ylim=(0, 100))
    axes.set_title(textwrap.fill(title, 110), fontsize=7)
    axes.grid(linewidth=0.4)


def draw_validation(found: Sequence[Compared]) -> Figure:
    """Draw the engine's hit rates over the simulated ones, with what is tolerated."""
    with mpl.rc_context(_SAME):
        figure = Figure(figsize=(5.5, 5.5), layout="constrained")
        axes = figure.subplots()
        ends = (0.0, 100.0)
        axes.plot(ends, ends, color="black", linewidth=0.8)
        low, high = ([end + off for end in ends] for off in (-TOLERATED, TOLERATED))
        axes.fill_between(ends, low, high, color="#bbbbbb", alpha=0.5, linewidth=0,
                          label=f"within {TOLERATED:g} points")  # fmt: skip
        names = dict.fromkeys(c.configuration for c in found)
        for (color, _, marker), name in zip(cycle(_LOOKS), names, strict=False):
            runs = [c for c in found if c.configuration == name]
            axes.plot([c.simulated for c in runs], [c.engine for c in runs], linestyle="",
                      marker=marker, color=color, markersize=6, label=name)  # fmt: skip
        axes.set(xlabel="simulated hit rate, %", ylabel="the engine's hit rate, %", xlim=ends,
                 ylim=ends, aspect="equal")  # fmt: skip
        axes.grid(linewidth=0.4)
        axes.legend(loc="upper left")
    return figure
