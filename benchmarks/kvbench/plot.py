"""The plot: bits for each value against KL, once over all texts and once for each domain."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import product
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from kvbench.results import Result, Row
from kvbench.texts import GROUPS

#: Shape and shade tell the kinds apart, so that a print in grey does too.
LOOKS: dict[str, dict[str, Any]] = {
    "ours": {"marker": "o", "color": "black", "zorder": 3},
    "peer": {"marker": "s", "color": "#1f6fb4", "markerfacecolor": "white"},
    "emulation": {"marker": "^", "color": "#8a8a8a"},
}
#: Where a label may stand, in points from its mark, the best place first.
_PLACES = [(x, y) for y, x in product(sorted(range(-110, 111, 11), key=abs), (8, -8))]
# The file of the same results is the same file.
_SAME = {"svg.hashsalt": "hiqcache", "font.size": 9}


def draw(results: Sequence[Result | Row]) -> bytes:
    """Return the plot as SVG."""
    drawn = BytesIO()
    with mpl.rc_context(_SAME):
        figure = Figure(figsize=(9, 9), layout="constrained")
        rows = figure.subplot_mosaic([["all"] * 3, list(GROUPS)], height_ratios=(2, 1))
        _all_texts(rows["all"], results)
        figure.draw_without_rendering()
        _label(rows["all"], results)
        for group in GROUPS[1:]:
            rows[group].sharey(rows[GROUPS[0]])
        for group in GROUPS:
            _one_group(rows[group], results, group)
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


def _all_texts(axes: Axes, results: Sequence[Result | Row]) -> None:
    for kind, look in LOOKS.items():
        shown = [result for result in results if result.kind == kind]
        kls = [result.kl for result in shown]
        axes.errorbar(
            [result.bits for result in shown],
            [kl.estimate for kl in kls],
            yerr=np.transpose([(kl.estimate - kl.low, kl.high - kl.estimate) for kl in kls]),
            linestyle="none", capsize=2, linewidth=1, label=kind, **look,
        )  # fmt: skip
    _axes(axes, "all texts")
    axes.legend()


def _one_group(axes: Axes, results: Sequence[Result | Row], group: str) -> None:
    for result in results:
        axes.plot(result.bits, result.groups[group], markersize=4, **LOOKS[result.kind])
    _axes(axes, group)


def _axes(axes: Axes, title: str) -> None:
    axes.set(yscale="log", title=title, xlabel="bits for each value", ylabel="KL, nats/token")
    axes.grid(which="major", linewidth=0.4)


def _label(axes: Axes, results: Sequence[Result | Row]) -> None:
    """Name each mark where the name covers neither a mark nor another name."""
    marks = [axes.transData.transform((result.bits, result.kl.estimate)) for result in results]
    taken = [Bbox.from_extents(*(mark - 5), *(mark + 5)) for mark in marks]
    ours_first = sorted(results, key=lambda result: result.kind != "ours")
    for result in ours_first:
        taken.append(_place(axes, result, taken))


def _place(axes: Axes, result: Result | Row, taken: Sequence[Bbox]) -> Bbox:
    mark = (result.bits, result.kl.estimate)
    weight = "bold" if result.kind == "ours" else "normal"
    for place in _PLACES:
        side = "left" if place[0] > 0 else "right"
        options = {"textcoords": "offset points", "ha": side, "va": "center", "fontsize": 8}
        text = axes.annotate(result.name, mark, place, fontweight=weight, **options)
        box = text.get_window_extent()
        inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
        if inside and not any(box.overlaps(other) for other in taken):
            line = {"arrowstyle": "-", "linewidth": 0.4, "shrinkA": 0, "shrinkB": 3}
            axes.annotate("", mark, place, textcoords="offset points", arrowprops=line)
            return box
        text.remove()
    raise ValueError(f"there is no free place for the name {result.name}")
