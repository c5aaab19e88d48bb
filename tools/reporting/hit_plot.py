"""Hit rate against working set: what was measured, over what the simulation says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from reporting.drawing import finished, new_axes, whiskers
from reporting.looks import looks
from reporting.measures import HIT_RATE
from reporting.runs import Case
from reporting.spread import Spread


def draw_hits(cases: Sequence[Case], curves: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """Return the drawing.

    Parameters
    ----------
    cases
        What was measured: marks, with whiskers from the least to the largest repeat.
    curves
        What was simulated, by configuration: lines. Where there are none, lines join the marks.
    """
    axes = new_axes("working set, tokens", "hit rate, %")
    measured = dict.fromkeys(one.name for case in cases for one in case.configurations)
    for name, look in looks({**measured, **dict.fromkeys(curves)}).items():
        axes.plot([], [], **look)  # for the legend: one entry, of line and mark
        if name in curves:
            axes.plot(*zip(*curves[name], strict=True), **{**look, "marker": "", "label": ""})
        if name in measured:
            dashes = "" if curves else look["linestyle"]
            whiskers(axes, _rates(cases, name), {**look, "linestyle": dashes, "label": ""})
    axes.set(xlim=(0, None), ylim=(0, 100))
    return finished(axes)


def _rates(cases: Sequence[Case], name: str) -> list[tuple[int, Spread]]:
    """Return working sets and hit rates of a configuration."""
    found = []
    for case in cases:
        one = case.named(name)
        if one:
            rates = [100 * rate for rate in one.values(HIT_RATE.of).values()]
            found.append((case.setup.workload.working_set_tokens, Spread.of(rates)))
    return found
