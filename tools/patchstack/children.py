"""Child processes end with the tool, however the tool ends.

A child that outlives a killed tool would go on writing where the next run already works. A tool
that is interrupted can end its child itself; one that is killed cannot, so the kernel is asked to
(Linux; elsewhere such a child ends at its next write into a closed pipe).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import Popen

_PR_SET_PDEATHSIG = 1
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


@contextmanager
def ended(child: Popen[bytes]) -> Iterator[None]:
    """End ``child`` if the block is left while it runs: an interrupt, a full disk."""
    try:
        yield
    except BaseException:
        child.kill()
        child.wait()
        raise
