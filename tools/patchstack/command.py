"""How a tool ends: every failure that a user can cause becomes one line and an exit code.

This module runs before it is known that Python is new enough and that the packages the tools
need are installed, so it imports neither.
"""

from __future__ import annotations

import argparse
import errno
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MINIMUM_PYTHON = (3, 11)
INSTALL = "pip install -e '.[tools]'"
_PACKAGES = {"git": "GitPython"}  # where a module's name says something else
_WAYS_OUT = {
    errno.EACCES: "allow writing there, or name another place (--help, HIQCACHE_CACHE)",
    errno.EDQUOT: "free some space and run again",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f) and run again",
    errno.ENOSPC: "free some space and run again",
}
_WAYS_OUT[errno.EPERM] = _WAYS_OUT[errno.EROFS] = _WAYS_OUT[errno.EACCES]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose examples keep their lines."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)

    def error(self, message: str) -> NoReturn:
        """Report a usage error without the usage text."""
        raise ToolError(message, f"see {self.prog} --help", Exit.USAGE)


def run(program: str, body: Callable[[], int]) -> int:
    """Return what ``body`` returns, or report its failure in one line.

    Parameters
    ----------
    program
        The name that the line starts with.
    body
        The tool. It imports what is not in the standard library itself.
    """
    try:
        if sys.version_info < MINIMUM_PYTHON:
            wanted = ".".join(map(str, MINIMUM_PYTHON))
            raise ToolError(f"Python {wanted} or newer is needed", "use that one", Exit.USAGE)
        with _stoppable():
            return body()
    except ToolError as error:
        return _fail(program, str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = _PACKAGES.get(error.name or "", error.name)
        return _fail(program, f"{package} is not installed; run {INSTALL}", Exit.USAGE)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        way_out = _WAYS_OUT.get(error.errno or 0, "put that right and run again")
        return _fail(program, f"{error.strerror or error}{where}; {way_out}", Exit.USAGE)
    except KeyboardInterrupt:
        return _fail(program, "interrupted", Exit.INTERRUPTED)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the tool as Ctrl-C does: with its temporary files removed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where signals do not arrive
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:  # under nohup it stays ignored
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fail(program: str, line: str, code: Exit) -> int:
    print(f"{program}: {line}", file=sys.stderr)
    return int(code)
