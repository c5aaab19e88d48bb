#!/usr/bin/env python3
"""Write the patch series of a release from the commits on top of its base.

This is the only writer of patches/. Every commit needs the trailers HiQ-Patch, Why, Upstream and
Drop-when. Exit codes: 0 done, 1 a commit cannot become a patch, 2 usage, 3 the tree holds changes
that are not committed, 4 the tree does not belong to the release.
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
  tree="$(tools/apply.py --rev pin)" && cd "$tree"    # then edit, and git commit
  tools/export.py --rev pin
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("export.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--rev", required=True, help="a supported release, or pin")
    options.add_argument("--tree", type=Path, help="where the commits are (build/<revision>)")
    options.add_argument("--reason", help="why commits change, for patches/history.toml")
    options.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return options


def main(argv: Sequence[str] | None = None, context: Context | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = parser().parse_args(argv)
        from patchstack import context as paths
        from patchstack import exporting, gitenv, report

        gitenv.isolate(os.environ)
        where = context or paths.Context.default()
        progress = report.Progress(arguments.quiet)
        given = (arguments.rev, arguments.tree, progress, arguments.reason)
        print(exporting.export_revision(where, *given))
        return 0

    return run("export.py", body)


if __name__ == "__main__":
    sys.exit(main())
