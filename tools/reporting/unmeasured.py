"""What was not measured, and what will measure it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Something that nobody has measured, and the commands that do."""

    what: str
    commands: tuple[str, ...]


_RUN = "tools/experiment.py {} --model DIR --out results-gpu"
#: What needs a GPU; docs/reproducing.md goes through it.
ON_A_GPU = (
    Missing(
        "Whether restored pages are right on CUDA: movers, streams, graph capture",
        ("tox -e gpu-integration",),
    ),
    Missing(
        "Hit rate, time to first token and output of Qwen3-8B on a GPU",
        (_RUN.format("equal-bytes"), _RUN.format("formats")),
    ),
    Missing(
        "What a restore takes on a GPU, how much of it is decoding, and from which length it is "
        "faster than computing",
        (_RUN.format("restore"),),
    ),
    Missing(
        "What restores cost a GPU that serves more requests at a time",
        (_RUN.format("concurrency"),),
    ),
)
RESTORE = Missing("Restoring a prefix against computing it", ("tools/experiment.py restore",))
#: By what is varied, in the order of the page.
SIMULATIONS = {
    "working-set": Missing(
        "Hit rate by working set, simulated", ("tools/simulate.py --output 4 --json FILE",)
    ),
    "budget": Missing(
        "Hit rate by budget, simulated", ("tools/simulate.py --sweep budget --json FILE",)
    ),
    "prefix": Missing(
        "Hit rate by prefix length, simulated",
        ("tools/simulate.py --sweep prefix --output 4 --json FILE",),
    ),
    "concurrency": Missing(
        "Hit rate by concurrency, simulated",
        ("tools/simulate.py --sweep concurrency --output 4 --json FILE",),
    ),
}
VALIDATION = Missing(
    "How far the simulation is from what was measured",
    ("tools/simulate.py --validate RESULTS --json FILE",),
)
DISTORTION = Missing("What each format costs in quality", ("tox -e rate-distortion",))
