"""The tools as a user starts them: scripts of a project of its own, as processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from stack_world import Outcome, World
from stopping import PATIENCE, members, wait_until

from patchstack.context import ROOT

GIT = shutil.which("git") or "git"
# As far as git goes: stop where a test wants it, until the test lets go or for ever.
WRAPPER = """\
#!/bin/sh
case " $* " in
    *" {command} "*)
        echo $$ >> '{folder}/held'
        while [ -e '{folder}/hold' ]; do sleep 0.05; done ;;
esac
exec '{git}' "$@"
"""


@dataclass
class Started:
    """A tool that runs.

    Parameters
    ----------
    process
        Its process, the first of a group of its own.
    """

    process: subprocess.Popen[str]

    def end(self) -> Outcome:
        """Wait for it and return what it said."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return Outcome(self.process.returncode, out, err)

    def stop(self, number: signal.Signals) -> Outcome:
        """Send a signal to the tool alone, not to its children, and wait for it."""
        self.process.send_signal(number)
        return self.end()

    def children(self) -> dict[int, str]:
        """Return the living processes that it started."""
        found = members(self.process.pid)
        found.pop(self.process.pid, None)
        return found


@dataclass
class Scripts:
    """A project with the tools in it.

    Parameters
    ----------
    world
        The project.
    folder
        Where programs go that stand in front of others.
    running
        What was started.
    """

    world: World
    folder: Path
    running: list[Started] = field(default_factory=list)

    def start(
        self,
        tool: str,
        *arguments: str,
        cwd: Path | None = None,
        before: tuple[str, ...] = (),
        **variables: str | None,
    ) -> Started:
        """Start a tool; a variable that is None is taken away."""
        self.world.before_each_run()
        environment = {**os.environ, "HIQCACHE_CACHE": str(self.world.context.cache)}
        environment["PATH"] = f"{self.folder}{os.pathsep}{environment['PATH']}"
        for name, value in variables.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        script = self.world.root / "tools" / tool
        process = subprocess.Popen(
            [*before, sys.executable, str(script), *arguments],
            cwd=cwd or self.folder, env=environment, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.running.append(Started(process))
        return self.running[-1]

    def run(
        self,
        tool: str,
        *arguments: str,
        cwd: Path | None = None,
        before: tuple[str, ...] = (),
        **variables: str | None,
    ) -> Outcome:
        """Run a tool to its end."""
        return self.start(tool, *arguments, cwd=cwd, before=before, **variables).end()

    @contextmanager
    def held_at(self, command: str) -> Iterator[None]:
        """Let every git wait before it does ``command``, until the block ends."""
        wrapper, hold = self.folder / "git", self.folder / "hold"
        hold.touch()
        wrapper.write_text(WRAPPER.format(command=command, folder=self.folder, git=GIT))
        wrapper.chmod(0o755)
        try:
            yield
        finally:
            hold.unlink()
            wrapper.unlink()

    def wait_for_git(self) -> None:
        """Wait until a git is where it is held."""
        wait_until((self.folder / "held").exists, "git is held")


def make_scripts(world: World, folder: Path) -> Scripts:
    """Put the tools into the project of ``world``."""
    tools = world.root / "tools"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tools" / "patchstack", tools / "patchstack", ignore=ignored)
    for path in (ROOT / "tools").glob("*.py"):
        shutil.copy(path, tools)
    folder.mkdir()
    return Scripts(world, folder)


@pytest.fixture
def scripts(world: World, tmp_path: Path) -> Iterator[Scripts]:
    """Return a project with the tools in it, all of which have ended after the test."""
    scripts = make_scripts(world, tmp_path / "programs")
    yield scripts
    for started in scripts.running:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


def no_leavings(world: World) -> None:
    """Assert that no temporary folder of ours is left anywhere."""
    for folder in (world.root, world.context.cache):
        assert list(folder.rglob("*hiqcache-????????")) == []
