"""What an experiment should show, by simulation, before minutes are spent on it."""

from __future__ import annotations

from collections.abc import Mapping

from evidence.record import NO_L2, RAW
from evidence.running import Experiment
from simulator.engine import simulate
from simulator.server import Server
from simulator.trace import generated

#: Hit rates that differ by less are not told apart: twice what simulation and engine may differ by.
_TOLD_APART = 0.04
#: ``--chunked-prefill-size`` of SGLang without a GPU, and on GPUs of 20 to 60 GB.
_CHUNK_TOKENS = 4096


def expected(experiment: Experiment) -> list[tuple[int, dict[str, float]]]:
    """Return hit rates by configuration, for each workload's working set in tokens."""
    scale, case = experiment.scale, experiment.case
    workloads = case.workloads(scale)
    most = max(workload.concurrency for workload in workloads)
    l2s = {name: experiment.l2(name) for name in case.configurations}
    return [
        (
            workload.working_set_tokens,
            {
                name: simulate(
                    Server(
                        scale.l1_tokens,
                        l2.tokens if l2 else 0,
                        scale.page_size,
                        case.write_policy,
                        _CHUNK_TOKENS,
                        max_running=most,
                    ),
                    generated(workload),
                    workload.concurrency,
                ).hit_rate
                for name, l2 in l2s.items()
            },
        )
        for workload in workloads
    ]


def sentence(working_set: int, rates: Mapping[str, float]) -> str:
    """Say whether a workload tells the L2s apart, and if not, what is wrong with its size."""
    told = ", ".join(f"{name} {rate:.0%}" for name, rate in rates.items())
    return f"prefixes of {working_set:,} tokens, hit rates by simulation: {told}; {verdict(rates)}"


def verdict(rates: Mapping[str, float]) -> str:
    """Say what the rates differ by."""
    encoded = [rate for name, rate in rates.items() if name not in (NO_L2, RAW)]
    if RAW not in rates or not encoded:
        return "there is no raw L2 beside an encoded one"
    best = max(encoded)
    if best - rates[RAW] >= _TOLD_APART:
        return f"the L2s are told apart by {100 * (best - rates[RAW]):.0f} points"
    floor = rates.get(NO_L2, 0.0)
    if rates[RAW] - floor < _TOLD_APART:
        return "too large: no L2 keeps a prefix until it is asked for again"
    return "too small, or of equal tokens: the raw L2 restores as much as the encoded ones"
