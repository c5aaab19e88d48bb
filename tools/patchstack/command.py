"""How a tool ends: every failure that a user can cause becomes one line and an exit code.

This module runs before it is known that Python is new enough and that the packages the tools
need are installed, so it imports neither.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

MINIMUM_PYTHON = (3, 11)
INSTALL = "pip install -e '.[tools]'"
_PACKAGES = {"git": "GitPython"}  # where a module's name says something else


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

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
        return body()
    except ToolError as error:
        return _fail(program, str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = _PACKAGES.get(error.name or "", error.name)
        return _fail(program, f"{package} is not installed; run {INSTALL}", Exit.USAGE)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _fail(program, f"{error.strerror or error}{where}", Exit.USAGE)
    except KeyboardInterrupt:
        return _fail(program, "interrupted", Exit.INTERRUPTED)


def _fail(program: str, line: str, code: Exit) -> int:
    print(f"{program}: {line}", file=sys.stderr)
    return int(code)
