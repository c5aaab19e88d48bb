"""Several ranks on one host: each keeps its heads of the same pages, and none waits for another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hiqcache.codecs import make_codec
from hiqcache.geometry import KVGeometry

from .ranks import KV_HEADS, STEPS

ROOT = Path(__file__).parents[2]


def run_ranks(world: int, codec: str, folder: Path) -> list[dict]:
    """Start that many processes over gloo and return what each saw."""
    command = [sys.executable, "-m", "tests.integration.ranks", "--codec", codec]
    shared = ["--world", str(world), "--store", str(folder / "store")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))}
    outs = [folder / f"{rank}.json" for rank in range(world)]
    processes = [
        subprocess.Popen(
            [*command, *shared, "--rank", str(rank), "--out", str(out)],
            cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True,
        )
        for rank, out in enumerate(outs)
    ]  # fmt: skip
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-4000:]
    return [json.loads(out.read_text()) for out in outs]


@pytest.mark.pin
@pytest.mark.skipif(torch.cuda.is_available(), reason="the storm's model reads a CPU's pool")
@pytest.mark.parametrize("codec", ["int8", "k8v4"])
def test_two_ranks_keep_the_same_pages(codec, tmp_path):
    first, second = run_ranks(2, codec, tmp_path)
    assert first["ranks"] == second["ranks"]
    pages, tokens, size = first["ranks"][0]
    assert first["ranks"][1] == [pages, tokens, size]
    share = make_codec(codec, KVGeometry(2, KV_HEADS // 2, 64, page_size=16))
    whole = make_codec(codec, KVGeometry(2, KV_HEADS, 64, page_size=16))
    assert size == share.bytes_per_token
    assert first["arena"] == second["arena"] == tokens * size
    # Page by page the ranks agree on what is kept and where, after the same storm.
    assert first["taken"] == second["taken"]
    assert first["moved"] == second["moved"]
    assert min(first["moved"].values()) > STEPS / 8
    # Pages of 16 tokens leave little to pad, so two halves take little more than the whole.
    assert whole.bytes_per_token <= 2 * size <= 1.1 * whole.bytes_per_token
