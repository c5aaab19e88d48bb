"""The real engine on a CPU: answers to requests whose prefix came back from L2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch

from .conftest import PLUGIN
from .engine_run import PREFIX_TOKENS, PREFIXES, SUFFIX_TOKENS

ROOT = Path(__file__).parents[2]

#: |logprob difference| of a format's restore to a raw-L2 hit of the same length: mean and largest
#: over the teacher-forced tokens of the suffixes. The engine computes in BF16, whose own noise
#: against float32 is of the same order as that of eight bits.
BOUNDS = {
    "int8": (0.1, 1.0),
    "int8-hadamard": (0.1, 1.0),
    "k8v4": (0.15, 1.5),
    "int4": (0.25, 2.5),
}
#: Host bytes of a token: 30 layers of 3 heads of 64 values, pages of 16.
BYTES_PER_TOKEN = {"int8": 12_000, "int8-hadamard": 12_000, "k8v4": 9_120, "int4": 6_240}

Answers = list[dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """What :mod:`tests.integration.engine_run` wrote."""

    answers: Answers
    counters: dict[str, float]

    def counter(self, name: str) -> float:
        """One of the engine's own, by its name without the prefix."""
        return self.counters[f"sglang:{name}"]


@pytest.fixture(scope="session")
def answers(model: Path, tmp_path_factory: pytest.TempPathFactory):
    """Run the engine with a codec, once for each codec and fault."""
    results = tmp_path_factory.mktemp("answers")

    @cache
    def run(codec: str, fault: str = "", model: Path = model, ranks: int = 1) -> Run:
        out = results / f"{codec}-{fault}-{ranks}.json"
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
        if ranks > 1:
            env["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(ranks)))
        options = ["--codec", codec, "--ranks", str(ranks), "--out", str(out)]
        process = subprocess.run(
            [*command, "--model", str(model), *options],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert process.returncode == 0, process.stderr[-4000:]
        return Run(**json.loads(out.read_text()))

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
    results = answers(codec).answers
    assert_restored(results)
    for answer in results:
        assert answer["host"]["output"] == answer["device"]["output"]
        assert answer["host"]["input"] == answer["device"]["input"]


def on_the_pin(*codecs: str) -> list[Any]:
    """Codecs whose adapter is the same as that of the first: enough on one release."""
    return [codecs[0], *(pytest.param(codec, marks=pytest.mark.pin) for codec in codecs[1:])]


@pytest.mark.slow
@pytest.mark.parametrize("codec", on_the_pin(*BOUNDS))
def test_a_restore_answers_within_the_bound_of_a_raw_one(codec, answers):
    encoded, raw = answers(codec), answers("none")
    assert_restored(encoded.answers)
    found = differences(encoded.answers, raw.answers)
    print(f"{codec}: mean {mean(found):.4f}, largest {max(found):.4f} over {len(found)} tokens")
    assert max(found) > 0  # the KV went through the codec
    assert mean(found) <= BOUNDS[codec][0]
    assert max(found) <= BOUNDS[codec][1]


@pytest.mark.slow
@pytest.mark.parametrize("codec", on_the_pin(*BOUNDS))
def test_the_bytes_that_moved_are_the_formats(codec, answers):
    run = answers(codec)
    size = BYTES_PER_TOKEN[codec]
    assert run.counter("hicache_codec_bytes_per_token") == size
    assert run.counter("hicache_codec_ratio") == pytest.approx(23_040 / size)
    # A ratio that is given counts tokens: 8 times the device pool's, and SGLang's one page more.
    assert run.counter("hicache_host_total_tokens") == 8 * 1024 + 16
    restored = run.counter("load_back_tokens_total")
    assert restored == PREFIXES * PREFIX_TOKENS
    assert run.counter("load_back_bytes_total") == restored * size
    assert run.counter("hicache_codec_decoded_bytes_total") == restored * size
    saved = run.counter("hicache_backup_bytes_total")
    assert saved == run.counter("hicache_backup_tokens_total") * size
    assert run.counter("hicache_codec_encoded_bytes_total") == saved
    # One observation for each transfer, whatever its layers and chunks.
    assert run.counter("hicache_codec_decode_seconds_count") == PREFIXES
    assert run.counter("hicache_codec_encode_seconds_count") >= PREFIXES
    assert run.counter("hicache_codec_decode_seconds_sum") > 0


@pytest.mark.slow
def test_without_a_codec_there_are_no_metrics_of_one(answers):
    assert not [name for name in answers("none").counters if "hicache_codec" in name]


@pytest.mark.slow
@pytest.mark.pin
@pytest.mark.parametrize("fault", ["drop_load", "coarse"])
def test_a_worse_restore_is_seen_in_the_answers(answers, fault):
    """Negative controls: slots without their KV, and a codec of four bits."""
    broken, raw = answers("int8", fault).answers, answers("none").answers
    assert_restored(broken)  # SGLang believes that it restored
    assert mean(differences(broken, raw)) > BOUNDS["int8"][0]


@pytest.fixture(scope="session")
def even_model(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model with 4 KV heads of 128 values, and the real one's tokenizer."""
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("even-model")
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=128,
        max_position_embeddings=8192,
        dtype="bfloat16",
    )
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.pin
def test_two_ranks_restore_their_heads(answers, even_model):
    raw = answers("raw", model=even_model, ranks=2)
    assert_restored(raw.answers)
    for answer in raw.answers:
        assert answer["host"]["input"] == answer["device"]["input"]
    int8 = answers("int8", model=even_model, ranks=2)
    assert_restored(int8.answers)
    assert 0 < max(differences(int8.answers, raw.answers)) <= BOUNDS["int8"][1]
    # Each rank keeps 2 heads of 128 values in 2 layers: 4,224 bytes for K of a page, as for V.
    assert int8.counter("hicache_codec_bytes_per_token") == 2 * 2 * 4_224 / 16
    # Both ranks count what they moved, and agree with SGLang's own counters.
    moved = 2 * PREFIXES * PREFIX_TOKENS * 1056
    assert int8.counter("load_back_bytes_total") == moved
    assert int8.counter("hicache_codec_decoded_bytes_total") == moved
