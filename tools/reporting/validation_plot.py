"""Hit rates of the engine's runs against those of their simulation."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from reporting.drawing import finished, new_axes
from reporting.looks import looks
from reporting.simulation import Validation

_ENDS = (0.0, 100.0)
_EQUAL: dict[str, Any] = {"color": "#999999", "linewidth": 0.8, "zorder": 1}
#: Hollow, so that one mark on another is seen.
_MARK: dict[str, Any] = {"linestyle": "", "markerfacecolor": "none", "markersize": 6}


def draw_validation(found: Validation) -> Figure:
    """Return the drawing: a mark for each run, by configuration, and what is tolerated."""
    axes = new_axes("hit rate in the engine, %", "hit rate simulated, %", height=4.2)
    axes.plot(_ENDS, _ENDS, **_EQUAL)
    for off in (-found.tolerated, found.tolerated):
        axes.plot(_ENDS, [end + off for end in _ENDS], **_EQUAL, linestyle="--")
    for name, look in looks(dict.fromkeys(run.configuration for run in found.runs)).items():
        runs = [run for run in found.runs if run.configuration == name]
        marks = [run.engine for run in runs], [run.simulated for run in runs]
        axes.plot(*marks, **{**look, **_MARK})
    axes.set(xlim=_ENDS, ylim=_ENDS)
    return finished(axes)
