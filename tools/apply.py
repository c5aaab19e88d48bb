#!/usr/bin/env python3
"""Make the patched SGLang tree of a release.

Exit codes: 0 done, 2 usage, 3 the target holds work of the user's, 4 the upstream or the lock
does not match, or the release cannot be had.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchstack.command import Parser, run

if TYPE_CHECKING:
    from patchstack.context import Context

EXAMPLE = """\
example:
  cd "$(tools/apply.py --rev pin)"
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("apply.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--rev", required=True, help="a supported release, or pin")
    options.add_argument("--target", type=Path, help="where the tree goes (build/<revision>)")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    options.add_argument("--offline", action="store_true", help="use the cache alone")
    options.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return options


def main(argv: Sequence[str] | None = None, context: Context | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = parser().parse_args(argv)
        from patchstack import applying, gitenv, report
        from patchstack import context as paths

        gitenv.isolate(os.environ)
        request = applying.Request(arguments.rev, arguments.target, arguments.offline)
        progress = report.Progress(arguments.quiet)
        result = applying.apply_revision(context or paths.Context.default(), request, progress)
        print(result.to_json() if arguments.json else result.path)
        return 0

    return run("apply.py", body)


if __name__ == "__main__":
    sys.exit(main())
