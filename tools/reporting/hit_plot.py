"""Hit rate against what is varied: what was measured, over what the simulation says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from reporting.drawing import finished, new_axes, whiskers
from reporting.looks import looks
from reporting.measures import HIT_RATE
from reporting.runs import Case
from reporting.spread import Spread
from reporting.varied import Varied


def draw_hits(
    cases: Sequence[Case], curves: Mapping[str, Sequence[tuple[float, float]]], along: Varied
) -> Figure:
    """Return the drawing.

    Parameters
    ----------
    cases
        What was measured: marks, with whiskers from the least to the largest repeat.
    curves
        What was simulated, by configuration: lines. Where there are none, lines join the marks.
    along
        What the one axis is of.
    """
    axes = new_axes(along.axis, "hit rate, %")
    measured = dict.fromkeys(one.name for case in cases for one in case.configurations)
    for name, look in looks({**measured, **dict.fromkeys(curves)}).items():
        axes.plot([], [], **look)  # for the legend: one entry, of line and mark
        if name in curves:
            axes.plot(*zip(*curves[name], strict=True), **{**look, "marker": "", "label": ""})
        if name in measured:
            dashes = "" if curves else look["linestyle"]
            whiskers(axes, _rates(cases, name, along), {**look, "linestyle": dashes, "label": ""})
    axes.set(xlim=(0, None), ylim=(0, 100))
    return finished(axes)


def _rates(cases: Sequence[Case], name: str, along: Varied) -> list[tuple[int, Spread]]:
    """Return the places and hit rates of a configuration."""
    found = []
    for case in cases:
        one = case.named(name)
        if one:
            rates = [100 * rate for rate in one.values(HIT_RATE.of).values()]
            found.append((along.of(case.setup.workload), Spread.of(rates)))
    return found
