"""Hit rate against what a simulation varies, with what was measured of the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from reporting.drawing import double, finished, new_axes, whiskers
from reporting.hit_plot import names_of, rates
from reporting.looks import looks, short
from reporting.runs import Case
from reporting.simulation import WORKING_SET, Simulation

#: Inches; a name of several formats leaves room for no other beside it.
_HEIGHT = 4.4
_CEILING: dict[str, Any] = {"color": "#999999", "linewidth": 4, "alpha": 0.4, "label": "ceiling"}
#: Hollow and small where it is simulated, full and large where it was measured.
_SIMULATED = {"markerfacecolor": "white", "markersize": 4}
_MEASURED = {"linestyle": "", "markersize": 7, "zorder": 4}


def draw_simulated(found: Simulation, measured: Sequence[Case]) -> Figure:
    """Return the drawing: a line for all formats whose L2s are alike.

    Parameters
    ----------
    found
        What was simulated: lines, with hollow marks.
    measured
        What was measured of the same: full marks, with whiskers from the least to the largest
        repeat.
    """
    axes = new_axes(found.axis, "hit rate, %", _HEIGHT)
    axes.plot(*zip(*found.curve(found.ceilings), strict=True), **_CEILING)
    lines = {names[0]: ", ".join(names) for names in found.alike}
    names = names_of(measured)
    for name, look in looks({**names, **lines}).items():
        axes.plot([], [], **{**look, "label": short(lines.get(name, name))})
        if name in lines:
            curve = found.curve([point.hit_rate for point in found.line(name)])
            axes.plot(*zip(*curve, strict=True), **{**look, **_SIMULATED, "label": ""})
        if name in names and found.along:
            whiskers(axes, rates(measured, name, found.along), {**look, **_MEASURED, "label": ""})
    if found.varied == WORKING_SET:
        axes.set(xlim=(0, None))
    elif max(found.values) >= 4 * min(found.values):  # else no two ticks would have room
        double(axes)
    axes.set(ylim=(0, 100))
    return finished(axes)
