"""The three runs of one workload: without L2, with a raw one, with an encoded one as large."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from serving.environment import this_environment
from serving.experiment import run_workload
from serving.l2 import L2, DevicePool, equal_l2s
from serving.launch import Serving, sglang_launch
from serving.model import model_geometry
from serving.progress import Progress
from serving.results import Comparison
from serving.text import encoded_topics
from serving.workload import Expectation, Scale, Workload, draw_workload, expect


@dataclass(frozen=True)
class Plan:
    """A comparison that is worth its time."""

    model: Path
    workload: Workload
    expectation: Expectation
    raw: L2
    encoded: L2


def plan_comparison(model: Path, codec: str, scale: Scale, seed: int) -> Plan:
    """Draw the workload and size the L2s.

    Raises
    ------
    ToolError
        If the workload could not tell the L2s apart.
    """
    device = DevicePool(scale.l1_tokens, scale.page_size)
    raw, encoded = equal_l2s(
        model_geometry(model, scale.page_size), codec, scale.raw_l2_tokens, device
    )
    workload = draw_workload(scale, encoded_topics(model), seed)
    return Plan(model, workload, expect(workload, raw.tokens, encoded.tokens), raw, encoded)


def carry_out(plan: Plan, folder: Path, progress: Progress) -> Comparison:
    """Serve the workload on one server after another.

    Parameters
    ----------
    plan
        What to compare.
    folder
        Where the servers' logs go.
    progress
        Told about every step.
    """
    environment = this_environment()
    scale = plan.workload.scale
    serving = Serving(plan.model, scale.l1_tokens, scale.page_size)
    l2s = {"none": None, "raw": plan.raw, plan.encoded.codec: plan.encoded}
    none, raw, encoded = (
        run_workload(sglang_launch(name, serving, l2, folder), plan.workload, progress)
        for name, l2 in l2s.items()
    )
    return Comparison(
        plan.model.name, environment, plan.workload, plan.expectation, none, raw, encoded
    )
