"""Tests on a patched SGLang: its own pools, radix cache, controller, transfer engine and engine.

They run on CUDA where there is a device and on a CPU elsewhere, in an environment that has the
patched wheel (``tox -e integration``), and say so where it is missing. ``HIQ_FAULT`` breaks the
shipped code path on purpose; see ``faults.py``.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from cpu_runtime.model import prepare_model

PLUGIN = Path(__file__).parent / "plugin"
PATCHED = bool(find_spec("sglang") and find_spec("sglang.srt.mem_cache.pool_host.l2_codec"))

if PATCHED:
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Collect these tests only where the patched SGLang is installed."""
    return None if PATCHED else True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and what would run it."""
    if not PATCHED:
        terminalreporter.write_line(
            "SKIPPED tests/integration: this environment has no patched SGLang "
            "(tox -e integration makes one for a CPU)"
        )


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def raw_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the identity codec a choice, as a package that brings its own codec would."""
    monkeypatch.syspath_prepend(str(PLUGIN))


@pytest.fixture(autouse=True)
def _memory_for_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give host pools 4 GB: what other processes of a machine hold is not these tests' subject."""
    from .releases import limit_host_memory

    limit_host_memory(monkeypatch, 4 * 10**9)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real model, from the cache where there is one."""
    if "HIQCACHE_CACHE" in os.environ:
        base = Path(os.environ["HIQCACHE_CACHE"]) / "models"
    else:
        base = tmp_path_factory.mktemp("models")
    return prepare_model(base / "smollm2-135m-instruct")
