"""The real engine on a CPU: answers to requests whose prefix came back from L2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from cpu_runtime.model import prepare_model

from .conftest import PLUGIN
from .engine_run import PREFIX_TOKENS, PREFIXES, SUFFIX_TOKENS

ROOT = Path(__file__).parents[2]

#: |logprob difference| of an INT8 restore to a raw-L2 hit of the same length: mean and largest over
#: the teacher-forced tokens of the suffixes. The engine computes in BF16, whose own noise against
#: float32 is of the same order as the codec's.
MEAN_BOUND, WORST_BOUND = 0.1, 1.0

Answers = list[dict[str, Any]]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real model, from the cache where there is one."""
    if "HIQCACHE_CACHE" in os.environ:
        base = Path(os.environ["HIQCACHE_CACHE"]) / "models"
    else:
        base = tmp_path_factory.mktemp("models")
    return prepare_model(base / "smollm2-135m-instruct")


@pytest.fixture(scope="session")
def answers(model: Path, tmp_path_factory: pytest.TempPathFactory):
    """Run the engine with a codec, once for each codec and fault."""
    results = tmp_path_factory.mktemp("answers")

    @cache
    def run(codec: str, fault: str = "") -> Answers:
        out = results / f"{codec}-{fault}.json"
        command = [sys.executable, "-m", "tests.integration.engine_run"]
        path = [str(ROOT), str(PLUGIN), os.environ.get("PYTHONPATH", "")]
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "SGLANG_USE_CPU_ENGINE": "1",
            "HF_HUB_OFFLINE": "1",
            # OpenMP threads that spin slow every other process of a small machine down.
            "OMP_WAIT_POLICY": "PASSIVE",
            "HIQ_FAULT": fault,
        }
        process = subprocess.run(
            [*command, "--model", str(model), "--codec", codec, "--out", str(out)],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert process.returncode == 0, process.stderr[-4000:]
        return json.loads(out.read_text())

    return run


def differences(got: Answers, reference: Answers) -> list[float]:
    """|logprob difference| of every teacher-forced suffix token, host hit against host hit."""
    pairs = [(g["host"]["input"], r["host"]["input"]) for g, r in zip(got, reference, strict=True)]
    return [abs(a - b) for g, r in pairs for a, b in zip(g, r, strict=True)]


def assert_restored(results: Answers) -> None:
    """Every prefix came from the device in one answer and from L2 in the other."""
    assert len(results) == PREFIXES
    for answer in results:
        assert answer["device"]["cached"] == {"device": PREFIX_TOKENS, "host": 0}
        assert answer["host"]["cached"] == {"device": 0, "host": PREFIX_TOKENS}
        assert len(answer["host"]["input"]) == SUFFIX_TOKENS - 1


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "raw"])
def test_a_raw_restore_answers_bitwise_like_a_device_hit(codec, answers):
    results = answers(codec)
    assert_restored(results)
    for answer in results:
        assert answer["host"]["output"] == answer["device"]["output"]
        assert answer["host"]["input"] == answer["device"]["input"]


@pytest.mark.slow
def test_an_int8_restore_answers_within_the_bound_of_a_raw_one(answers):
    int8, raw = answers("int8"), answers("none")
    assert_restored(int8)
    found = differences(int8, raw)
    print(f"mean {mean(found):.4f}, largest {max(found):.4f} over {len(found)} tokens")
    assert max(found) > 0  # the KV went through the codec
    assert mean(found) <= MEAN_BOUND
    assert max(found) <= WORST_BOUND


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["drop_load", "coarse"])
def test_a_worse_restore_is_seen_in_the_answers(answers, fault):
    """Negative controls: slots without their KV, and a codec of four bits."""
    broken, raw = answers("int8", fault), answers("none")
    assert_restored(broken)  # SGLang believes that it restored
    assert mean(differences(broken, raw)) > MEAN_BOUND
