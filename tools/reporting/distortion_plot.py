"""Rate against distortion: our formats by name, others by number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from reporting.distortion import OURS, Format
from reporting.drawing import finished, new_axes
from reporting.looks import short

#: Shape and fill tell the kinds apart, so that a print in grey does too.
_LOOKS: dict[str, dict[str, Any]] = {
    OURS: {"marker": "o", "color": "black", "zorder": 4},
    "peer": {"marker": "s", "color": "#1f6fb4", "markerfacecolor": "white"},
    "emulation": {"marker": "^", "color": "#8a8a8a"},
}
_OTHER: dict[str, Any] = {"marker": "x", "color": "#a8323e"}
#: Where a label may stand, in points from its mark, the nearest place first.
_PLACES = sorted(
    product(range(-96, 97, 8), range(-48, 49, 6)), key=lambda at: abs(at[0]) + abs(at[1])
)
_ROOM = 5.0


def numbered(formats: Sequence[Format]) -> dict[int, Format]:
    """Return the formats that are not ours by their number in the drawing."""
    return dict(enumerate((one for one in formats if one.kind != OURS), start=1))


def draw_distortion(formats: Sequence[Format]) -> Figure:
    """Return the drawing, with whiskers over the intervals of the KL."""
    axes = new_axes("bits for each value", "KL, nats/token", height=4.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for kind in dict.fromkeys(one.kind for one in formats):
        shown = [one for one in formats if one.kind == kind]
        axes.errorbar(
            [one.bits for one in shown],
            [one.kl.estimate for one in shown],
            yerr=[
                [one.kl.estimate - one.kl.low for one in shown],
                [one.kl.high - one.kl.estimate for one in shown],
            ],
            linestyle="none", capsize=2, elinewidth=0.8, markersize=5, label=short(kind),
            **_LOOKS.get(kind, _OTHER),
        )  # fmt: skip
    axes.margins(0.08)
    figure = finished(axes)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the labels stay where they are put
    _label(axes, formats)
    return figure


def _label(axes: Axes, formats: Sequence[Format]) -> None:
    """Label each mark where the label covers neither a mark nor another label."""
    labels = [(one, str(number)) for number, one in numbered(formats).items()]
    ours = [(one, short(one.name)) for one in formats if one.kind == OURS]
    marks = [axes.transData.transform((one.bits, one.kl.estimate)) for one in formats]
    taken = [Bbox.from_extents(*(mark - _ROOM), *(mark + _ROOM)) for mark in marks]
    for one, words in [*ours, *labels]:
        taken.append(_place(axes, (one.bits, one.kl.estimate), words, taken))


def _place(axes: Axes, mark: tuple[float, float], words: str, taken: Sequence[Bbox]) -> Bbox:
    for place in _PLACES:
        text = axes.annotate(
            words, mark, place, textcoords="offset points", ha="center", va="center", fontsize=8.5,
        )  # fmt: skip
        box = text.get_window_extent().padded(1)
        inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
        if inside and not any(box.overlaps(other) for other in taken):
            line = {"arrowstyle": "-", "linewidth": 0.4, "shrinkA": 4, "shrinkB": 3}
            axes.annotate("", mark, place, textcoords="offset points", arrowprops=line)
            return box
        text.remove()
    return Bbox.null()  # its place in the key says its figures
