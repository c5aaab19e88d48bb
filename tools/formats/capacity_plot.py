"""Capacity against budget, a line for each codec, named where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import cycle
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import StrMethodFormatter

from formats.capacity import Capacity, Deployment
from formats.capacity_output import heading_of
from serving.delivery import write_bytes

#: Told apart by dash and mark, so that a print in grey does too.
_LOOKS = (
    ("black", "-", "o"), ("#1f6fb4", "--", "s"), ("#c2571a", "-.", "^"), ("#3c8d40", ":", "D"),
    ("#7a4fa3", (0, (6, 1, 1, 1, 1, 1)), "v"),
)  # fmt: skip
#: The file of the same figures is the same file.
_SAME = {"svg.hashsalt": "hiqcache", "font.size": 9}
#: Height of a line of a name, with room around it.
_LINE_POINTS = 13.0


def write_plot(served: Deployment, results: Sequence[Capacity], file: Path) -> None:
    """Write the plot, in the format that the file's name ends with.

    Raises
    ------
    ValueError
        For a format that matplotlib does not write.
    """
    with mpl.rc_context(_SAME):
        figure = draw(served, results)
        kind = file.suffix[1:].lower() or "png"
        dated = {"metadata": {"Date": None}} if kind == "svg" else {}
        drawn = BytesIO()
        figure.savefig(drawn, dpi=150, format=kind, **dated)
    write_bytes(file, drawn.getvalue())


def draw(served: Deployment, results: Sequence[Capacity]) -> Figure:
    """Return the plot: from nothing to the largest budget, a line for codecs of the same bytes."""
    figure = Figure(figsize=(8, 5))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.12, right=0.76, top=0.9, bottom=0.12)
    ends: dict[tuple[float, float], str] = {}
    for look, alike in zip(cycle(_LOOKS), _same_bytes(results), strict=False):
        budgets = sorted((filled.size_gb, filled.tokens) for filled in alike[0].filled)
        color, dashes, marker = look
        axes.plot(
            *zip((0, 0), *budgets, strict=True), color=color, linestyle=dashes, marker=marker,
            markersize=5, linewidth=1.4, clip_on=False, zorder=3,
        )  # fmt: skip
        ends[budgets[-1]] = "\n".join(f"{c.codec}, {c.ratio:.2f}x" for c in alike)
    axes.set(
        xlabel="host memory, GB per rank", ylabel="capacity, tokens",
        xlim=(0, max(x for x, _ in ends)), ylim=(0, None),
    )  # fmt: skip
    axes.set_title(heading_of(served), fontsize=8)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(linewidth=0.4)
    name_ends(axes, ends)
    return figure


def _same_bytes(results: Sequence[Capacity]) -> list[list[Capacity]]:
    """Codecs by the bytes of a token."""
    groups: dict[int, list[Capacity]] = {}
    for result in results:
        groups.setdefault(result.bytes_per_token_rank, []).append(result)
    return list(groups.values())


def name_ends(axes: Axes, ends: dict[tuple[float, float], str]) -> list[Annotation]:
    """Name each line right of its end, pushed up where the name below is too near.

    Parameters
    ----------
    axes : Axes
        Of a figure that is not resized.
    ends : dict
        Names by the place where their line ends.
    """
    to_points = 72 / axes.get_figure(root=True).dpi
    labels: list[Annotation] = []
    free = 0.0
    for place, name in sorted(ends.items(), key=lambda item: item[0][1]):
        at = float(axes.transData.transform(place)[1]) * to_points
        half = _LINE_POINTS * (name.count("\n") + 1) / 2
        middle = max(at, free + half)
        free = middle + half
        line = {"arrowstyle": "-", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
        labels.append(
            axes.annotate(
                name, place, (14, middle - at), textcoords="offset points", ha="left",
                va="center", annotation_clip=False, arrowprops=line,
            )
        )  # fmt: skip
    return labels
