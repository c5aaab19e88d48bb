"""``kill -9`` at any step of a rebase: the same command again gives what it would have given.

A child process runs the tool and ends itself, with SIGKILL, at one of its steps: a git command, or
a change of a name. Where the steps are is counted in a run that nothing disturbs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from rebase_world import FILES, NEXT, RebaseWorld, text
from stack_world import NAME, PYTHON, copy_tree, series_files, snapshot

from patchstack.context import Context

pytestmark = pytest.mark.slow

TEXT = f"{PYTHON}/srt/text.txt"
START = ("--from", NAME, "--onto", NEXT, "--offline")
TOOLS = Path(__file__).resolve().parents[2] / "tools"
CHILD = """\
import os, signal, sys
from pathlib import Path

steps, wanted = [], int(os.environ["KILL_AT"])

def step(kind, do):
    def run(*arguments, **keywords):
        steps.append(kind)
        if len(steps) == wanted and os.environ["KILL_WHEN"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = do(*arguments, **keywords)
        if len(steps) == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return run

from patchstack import repository
from patchstack.context import Context
import rebase

repository.execute = step("git", repository.execute)
os.rename, os.replace = step("rename", os.rename), step("replace", os.replace)
Path.unlink = step("unlink", Path.unlink)
root, cache = Path(os.environ["ROOT"]), Path(os.environ["CACHE"])
code = rebase.main(sys.argv[1:], Context(root, root / "patches", cache))
Path(os.environ["STEPS"]).write_text(" ".join(steps))
sys.exit(code)
"""


@dataclass(frozen=True)
class Project:
    """A project of its own, and a child that works on it."""

    folder: Path

    @property
    def root(self) -> Path:
        """The project."""
        return self.folder / "project"

    @property
    def context(self) -> Context:
        """Its paths."""
        return Context(self.root, self.root / "patches", self.folder / "cache")

    def run(self, *arguments: str, kill_at: int = 0, when: str = "before") -> int:
        """Run the tool in a child and return how it ended."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        clean |= {"KILL_AT": str(kill_at), "KILL_WHEN": when, "PYTHONPATH": str(TOOLS)}
        clean |= {"ROOT": str(self.root), "CACHE": str(self.context.cache)}
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *arguments], env=clean | {"STEPS": str(self.steps_file)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    @property
    def steps_file(self) -> Path:
        """Where the child counts its steps."""
        return self.folder / "steps"

    @property
    def steps(self) -> list[str]:
        """The steps of the last run."""
        return self.steps_file.read_text().split()

    @property
    def patches(self) -> dict[str, bytes]:
        """Everything under patches/, by name."""
        root = self.context.patches
        files = (path for path in sorted(root.rglob("*")) if path.is_file())
        return {str(path.relative_to(root)): path.read_bytes() for path in files}

    def copy(self, name: str) -> Project:
        """Return a copy."""
        other = Project(self.folder.parent / name)
        copy_tree(self.folder, other.folder)
        return other


def project_of(world: RebaseWorld, tmp_path: Path) -> Project:
    project = Project(tmp_path / "first")
    copy_tree(world.root, project.root)
    copy_tree(world.context.cache, project.context.cache)
    return project


def points(steps: list[str], when: str) -> list[int]:
    """Return the steps to be killed at: each change of a name, and before some git commands."""
    some = range(7, len(steps), 15) if when == "before" else ()
    return [n for n, kind in enumerate(steps, 1) if kind != "git" or n in some]


def is_whole(project: Project, expected: dict[str, bytes]) -> bool:
    """Return whether nothing of the series is there, or all of it."""
    found = project.patches
    ours = {name: data for name, data in expected.items() if name.startswith(f"{NEXT}/")}
    there = {name: data for name, data in found.items() if name.startswith(f"{NEXT}/")}
    return there in ({}, ours)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_in_a_clean_move(moving: RebaseWorld, tmp_path: Path, when: str) -> None:
    """Onto a release that is not pinned, so that everything is written that can be."""
    moving.release({"sglang/srt/text.txt": text({}, above=3)}, pinned=False)
    wheel = next(moving.index.glob("*9.9.10*"))
    (moving.context.wheels / wheel.name).write_bytes(wheel.read_bytes())
    first = project_of(moving, tmp_path)
    good = first.copy("good")
    assert good.run(*START) == 0
    expected = good.patches
    assert f"{NEXT}/lock.toml" in expected and expected != first.patches
    for point in points(good.steps, when):
        victim = first.copy(f"victim-{point}")
        assert victim.run(*START, kill_at=point, when=when) == -signal.SIGKILL
        assert is_whole(victim, expected), f"half written at {point}"
        done = (victim.context.series_dir(NEXT) / "lock.toml").exists()
        assert victim.run(*START) == (3 if done else 0), f"after {point}"
        assert victim.patches == expected
        assert not list(victim.context.patches.glob(".*")), f"left over from {point}"


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_on_the_way_to_a_conflict(moving: RebaseWorld, tmp_path: Path, when: str) -> None:
    """Either there is no rebase yet, or there is one that can be continued."""
    moving.release({"sglang/srt/text.txt": text({30: "line 30, upstream\n"})})
    first = project_of(moving, tmp_path)
    good = first.copy("good")
    assert good.run(*START) == 3
    for point in points(good.steps, when):
        victim = first.copy(f"victim-{point}")
        assert victim.run(*START, kill_at=point, when=when) == -signal.SIGKILL
        assert victim.patches == first.patches
        assert victim.run(*START) == 3, f"after {point}"
        names = sorted(path.name for path in victim.context.rebase.iterdir())
        assert names == ["0003-text", "state.json"], f"after {point}"
        assert victim.run("--skip", "killed too often") == 0
        assert not victim.context.rebase.exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_in_a_continued_move(moving: RebaseWorld, tmp_path: Path, when: str) -> None:
    """The resolution is never lost."""
    moving.release({"sglang/srt/text.txt": text({30: "line 30, upstream\n"})})
    moving.move(code=3)
    moving.resolve({TEXT: text({30: "line 30, both\n"})})
    first = project_of(moving, tmp_path)
    good = first.copy("good")
    assert good.run("--continue") == 0
    expected = good.patches
    assert any(name.startswith("resolutions/") for name in expected)
    for point in points(good.steps, when):
        victim = first.copy(f"victim-{point}")
        assert victim.run("--continue", kill_at=point, when=when) == -signal.SIGKILL
        assert is_whole(victim, expected), f"half written at {point}"
        waits = (victim.context.rebase / "state.json").exists()
        assert victim.run("--continue") == (0 if waits else 2), f"after {point}"
        assert victim.patches == expected, f"after {point}"
        assert not list(victim.context.patches.glob(".*")), f"left over from {point}"


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_in_an_abort(moving: RebaseWorld, tmp_path: Path, when: str) -> None:
    moving.release({"sglang/srt/text.txt": text({30: "line 30, upstream\n"})})
    moving.move(code=3)
    first = project_of(moving, tmp_path)
    good = first.copy("good")
    assert good.run("--abort") == 0
    for point in points(good.steps, when):
        victim = first.copy(f"victim-{point}")
        assert victim.run("--abort", kill_at=point, when=when) == -signal.SIGKILL
        assert victim.run("--abort") == 0
        assert not victim.context.rebase.exists()
        assert victim.patches == first.patches


def test_a_step_is_a_step(moving: RebaseWorld, tmp_path: Path) -> None:
    """What the tests above rely on: the child counts, and ends where it is told to."""
    moving.release()
    before = series_files(moving.series)
    project = project_of(moving, tmp_path)
    assert project.run(*START, kill_at=1) == -signal.SIGKILL
    assert not project.steps_file.exists()
    assert project.run(*START, kill_at=100_000) == 0
    kinds = project.steps
    assert kinds.count("git") > 20 and kinds.count("rename") > 0
    assert list(before) == [*FILES, "lock.toml", "series"]
    assert snapshot(project.context.series_dir(NEXT))
