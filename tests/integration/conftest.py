"""Tests on a patched SGLang: its own pools, radix cache, controller, transfer engine and engine.

They run in an environment that has the patched wheel (``tox -e integration``) and say so where it
is missing. ``HIQ_FAULT`` breaks the shipped code path on purpose; see ``faults.py``.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")

PLUGIN = Path(__file__).parent / "plugin"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Collect these tests only where the patched SGLang is installed."""
    patched = find_spec("sglang") and find_spec("sglang.srt.mem_cache.pool_host.l2_codec")
    return None if patched else True


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def raw_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the identity codec a choice, as a package that brings its own codec would."""
    monkeypatch.syspath_prepend(str(PLUGIN))
