"""SGLang's mover and its encoded host pool, asked in a process of their own.

SGLang's import prints, takes a while, starts compilers, and can end a process where a library does
not fit; none of that should end the report.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from machine.asked import Asked
from machine.devices import Torch
from machine.finding import Finding, failed, passed, skipped
from machine.installed import Installed
from patchstack.children import ended, supervised
from serving.server import last_words

MOVER, ROUND_TRIP = "mover", "round trip"
_PROCESS = Path(__file__).with_name("pool_process.py")
_NEXT_STEPS = {
    MOVER: "see compilers; SGLang would fall back on slower copies",
    ROUND_TRIP: "do not serve with a codec here; tox -e integration tells more",
}
#: A minute of imports on a busy machine, and nvcc for several kernels.
_PATIENCE_S = 900.0


def check_pool(asked: Asked, torch: Torch, installed: Installed) -> Iterator[Finding]:
    """Whether SGLang's mover compiles for the codec's rows, and a pool restores what it stored.

    Parameters
    ----------
    asked : Asked
        What is to be served.
    torch : Torch
        What torch sees.
    installed : Installed
        What this interpreter imports.
    """
    steps = [MOVER, ROUND_TRIP]
    if not installed.patched:
        for step in steps:
            yield skipped(step, "no patched SGLang here", "see sglang")
        return
    if not torch.devices:
        yield skipped(steps.pop(0), "no CUDA device to compile SGLang's mover for", "see devices")
    yield from ask(asked, "cuda" if torch.devices else "cpu", steps)


def ask(asked: Asked, device: str, steps: list[str]) -> list[Finding]:
    """Start the process, and return what it says to each step."""
    rank = asked.served.rank
    question = {
        "codec": asked.codec,
        "layers": rank.layers,
        "kv_heads": rank.kv_heads,
        "head_dim": rank.head_dim,
        "v_head_dim": rank.v_head_dim,
        "page_size": rank.page_size,
        "device": device,
        "steps": steps,
    }
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        answers, why = _answers(question, log)
        why = why or f"SGLang's process ended: {last_words(log)}"
    return [_finding(step, answers.get(step), why) for step in steps]


def _answers(question: dict[str, object], log: Path) -> tuple[dict[str, dict[str, str]], str]:
    """Return what the process said by step, and why it was stopped, if it was."""
    # -P: the modules beside that one are nobody's to import by their short names.
    command = supervised([sys.executable, "-P", str(_PROCESS), json.dumps(question)])
    on_cpu = {"SGLANG_USE_CPU_ENGINE": "1"} if question["device"] == "cpu" else {}
    why = ""
    with log.open("wb") as errors, log.with_name("answers").open("w+") as lines:
        process = subprocess.Popen(
            command, env={**os.environ, **on_cpu}, stdin=subprocess.DEVNULL,
            stdout=lines, stderr=errors,
        )  # fmt: skip
        try:
            with ended(process):
                process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            why = f"SGLang's process was not done in {_PATIENCE_S:.0f} s"
        lines.seek(0)
        answers = [json.loads(line) for line in lines]
    return {answer["step"]: answer for answer in answers}, why


def _finding(step: str, answer: dict[str, str] | None, without: str) -> Finding:
    if answer is None:
        return failed(step, without, "install what SGLang requires, and see requirements")
    if "failed" in answer:
        return failed(step, answer["failed"], _NEXT_STEPS[step])
    return passed(step, answer["said"])
