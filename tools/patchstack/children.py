"""Child processes end with the tool, however the tool ends.

A child that outlives a killed tool would go on writing where the next run already works. A tool
that is interrupted can end its child itself; one that is killed cannot, so the kernel is asked to
(Linux; elsewhere such a child ends at its next write into a closed pipe). The kernel tells a child
and not what the child started; where that matters, `supervise` stands between.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import Popen, TimeoutExpired

from patchstack import supervise

_PR_SET_PDEATHSIG = 1
_PATIENCE = 5.0  # seconds until a child that was asked to end is not asked any more
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def ends_with_us() -> Callable[[], None] | None:
    """Return the ``preexec_fn`` of a child that must not outlive this process."""
    if _LIBC is None:
        return None
    parent, prctl = os.getpid(), _LIBC.prctl

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # it ended before the kernel was asked
            os._exit(1)

    return bind


def supervised(command: list[str]) -> list[str]:
    """Return the command that runs ``command`` and ends all that it starts with this process."""
    if _LIBC is None:
        return command
    return [sys.executable, "-I", "-S", supervise.__file__, str(os.getpid()), *command]


@contextmanager
def ended(child: Popen[bytes]) -> Iterator[None]:
    """End ``child`` if the block is left while it runs: an interrupt, a full disk."""
    try:
        yield
    except BaseException:
        child.terminate()
        try:
            child.wait(_PATIENCE)
        except TimeoutExpired:
            child.kill()
            child.wait()
        raise
