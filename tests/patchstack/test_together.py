"""Two runs at once: the second waits, and neither spoils the other's work."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from stack_world import World, git

from patchstack.applying import Request, Result, apply_revision
from patchstack.report import Progress

pytestmark = pytest.mark.usefixtures("isolated")
PATIENCE = 60.0


@dataclass(frozen=True)
class Listener(Progress):
    """Progress that a test can wait for."""

    lines: list[str] = field(default_factory=list)
    waiting: threading.Event = field(default_factory=threading.Event)

    def say(self, line: str) -> None:
        """Keep the line."""
        self.lines.append(line)
        if line.startswith("waiting"):
            self.waiting.set()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold a folder as another run would."""
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def start(world: World, target: Path, heard: Listener, results: list[Result]) -> threading.Thread:
    """Apply beside the test."""

    def work() -> None:
        results.append(apply_revision(world.context, Request("pin", target), heard))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_second_run_waits_for_the_first(world: World) -> None:
    listener, results = Listener(), list[Result]()
    with folder_lock(world.context.cache):
        run = start(world, world.target, listener, results)
        assert listener.waiting.wait(PATIENCE)
        assert not world.target.exists()
    run.join(PATIENCE)
    assert [result.path for result in results] == [world.target]


def test_runs_at_once_make_one_tree(fresh: World, tmp_path: Path) -> None:
    """With an empty cache: one of them fetches and imports, and the last ones find it done."""
    targets = [fresh.target, fresh.target, tmp_path / "elsewhere"]
    listeners = [Listener() for _ in targets]
    results: list[Result] = []
    runs = [
        start(fresh, target, listener, results)
        for target, listener in zip(targets, listeners, strict=True)
    ]
    for run in runs:
        run.join(PATIENCE)
    assert len(results) == 3
    said = [line for listener in listeners for line in listener.lines]
    assert sum(line.startswith("fetching") for line in said) == 1
    assert sum(line.endswith("is up to date") for line in said) == 1
    for target in set(targets):
        assert git(target, "status", "--porcelain") == ""
        assert list(target.parent.glob(".*")) == []
