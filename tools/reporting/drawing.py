"""Drawings that a phone shows legibly: narrow, with units on the axes, the legend below them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any
from xml.sax.saxutils import quoteattr

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from reporting.content import Plot
from reporting.spread import Spread

#: Inches; a phone shows 9 points of it as 10 pixels.
WIDTH, HEIGHT = 3.9, 3.4
#: Figures at an axis, at most, so that none touches another.
TICKS = 5
#: Signs that a legend has room for, and of which its line takes so many.
_LEGEND, _HANDLE = 44, 8
_STYLE = {"font.size": 9, "text.parse_math": False, "svg.fonttype": "none"}


def new_axes(x: str, y: str, height: float = HEIGHT) -> Axes:
    """Return empty axes of a figure of their own.

    Parameters
    ----------
    x, y
        Names of the axes, with their units behind a comma.
    height
        Of the figure, in inches.
    """
    with mpl.rc_context(_STYLE):
        axes = Figure(figsize=(WIDTH, height), layout="constrained").subplots()
        axes.set(xlabel=x, ylabel=y)
        axes.xaxis.label.set_gid("x-axis-label")
        axes.yaxis.label.set_gid("y-axis-label")
        axes.grid(linewidth=0.4)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(FuncFormatter(_number))
        axes.spines[["top", "right"]].set_visible(False)
    return axes


def double(axes: Axes) -> None:
    """Let equal steps along the one axis be equal factors."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_number))


def whiskers(axes: Axes, points: Sequence[tuple[float, Spread]], look: Mapping[str, Any]) -> None:
    """Draw medians, with whiskers from the least to the largest value."""
    middles = [spread.median for _, spread in points]
    down = [spread.median - spread.low for _, spread in points]
    up = [spread.high - spread.median for _, spread in points]
    places = [place for place, _ in points]
    axes.errorbar(places, middles, yerr=[down, up], capsize=3, elinewidth=0.8, **look)


def finished(axes: Axes) -> Figure:
    """Add the legend, and return the figure."""
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    handles, names = axes.get_legend_handles_labels()
    if handles:
        with mpl.rc_context(_STYLE):
            figure.legend(
                handles, names, loc="outside lower center", ncols=_columns(names), frameon=False,
                handlelength=3.4, columnspacing=1.2,
            )  # fmt: skip
    return figure


def _columns(names: Sequence[str]) -> int:
    """Return how many names of the longest's length stand side by side."""
    return max(1, _LEGEND // (max(map(len, names)) + _HANDLE))


def _number(value: float, _: int) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def to_svg(plot: Plot) -> str:
    """Return a drawing as SVG that can stand in a page or be a file, and asks for nothing else."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": plot.name}):
        written = StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        plot.figure.savefig(written, format="svg", metadata=nothing)
    svg = written.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    # What lies in one page needs ids of its own.
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{plot.name}-", svg)
    told = f'<svg role="img" aria-label={quoteattr(plot.caption)} data-drawn="{_drawn(plot)}"'
    return svg.replace("<svg", told, 1)


def _drawn(plot: Plot) -> str:
    """Return a digest of what is shown, the same whatever release of matplotlib drew it."""
    shown: list[object] = [plot.figure.get_size_inches().tolist()]
    for axes in plot.figure.axes:
        shown += [axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale(), axes.get_yscale()]
        shown += [text.get_text() for text in axes.texts]
        for line in axes.lines:
            look = (line.get_label(), line.get_color(), line.get_linestyle(), line.get_marker())
            rounded = [[f"{value:.6g}" for value in point] for point in line.get_xydata()]
            shown += [*map(str, look), rounded]
    return hashlib.sha256(repr(shown).encode()).hexdigest()[:16]
