"""Run a command that starts processes of its own, and end them all when it is time.

A program, not a module of the tools: it stands between a tool and ``git fetch``, which leaves the
talking to helpers. When the tool ends the command, or ends itself, whatever way, the kernel tells
this process, which adopts every orphan among its descendants and ends them one after the other.

Usage: supervise.py PARENT COMMAND [ARGUMENT ...], where PARENT is the process that starts it.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main(parent: int, command: list[str]) -> int:
    """Run ``command`` and return its exit status."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _end_all)
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != parent:
        return 1  # it ended before the kernel was asked
    # A terminal tells the command too, which is waited for.
    for number in _TERMINAL_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        for number in (*_TERMINAL_SIGNALS, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _end_all(*_: object) -> NoReturn:
    """End every descendant: the orphans of those that end become children of this process."""
    while True:
        for child in _children():
            os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(1)


def _children() -> list[int]:
    """Return the children of this process that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name in brackets: the state and the parent.
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == os.getpid() and state not in "ZX":
            found.append(int(path.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
