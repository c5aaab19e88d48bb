"""``tools/preflight.py`` on a patched SGLang: its pool passes, and a broken one is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from machine import pool
from machine.asked import Asked, asked
from machine.finding import Finding

pytestmark = pytest.mark.pin

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: A module that Python imports by itself, so that the process of SGLang has the fault, too.
FAULTS = {
    "a load that leaves the rows as they were": "StagedTransfer.load = lambda *a, **k: None",
    "a backup that stores nothing": "StagedTransfer.backup = lambda *a, **k: None",
    "rows of other tokens": (
        "load = StagedTransfer.load\n"
        "StagedTransfer.load = lambda s, k, v, d, h, f: load(s, k, v, d.flip(0), h, f)"
    ),
}


def wanted(codec: str, page_size: int) -> Asked:
    return asked("qwen3-8b", codec, page_size, tp=1, nodes=1, size_gb=1)


def round_trip(codec: str = "int8-hadamard", page_size: int = 16) -> Finding:
    (finding,) = pool.ask(wanted(codec, page_size), DEVICE, [pool.ROUND_TRIP])
    return finding


@pytest.mark.parametrize(("codec", "page_size"), [("int8-hadamard", 64), ("k8v4", 1)])
def test_a_pool_restores_what_the_codec_makes(codec: str, page_size: int) -> None:
    finding = round_trip(codec, page_size)
    assert finding.status == "pass", finding
    assert "768 tokens through a EncodedMHATokenToKVPoolHost" in finding.said


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_broken_transfer_fails(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"from hiqcache.staging import StagedTransfer\n{fault}\n"
    (tmp_path / "sitecustomize.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    finding = round_trip()
    assert finding.status == "fail", finding
    assert "are not what the codec makes of them" in finding.said


def test_a_mover_that_sglang_does_not_compile_fails() -> None:
    """On a CPU SGLang compiles none."""
    (finding,) = pool.ask(wanted("int8", 64), DEVICE, [pool.MOVER])
    assert finding.status == ("pass" if DEVICE == "cuda" else "fail")
    assert "rows of 1,664 bytes" in finding.said
