"""What was not measured, and what will measure it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Something that nobody has measured, and the command that does."""

    what: str
    command: str


#: What needs a GPU.
ON_A_GPU = (
    Missing(
        "Whether restored pages are right on CUDA: the movers, the streams, graph capture",
        "tox -e gpu-integration",
    ),
    Missing(
        "Hit rate, time to first token and output of Qwen3-8B on a GPU, with the L2s of the "
        "reference",
        "python tools/experiment.py --model Qwen/Qwen3-8B --device cuda",
    ),
    Missing(
        "From which length restoring is faster than computing on a GPU",
        "python tools/experiment.py --restore --model Qwen/Qwen3-8B --device cuda",
    ),
    Missing(
        "Bytes over PCIe in a second, and what a transfer takes from decoding beside it",
        "python tools/experiment.py --model Qwen/Qwen3-8B --device cuda --concurrency 16",
    ),
)
RESTORE = Missing(
    "Restoring a prefix against computing it", "python tools/experiment.py --restore FILE"
)
SIMULATION = Missing("What a cache of any size would hit", "python tools/simulate.py --json FILE")
VALIDATION = Missing(
    "How far the simulation is from what was measured",
    "python tools/simulate.py --validate RESULTS --json FILE",
)
DISTORTION = Missing("What each format costs in quality", "tox -e rate-distortion")
