"""What was not measured, and what will measure it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Something that nobody has measured, and the commands that do."""

    what: str
    commands: tuple[str, ...]


_SERVE = (
    "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --max-total-tokens 16384 "
    "--enable-hierarchical-cache --hicache-size 8 --hicache-l2-codec int8 --enable-metrics"
)
_BENCH = (
    "python -m sglang.bench_serving --backend sglang --dataset-name generated-shared-prefix "
    "--gsp-num-groups 32 --gsp-prompts-per-group 4 --gsp-system-prompt-len 2048 "
    "--gsp-question-len 32 --gsp-output-len 8 --max-concurrency 8"
)
_COUNTED = "curl -s http://127.0.0.1:30000/metrics | grep -E 'load_back|hicache'"
#: What needs a GPU.
ON_A_GPU = (
    Missing(
        "Whether restored pages are right on CUDA: movers, streams, graph capture",
        ("tox -e gpu-integration",),
    ),
    Missing(
        "Hit rate, time to first token and output of Qwen3-8B on a GPU, once for each codec",
        (_SERVE, _BENCH),
    ),
    Missing(
        "What a restore takes on a GPU, and how much of it is decoding; after the same two",
        (_COUNTED,),
    ),
    Missing(
        "How much slower restores are on a GPU that is busy",
        (_BENCH.replace("--max-concurrency 8", "--max-concurrency 64"), _COUNTED),
    ),
)
RESTORE = Missing(
    "Restoring a prefix against computing it", ("python tools/experiment.py restore",)
)
SIMULATION = Missing(
    "What a cache of any size would hit", ("python tools/simulate.py --output 8 --json FILE",)
)
VALIDATION = Missing(
    "How far the simulation is from what was measured",
    ("python tools/simulate.py --validate RESULTS --json FILE",),
)
DISTORTION = Missing("What each format costs in quality", ("tox -e rate-distortion",))
