"""Runs at once, and runs that are stopped: each waits its turn, and none leaves a child behind.

Complaint row 38.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from script_world import Scripts, Started, no_leavings
from stack_world import World, git
from stopping import wait_until

SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def says(started: Started, word: str) -> str:
    """Wait for a line of progress that holds ``word``, and return it."""
    lines: list[str] = []
    found = threading.Event()

    def read() -> None:
        assert started.process.stderr is not None
        for line in started.process.stderr:
            lines.append(line)
            if word in line:
                found.set()
                return

    threading.Thread(target=read, daemon=True).start()
    wait_until(found.is_set, f"{word} in {lines}")
    return lines[-1]


def test_a_second_run_on_one_target_waits_whatever_its_cache(
    scripts: Scripts, tmp_path: Path
) -> None:
    world = scripts.world
    shared = {"PYTHONDONTWRITEBYTECODE": "1"}
    with scripts.held_at("pack-objects"):
        first = scripts.start("apply.py", "--rev", "pin", **shared)
        scripts.wait_for_git()
        other = {**shared, "HIQCACHE_CACHE": str(tmp_path / "cache2")}
        second = scripts.start("apply.py", "--rev", "pin", **other)
        line = says(second, "waiting for another run to end")
        assert str(world.root) in line, "it says where"
        assert not world.target.exists()
    assert first.end().code == 0
    assert second.end().code == 0
    assert git(world.target, "rev-list", "--count", "HEAD") == "4"
    assert git(world.target, "status", "--porcelain") == ""
    no_leavings(world)


def test_export_waits_for_apply_on_the_same_tree(scripts: Scripts) -> None:
    world = scripts.world
    world.applied()
    git(world.target, "checkout", "--quiet", "--detach", "HEAD~1")
    git(world.target, "update-ref", "refs/hiqcache/head", "HEAD")
    with scripts.held_at("pack-objects"):
        first = scripts.start("apply.py", "--rev", "pin")
        scripts.wait_for_git()
        second = scripts.start("export.py", "--rev", "pin")
        says(second, "waiting for another run to end")
    assert first.end().code == 0
    outcome = second.end()
    assert outcome.code == 0, outcome.err
    assert git(world.target, "rev-list", "--count", "HEAD") == "4"


def test_two_targets_and_one_cache(scripts: Scripts, tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    started = [scripts.start("apply.py", "--rev", "pin", "--target", str(p)) for p in places]
    for run in started:
        outcome = run.end()
        assert outcome.code == 0, outcome.err
    for place in places:
        assert git(place, "status", "--porcelain") == ""


def stopped(scripts: Scripts, run: Started, number: signal.Signals) -> None:
    """Stop a tool whose child is busy, and assert that nothing lives on or is left half done."""
    world = scripts.world
    assert run.children(), "there is a child to outlive it"
    outcome = run.stop(number)
    wait_until(lambda: not run.children(), f"children of a tool that got {number!r} end")
    if number is signal.SIGKILL:
        assert outcome.code == -signal.SIGKILL
        return
    assert outcome.code == 130, outcome
    assert outcome.err.splitlines()[-1].endswith(": interrupted")
    assert "Traceback" not in outcome.err
    no_leavings(world)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", ["pack-objects", "mailinfo"])
def test_git_does_not_outlive_apply(scripts: Scripts, number: signal.Signals, command: str) -> None:
    with scripts.held_at(command):
        run = scripts.start("apply.py", "--rev", "pin")
        scripts.wait_for_git()
        stopped(scripts, run, number)
    assert not scripts.world.target.exists()
    assert scripts.run("apply.py", "--rev", "pin").code == 0
    no_leavings(scripts.world)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_git_does_not_outlive_export(scripts: Scripts, number: signal.Signals) -> None:
    scripts.world.applied()
    with scripts.held_at("format-patch"):
        run = scripts.start("export.py", "--rev", "pin")
        scripts.wait_for_git()
        stopped(scripts, run, number)
    assert scripts.run("export.py", "--rev", "pin").code == 0
    no_leavings(scripts.world)


@dataclass
class Silence:
    """A server that takes a connection and never answers."""

    socket: socket.socket
    asked: threading.Event

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"


@pytest.fixture
def silence() -> Iterator[Silence]:
    """Return a server that keeps whoever asks it waiting."""
    server = Silence(socket.create_server(("127.0.0.1", 0)), threading.Event())
    kept = []

    def listen() -> None:
        try:
            while True:
                kept.append(server.socket.accept()[0])
                server.asked.set()
        except OSError:
            return  # closed

    threading.Thread(target=listen, daemon=True).start()
    yield server
    server.socket.close()
    for connection in kept:
        connection.close()


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_pip_does_not_outlive_apply(
    scripts: Scripts, silence: Silence, tmp_path: Path, number: signal.Signals
) -> None:
    run = scripts.start(
        "apply.py", "--rev", "pin", HIQCACHE_CACHE=str(tmp_path / "empty"), PIP_NO_INDEX=None,
        PIP_FIND_LINKS=None, PIP_INDEX_URL=f"{silence.address}/simple", no_proxy="127.0.0.1",
    )  # fmt: skip
    wait_until(silence.asked.is_set, "pip asks the index")
    stopped(scripts, run, number)
    if number is not signal.SIGKILL:
        assert list((tmp_path / "empty").rglob("*hiqcache-*")) == []
    outcome = scripts.run("apply.py", "--rev", "pin", HIQCACHE_CACHE=str(tmp_path / "empty"))
    assert outcome.code == 0, outcome.err
    assert list((tmp_path / "empty").rglob("*hiqcache-*")) == []


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_fetch_does_not_outlive_apply(
    scripts: Scripts, silence: Silence, number: signal.Signals
) -> None:
    """Git starts a helper of its own for http: a grandchild."""
    source = ("--source", f"git:{silence.address}/sglang.git")
    run = scripts.start(
        "apply.py", "--rev", "pin", *source, no_proxy="127.0.0.1", GIT_ALLOW_PROTOCOL="http"
    )
    wait_until(silence.asked.is_set, "git asks the server")
    stopped(scripts, run, number)
    assert not scripts.world.target.exists()


def test_a_child_without_the_binding_does_outlive(world: World, scripts: Scripts) -> None:
    """The control of the tests above: take the binding out, and a killed tool leaves its git."""
    module = world.root / "tools" / "patchstack" / "children.py"
    text = module.read_text()
    assert text.count("prctl(_PR_SET_PDEATHSIG") == 1
    module.write_text(
        text.replace("prctl(_PR_SET_PDEATHSIG", "(lambda *_: None)(_PR_SET_PDEATHSIG")
    )
    with scripts.held_at("pack-objects"):
        run = scripts.start("apply.py", "--rev", "pin")
        scripts.wait_for_git()
        run.stop(signal.SIGKILL)
        assert run.children()
    wait_until(lambda: not run.children(), "the orphan ends by itself")
