#!/usr/bin/env python3
"""Write the parts of docs/ that say what the supported releases are, and what goes with what.

The table of docs/patches.md comes from patches/, docs/upstream.md from the releases' own sources,
docs/compatibility.md from the library, for which torch must be installed.
Exit codes: 0 done, 1 a document lacks its markers, 2 usage, 4 a release cannot be had.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchstack.command import Parser, run

if TYPE_CHECKING:
    from patchstack.context import Context

EXAMPLE = """\
example:
  tools/write_docs.py --offline     after a series, a release or a codec changed
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("write_docs.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--offline", action="store_true", help="use the cache alone")
    options.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return options


def main(argv: Sequence[str] | None = None, context: Context | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = parser().parse_args(argv)
        from patchstack import context as paths
        from patchstack import documenting, gitenv, report

        gitenv.isolate(os.environ)
        where = context or paths.Context.default()
        progress = report.Progress(arguments.quiet)
        for path in documenting.write_documents(where, arguments.offline, progress):
            print(path)
        return 0

    return run("write_docs.py", body)


if __name__ == "__main__":
    sys.exit(main())
