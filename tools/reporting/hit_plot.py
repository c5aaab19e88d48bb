"""Hit rate against what is varied, as it was measured."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from reporting.drawing import finished, new_axes, whiskers
from reporting.looks import looks
from reporting.measures import HIT_RATE
from reporting.runs import Case
from reporting.spread import Spread
from reporting.varied import Varied


def draw_hits(cases: Sequence[Case], along: Varied) -> Figure:
    """Return the drawing: a line for each configuration, with whiskers over the repeats.

    Parameters
    ----------
    cases
        What was measured.
    along
        What the one axis is of.
    """
    axes = new_axes(along.axis, "hit rate, %")
    for name, look in looks(names_of(cases)).items():
        axes.plot([], [], **look)  # for the legend: without whiskers
        whiskers(axes, rates(cases, name, along), {**look, "label": ""})
    axes.set(xlim=(0, None), ylim=(0, 100))
    return finished(axes)


def names_of(cases: Sequence[Case]) -> dict[str, None]:
    """Return the names of all configurations, each once."""
    return dict.fromkeys(one.name for case in cases for one in case.configurations)


def rates(cases: Sequence[Case], name: str, along: Varied) -> list[tuple[int, Spread]]:
    """Return the places and hit rates of a configuration."""
    found = []
    for case in cases:
        one = case.named(name)
        if one:
            percent = [100 * rate for rate in one.values(HIT_RATE.of).values()]
            found.append((along.of(case.setup.workload), Spread.of(percent)))
    return found
