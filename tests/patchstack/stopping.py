"""Ways to stop a tool at a chosen moment, for real.

A tool's steps are what the interpreter reports to an audit hook: every child process, and every
change below the world's folder. The hook is set in a forked child, which kills itself before the
chosen step; nothing in the tools knows of it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATIENCE = 120.0  # seconds that a busy machine may take
_CHANGES = {"os.rename", "os.mkdir", "os.rmdir", "os.remove", "open"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _is_step(event: str, arguments: tuple[Any, ...], root: Path) -> bool:
    if event == "subprocess.Popen":
        return True
    if event not in _CHANGES or not isinstance(arguments[0], str | os.PathLike):
        return False
    if event == "open" and not arguments[2] & _WRITING:
        return False
    return os.fspath(arguments[0]).startswith(os.fspath(root))


def killed_at(step: int, root: Path, work: Callable[[], object]) -> bool:
    """Do ``work`` in a child that is killed before its ``step``-th step; return whether it was."""

    def before(number: int) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    status = _watched(root, work, before)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def each_kill(
    root: Path, work: Callable[[], object], put_back: Callable[[], object]
) -> Iterator[int]:
    """Kill ``work`` wherever it has just changed something, and yield after each kill.

    Parameters
    ----------
    root
        What counts.
    work
        What is killed.
    put_back
        Makes everything as it was before.
    """
    put_back()
    steps = _changing_steps(root, work)
    assert len(steps) > 10, "the work changes nothing"
    for step in steps:
        put_back()
        assert killed_at(step, root, work)
        yield step


def _watched(root: Path, work: Callable[[], object], before: Callable[[int], None]) -> int:
    """Do ``work`` in a child that calls ``before`` with the number of each step; wait for it."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if _is_step(event, arguments, root):
            before(count)
            count += 1

    code = 1
    try:
        sys.addaudithook(hook)
        work()
        code = 0
    finally:
        os._exit(code)


def _changing_steps(root: Path, work: Callable[[], object]) -> list[int]:
    """Return the steps before which something is not as it was before the last one."""
    last = _listing(root)
    with tempfile.TemporaryFile() as file:

        def before(number: int) -> None:
            nonlocal last
            if (found := _listing(root)) != last:
                last = found
                os.write(file.fileno(), f"{number}\n".encode())

        assert _watched(root, work, before) == 0
        file.seek(0)
        return [0, *map(int, file.read().split())]


def _listing(root: Path) -> dict[str, int]:
    """Return every file's size and every folder."""
    return {str(path): path.lstat().st_size for path in root.rglob("*")}


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.01)


def members(group: int) -> dict[int, str]:
    """Return the living processes of a process group, by number, with their command lines."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name in brackets: state, parent, group.
            state, _, own = stat.read_text().rpartition(")")[2].split()[:3]
            if int(own) == group and state not in "ZX":
                words = (stat.parent / "cmdline").read_bytes().split(b"\0")
                found[int(stat.parent.name)] = b" ".join(words).decode()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return found
