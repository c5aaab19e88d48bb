"""tools/quality.py on real servers: what it measures, and what it must not call a result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from patchstack.errors import Exit
from serving.l2 import L2, NO_CODEC, DevicePool
from serving.launch import Serving, sglang_launch
from serving.server import running

from .conftest import PLUGIN

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "quality.py"
REQUESTS, PREFIX_TOKENS = 4, 384
L1_TOKENS, L2_TOKENS, PAGE_SIZE = 896, 3584, 16
#: Mean |logprob difference| that int8 stays below and a broken codec does not, and the largest.
MEAN_BOUND, WORST_BOUND = 0.1, 1.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="these servers are started on a CPU"),
]

Start = Callable[..., AbstractContextManager[str]]
#: Brings the identity codec and the faults.
PATH = [str(ROOT), str(PLUGIN)]


@pytest.fixture(scope="module")
def start(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Start a server with an L2, and give its address."""
    folder = tmp_path_factory.mktemp("servers")

    @contextmanager
    def run(codec: str, *options: str, fault: str = "") -> Iterator[str]:
        l2 = L2.by_ratio(codec, L2_TOKENS / L1_TOKENS, DevicePool(L1_TOKENS, PAGE_SIZE))
        launch = sglang_launch(codec, Serving(model, L1_TOKENS, PAGE_SIZE), l2, folder)
        path = os.pathsep.join([*PATH, launch.environment["PYTHONPATH"]])
        changed = replace(
            launch,
            command=(*launch.command, *options),
            environment={**launch.environment, "PYTHONPATH": path, "HIQ_FAULT": fault},
        )
        with running(changed) as server:
            server.wait_until_ready()
            yield launch.url

    return run


@pytest.fixture(scope="module")
def raw_url(start: Start) -> Iterator[str]:
    """A server that stays, with a raw L2."""
    with start(NO_CODEC) as url:
        yield url


def quality(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the tool with its result on standard output."""
    path = os.pathsep.join(filter(None, [*PATH, os.environ.get("PYTHONPATH", "")]))
    sized = ["--requests", REQUESTS, "--prefix-tokens", PREFIX_TOKENS, "--json"]
    return subprocess.run(
        [sys.executable, TOOL, *map(str, (*sized, *arguments))],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )


def codecs(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The results by codec, each of restored requests alone."""
    assert done.returncode == Exit.DONE, done.stderr
    found = json.loads(done.stdout)["codecs"]
    for codec in found.values():
        assert codec["restored"] == codec["computed_alike"] == REQUESTS
        for request in codec["requests"]:
            assert request["raw_device"] == request["codec_device"] == 0
            assert request["raw_host"] == request["codec_host"] == PREFIX_TOKENS
    return found


def test_servers_that_are_started_here(model):
    found = codecs(quality("--model", model, "--codec", "raw,int8"))
    raw, int8 = found["raw"]["figures"], found["int8"]["figures"]
    assert raw["max"]["value"] == 0
    assert raw["tokens_32"]["value"] == raw["per_token"]["value"] == 1
    assert found["raw"]["positions"] == REQUESTS * 48
    assert 0 < int8["mean"]["value"] <= MEAN_BOUND
    assert int8["max"]["value"] <= WORST_BOUND


@pytest.mark.parametrize("fault", ["drop_load", "coarse"])
def test_a_worse_restore_is_seen(start, raw_url, fault):
    """Negative controls: slots without their KV, and a codec of four bits."""
    with start("int8", fault=fault) as url:
        found = codecs(quality("--raw-url", raw_url, "--codec-url", url))
    figures = found["int8"]["figures"]
    assert figures["mean"]["low"] > MEAN_BOUND
    assert figures["tokens_32"]["value"] < 1


def test_a_server_that_restores_nothing_is_no_result(start, raw_url):
    # A prefix that was used once is not written to L2 then.
    with start("int8", "--hicache-write-policy", "write_through_selective") as url:
        done = quality("--raw-url", raw_url, "--codec-url", url)
    assert (done.returncode, done.stdout) == (Exit.FINDINGS, "")
    assert f"no result: 0 of {REQUESTS} requests were restored from the L2 of {url}" in done.stderr
