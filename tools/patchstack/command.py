"""How a tool starts and ends: every failure that a user can cause is one line and an exit code.

This module runs before it is known that Python is new enough and that the packages the tools
need are installed, so it imports neither.
"""

from __future__ import annotations

import argparse
import codecs
import errno
import io
import os
import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from patchstack.context import Context
    from patchstack.report import Progress

MINIMUM_PYTHON = (3, 11)
#: More of anything is a slip of the hand.
LARGEST = 10**12
#: What the tools of the patch stack need, as in the README.
INSTALL = "pip install gitpython packaging rich hatchling"
#: What the tools that encode need.
INSTALL_TORCH = "pip install torch numpy rich (a CPU build of torch will do)"
_AS_IT_IS = "hiqcache-as-it-is"
#: Signs that stand for the bytes of a name that is no text.
_ESCAPED = range(0xDC80, 0xDD00)
_PACKAGES = {"git": "GitPython"}  # where a module's name says something else
_WAYS_OUT = {
    errno.EACCES: "get the right to it, or name another place (--help, HIQCACHE_CACHE)",
    errno.EDQUOT: "free some space and run again",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f) and run again",
    errno.ELOOP: "name a place without a symbolic link that leads to itself",
    errno.ENOSPC: "free some space and run again",
}
_WAYS_OUT[errno.EPERM] = _WAYS_OUT[errno.EROFS] = _WAYS_OUT[errno.EACCES]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose examples keep their lines."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)

    def print_help(self, file: Any = None) -> None:
        """Print the help, and let a failure be seen: argparse itself passes over it."""
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        """Report a usage error without the usage text."""
        raise ToolError(message, f"see {self.prog} --help", Exit.USAGE)

    def flag(self, *names: str, help: str) -> None:
        """Add an option without a value."""
        self.add_argument(*names, action="store_true", help=help)

    def quiet(self) -> None:
        """Add the option of every tool that takes its time."""
        self.flag("-q", "--quiet", help="no progress")

    def offline(self) -> None:
        """Add the option of every tool that needs a release."""
        self.flag("--offline", help="use the cache alone")

    def json(self, what: str = "result") -> None:
        """Add the option of every tool whose output a program may read."""
        self.flag("--json", help=f"print the {what} as JSON")


def at_least_one(text: str) -> int:
    """Read a count, as the ``type`` of an option."""
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("it has to be at least 1")
    if value > LARGEST:
        raise argparse.ArgumentTypeError(f"it has to be at most {LARGEST:,}")
    return value


@dataclass(frozen=True)
class Call:
    """What a tool was called with.

    Parameters
    ----------
    given
        The options.
    context
        Every path.
    variables
        What the user's shell told git, for a fetch.
    """

    given: argparse.Namespace
    context: Context
    variables: Mapping[str, str]

    @property
    def progress(self) -> Progress:
        """Where progress goes."""
        from patchstack.report import Progress

        return Progress(self.given.quiet)


def tool(
    program: str,
    about: str | None,
    example: str,
    options: Callable[[Parser], None],
    work: Callable[[Call], int],
    *,
    needs_git: bool = True,
) -> Callable[..., int]:
    """Return the ``main`` of a tool of the patch stack.

    Parameters
    ----------
    program, about, example
        What ``--help`` says.
    options
        Adds the options.
    work
        The tool. It imports what is not in the standard library itself.
    needs_git
        Whether the tool starts git.
    """

    def main(argv: Sequence[str] | None = None, context: Context | None = None) -> int:
        """Run the tool and return its exit code."""

        def body() -> int:
            parser = Parser(program, description=about, epilog=example)
            options(parser)
            given = parser.parse_args(argv)
            from patchstack import context as paths
            from patchstack import gitenv

            variables = gitenv.isolate(os.environ) if needs_git else {}
            return work(Call(given, context or paths.Context.default(), variables))

        return run(program, body)

    return main


def run(program: str, body: Callable[[], int], install: str = INSTALL) -> int:
    """Return what ``body`` returns, or report its failure in one line.

    Parameters
    ----------
    program
        The name that the line starts with.
    body
        The tool. It imports what is not in the standard library itself.
    install
        What to run where a package is missing.
    """
    try:
        if sys.version_info < MINIMUM_PYTHON:
            wanted = ".".join(map(str, MINIMUM_PYTHON))
            raise ToolError(f"Python {wanted} or newer is needed", "use that one", Exit.USAGE)
        with _stoppable(), _printed():
            return body()
    except ToolError as error:
        return _fail(program, str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = _PACKAGES.get(error.name or "", error.name)
        return _fail(program, f"{package} is not installed; run {install}", Exit.USAGE)
    except BrokenPipeError:
        if sys.stdout is not None:
            _give_up(sys.stdout)
        return _fail(program, str(_unread("Broken pipe")), Exit.USAGE)
    except MemoryError:
        return _fail(program, "there is not enough memory; ask for less", Exit.USAGE)
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


@contextmanager
def _printed() -> Iterator[None]:
    """Print names of files as the bytes that they are, and all of it before the tool ends."""
    if sys.stderr is None:  # a shell can close it, and what is for it would go elsewhere
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    codecs.register_error(_AS_IT_IS, _encode_name)
    for stream, errors in ((sys.stdout, _AS_IT_IS), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    try:
        yield
    finally:
        if sys.stdout is not None:  # a shell can close it
            _flush()


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout)
        raise _unread(error.strerror) from None


def _unread(why: str | None) -> ToolError:
    what = f"standard output cannot be written: {why}"
    return ToolError(what, "make room there, or lead it elsewhere", Exit.USAGE)


def _encode_name(error: UnicodeError) -> tuple[bytes, int]:
    """Write a name's bytes as they are, and any other sign that cannot be written by its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    parts = (
        bytes([ord(sign) - 0xDC00]) if ord(sign) in _ESCAPED
        else sign.encode("ascii", "backslashreplace")
        for sign in error.object[error.start : error.end]
    )  # fmt: skip
    return b"".join(parts), error.end


def _give_up(stream: TextIO) -> None:
    """Drop what could not be written: Python would try at its end, and exit in its own way."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(program: str, line: str, code: Exit) -> int:
    try:
        print(f"{program}: {line}", file=sys.stderr, flush=True)
    except OSError:  # there is nobody to tell
        _give_up(sys.stderr)
    return int(code)
