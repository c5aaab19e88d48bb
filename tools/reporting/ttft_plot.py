"""Times to first token: the share of all requests that had theirs by then."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from reporting.drawing import finished, new_axes
from reporting.looks import looks
from reporting.measures import first_tokens
from reporting.runs import Case

#: Per cents that are drawn, and after how many of them there is a mark.
_SHARES = np.linspace(0, 100, 201)
_MARKS = 25


def draw_first_tokens(case: Case) -> Figure:
    """Return the distribution of each configuration, over the requests of all repeats."""
    axes = new_axes("time to first token, s", "requests that had it, %")
    styles = looks(one.name for one in case.configurations)
    for at, one in enumerate(case.configurations):
        seconds = [value for run in one.runs for value in first_tokens(run)]
        if not seconds:
            continue
        drawn = np.percentile(seconds, _SHARES, method="inverted_cdf")
        # Lines that cover each other have their marks at other places.
        first = _MARKS * at // len(case.configurations)
        axes.step(drawn, _SHARES, where="post", markevery=(first, _MARKS), **styles[one.name])
    axes.set(xlim=(0, None), ylim=(0, 100))
    return finished(axes)
