"""Capacity against budget of the model that the project's figures are for, for a narrow page.

``formats.capacity_plot`` draws the same at a width that names each line at its end.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from evidence.record import RAW
from formats.capacity import Capacity, Deployment, capacity
from formats.models import PRESETS
from hiqcache.codecs import codec_names
from reporting.drawing import finished, new_axes
from reporting.looks import looks

#: What the README's figures are for.
SERVED = Deployment("qwen3-8b", PRESETS["qwen3-8b"], tp=1, page_size=64)
SIZES_GB = (8, 16, 32, 64)


def capacities() -> list[Capacity]:
    """Return what each codec that serves the model makes of the budgets, after raw."""
    found = (capacity(SERVED, codec, SIZES_GB) for codec in (RAW, *codec_names()))
    return [one for one in found if isinstance(one, Capacity)]


def draw_capacity(results: list[Capacity]) -> Figure:
    """Return the drawing: a line for all codecs of the same bytes."""
    axes = new_axes("host memory, GB per rank", "capacity, thousand tokens")
    alike: dict[int, list[Capacity]] = {}
    for result in results:
        alike.setdefault(result.bytes_per_token_rank, []).append(result)
    styles = looks(result.codec for result in results)
    for group in alike.values():
        first = group[0]
        points = [(0.0, 0.0), *((one.size_gb, one.tokens / 1000) for one in first.filled)]
        names = ", ".join(one.codec for one in group)
        style = {**styles[first.codec], "label": f"{names}: {first.ratio:.2f}x"}
        axes.plot(*zip(*points, strict=True), **style)
    axes.set(xlim=(0, None), ylim=(0, None))
    return finished(axes)
