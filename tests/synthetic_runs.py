"""Runs that nobody made: drawn numbers in the form of measured ones, to try the report on.

No figure in here says anything about SGLang or HiQCache.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from evidence.record import Limits, Pool, Record, Request, Setup, Workload

CONFIGURATIONS = ("none", "raw", "int8")
REPEATS = 5
#: Of a token, by configuration.
BYTES = {"raw": 23_040, "int8": 12_000, "int8-hadamard": 12_000, "k8v4": 9_120, "int4": 6_240}
RAW_TOKENS = 12_000
#: Share of the working set that L1 holds.
L1_TOKENS = 2_048

WORKLOAD = Workload(
    groups=32,
    prompts_per_group=4,
    prefix_tokens=768,
    question_tokens=64,
    output_tokens=16,
    concurrency=4,
    seed=0,
)
PROVENANCE = {
    "revision": "0123456789abcdef0123456789abcdef01234567",
    "packages": {"sglang": "0.5.23+hiqcache.1", "torch": "2.13.0+cpu", "hiqcache": "0.1.0"},
    "python": "3.11.7",
    "processor": "Synthetic CPU",
    "cores": 2,
    "load": 1.3,
}


def l2_tokens(configuration: str) -> int:
    """Tokens of an L2 that has the bytes of the raw one."""
    if configuration not in BYTES:
        return 0
    return RAW_TOKENS * BYTES["raw"] // BYTES[configuration] // 64 * 64


def synthetic_run(
    configuration: str = "raw",
    repeat: int = 0,
    *,
    experiment: str = "equal-bytes",
    workload: Workload = WORKLOAD,
    slowness: float = 1.0,
    seed: int = 0,
) -> Record:
    """Draw a run.

    Parameters
    ----------
    configuration, repeat, experiment, workload
        What it says that it is.
    slowness
        Factor of all of its times.
    seed
        Of the draw, beside what the run is.
    """
    draw = np.random.default_rng([seed, repeat, *configuration.encode()])
    held = min(1.0, (L1_TOKENS + l2_tokens(configuration)) / workload.working_set_tokens)
    found = np.clip(0.02 + 0.95 * held + draw.normal(0, 0.004), 0, 1)
    requests = tuple(_requests(workload, float(found), slowness, configuration, draw))
    tokens = l2_tokens(configuration)
    pool = Pool(tokens, tokens * BYTES[configuration], BYTES[configuration]) if tokens else None
    setup = Setup(
        experiment, configuration, "bytes", L1_TOKENS, 64, tokens,
        "write_through", "synthetic-135m", workload,
    )  # fmt: skip
    position = repeat * 10 + (repeat + len(configuration)) % 10
    return Record(
        setup=setup,
        repeat=repeat,
        position=position,
        started=f"2026-01-02T03:{position % 60:02}:05+00:00",
        invalid=None,
        provenance={**PROVENANCE, "load": round(1 + float(draw.random()), 2)},
        server_command=(
            "/usr/bin/python3", "-m", "sglang.launch_server", "--model-path", "/models/synthetic",
            "--enable-hierarchical-cache", "--hicache-l2-codec", configuration,
        ),
        bench_command=("python", "-m", "sglang.bench_serving", "--seed", str(workload.seed)),
        pool=pool,
        limits=Limits(8192, 16384),
        counters=_counters(tokens, workload),
        gauges=_gauges(tokens, workload),
        seconds=workload.requests * 0.9 * slowness * (1.4 - float(found)),
        requests=requests,
        log_tail=("The server is fired up and ready to roll!",),
        l2_use=(0.0, float(tokens)) if tokens else (),
    )  # fmt: skip


def _requests(
    workload: Workload, found: float, slowness: float, configuration: str, draw: Any
) -> Iterator[Request]:
    """Draw requests; those that find their prefix have their first token sooner."""
    for at in range(workload.requests):
        hit = draw.random() < found * workload.prompt_tokens / workload.prefix_tokens
        kept = workload.prefix_tokens if hit else 0
        in_l1 = kept and (configuration == "none" or draw.random() < 0.12)
        mean = 0.38 if hit else 1.3
        yield Request(
            group=at % workload.groups,
            prompt_tokens=workload.prompt_tokens,
            output_tokens=workload.output_tokens,
            device_tokens=kept if in_l1 else 0,
            host_tokens=0 if in_l1 else kept,
            ttft_s=round(slowness * mean * float(draw.lognormal(0, 0.25)), 5),
            itl_s=tuple(
                round(slowness * 0.06 * float(draw.lognormal(0, 0.2)), 5)
                for _ in range(workload.output_tokens - 1)
            ),
        )


def _gauges(tokens: int, workload: Workload) -> dict[str, float]:
    used = min(tokens, workload.working_set_tokens) * 63 // 64
    found = {"used_tokens": used, "total_tokens": tokens} if tokens else {}
    return {f"sglang:hicache_host_{name}": float(value) for name, value in found.items()}


def _counters(tokens: int, workload: Workload) -> dict[str, float]:
    if not tokens:
        return {"sglang:evicted_tokens_total": 60_000.0}
    dropped = max(0, workload.working_set_tokens - tokens) // 3
    return {
        "sglang:evicted_tokens_total": 60_000.0,
        "sglang:hicache_backup_tokens_total": 30_000.0,
        'sglang:hicache_dropped_tokens_total{reason="host_pressure"}': float(dropped),
        'sglang:hicache_dropped_tokens_total{reason="write_through_unbacked_eviction"}': 64.0,
    }


def synthetic_runs(
    configurations: Sequence[str] = CONFIGURATIONS, repeats: int = REPEATS, **options: Any
) -> list[Record]:
    """Draw an experiment, in which the configurations take turns."""
    return [
        synthetic_run(name, repeat, **options)
        for repeat in range(repeats)
        for name in configurations
    ]


def synthetic_sweep() -> list[Record]:
    """Draw an experiment with several working sets."""
    return [
        run
        for groups in (8, 16, 24, 32, 48)
        for run in synthetic_runs(
            experiment="working-set", workload=replace(WORKLOAD, groups=groups), repeats=3
        )
    ]


def write_runs(folder: Path, runs: Sequence[Record]) -> Path:
    """Write runs, each experiment and working set into a folder of its own."""
    for run in runs:
        place = folder / f"{run.setup.experiment}-{run.setup.workload.groups}"
        place.mkdir(parents=True, exist_ok=True)
        run.write(place)
    return folder


def synthetic_restore() -> dict[str, Any]:
    """Draw a measurement of restores."""
    draw = np.random.default_rng(0)
    rows = []
    for name in CONFIGURATIONS:
        for tokens in (256, 512, 1024, 2048, 4096):
            cold = 0.1 + tokens / 900 + (tokens / 6000) ** 2
            warm = cold if name == "none" else 0.12 + tokens / (9000 if name == "raw" else 7000)
            rows.append({
                "configuration": name,
                "prefix_tokens": tokens,
                "ttft_s": [warm * float(draw.lognormal(0, 0.05)) for _ in range(5)],
                "cold_ttft_s": [cold * float(draw.lognormal(0, 0.05)) for _ in range(5)],
                "phases": {} if name == "none" else {
                    "move_s": [tokens / 2e5] * 5,
                    "decode_s": [tokens / 5e4 if name == "int8" else None] * 5,
                },
                "bytes": BYTES.get(name, 0) * tokens or None,
            })  # fmt: skip
    return {
        "schema": 2, "kind": "restore", "model": "synthetic-135m", "provenance": PROVENANCE,
        "rows": rows,
    }  # fmt: skip


def write_json(file: Path, found: Any) -> Path:
    """Write what a tool would have written."""
    file.write_text(json.dumps(found if isinstance(found, dict) else asdict(found)))
    return file


#: Values of each sweep.
SWEEPS = {
    "working-set": (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0),
    "budget": (8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0),
    "prefix": (128.0, 256.0, 512.0, 768.0, 1024.0, 2048.0, 4096.0),
    "concurrency": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
}


def synthetic_simulation(
    varied: str = "working-set", formats: Sequence[str] = CONFIGURATIONS
) -> dict[str, Any]:
    """Draw a sweep, in the form of tools/simulate.py."""
    points = []
    for value in SWEEPS[varied]:
        for name in formats:
            tokens = l2_tokens(name) * (int(value) if varied == "budget" else 1)
            wanted = value * l2_tokens("raw") if varied == "working-set" else 200_000 / value**0.5
            points.append(_point(value, name, tokens, wanted))
    server = {"l1_tokens": L1_TOKENS, "page_size": 64, "write_policy": "write_through"}
    return {
        "model": "synthetic-135m", "tp": 1, "varied": varied, "points": points,
        "values": list(SWEEPS[varied]), "ceilings": [92.0] * len(SWEEPS[varied]),
        "scene": {"workload": asdict(WORKLOAD), "server": server, "size_gb": 0.3},
    }  # fmt: skip


def _point(value: float, name: str, tokens: int, wanted: float) -> dict[str, Any]:
    rate = 2 + 90 * min(1.0, (L1_TOKENS + tokens) / wanted)
    return {
        "value": value, "format": name, "l2_tokens": tokens, "hit_rate": rate,
        "lowest": rate - 1, "highest": rate + 1, "device_rate": 2.0, "host_rate": rate - 2,
        "restored_tokens": 1.0, "backed_up_tokens": 1.0, "l1_evicted_tokens": 1.0,
        "l2_evicted_tokens": 1.0,
    }  # fmt: skip


def synthetic_validation() -> dict[str, Any]:
    """Draw runs beside their simulation, in the form of tools/simulate.py."""
    runs = [
        {
            "name": f"00{at}-{name}-0.json",
            "configuration": name,
            "simulated": 50.0 + at,
            "engine": 50.2,
        }
        for at, name in enumerate(CONFIGURATIONS)
    ]
    return {"tolerated": 1.5, "runs": runs}
