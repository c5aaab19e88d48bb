#!/usr/bin/env python3
"""Move the patch series of a release onto another release.

The patches are moved by git's three-way merge in a tree of their own; patches/ changes only when
all of them stand. Exit codes: 0 done, 1 a patch fails the smoke gate, or a dry run has findings,
2 usage, 3 a conflict or the user's work is left to the user, 4 the upstream or the lock does not
match, or the release cannot be had.
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
examples:
  tools/rebase.py --from pin --onto 0.5.24 --dry-run      what would happen
  tools/rebase.py --from pin --onto 0.5.24                write patches/v0.5.24
  tools/rebase.py --continue                              after a conflict
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("rebase.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--from", dest="origin", metavar="REV", help="a supported release, or pin")
    onto = "a release by name or version; repeat it with --dry-run"
    options.add_argument("--onto", action="append", metavar="RELEASE", help=onto)
    options.add_argument("--dry-run", action="store_true", help="report, and write nothing")
    options.add_argument("--replace", action="store_true", help="replace the series of --onto")
    action = options.add_mutually_exclusive_group()
    action.add_argument("--continue", dest="go_on", action="store_true", help="take what is staged")
    action.add_argument("--skip", metavar="REASON", help="drop the patch that stopped")
    action.add_argument("--abort", action="store_true", help="give up the rebase that waits")
    options.add_argument("--python", type=Path, help="an interpreter that can run the release")
    options.add_argument("--no-smoke", action="store_true", help="do not run the release")
    edit = "stop at that patch even if it merges; repeat it"
    options.add_argument("--edit", action="append", metavar="SLUG", help=edit)
    options.add_argument("--no-resolutions", action="store_true", help="use no recorded ones")
    options.add_argument("--report", type=Path, metavar="FILE", help="write the report there")
    options.add_argument("--json", action="store_true", help="print the report as JSON")
    options.add_argument("--offline", action="store_true", help="use the cache alone")
    options.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return options


def main(argv: Sequence[str] | None = None, context: Context | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        from patchstack import context as paths
        from patchstack import gitenv, rebase_command

        gitenv.isolate(os.environ)
        return rebase_command.main(given, context or paths.Context.default())

    return run("rebase.py", body)


if __name__ == "__main__":
    sys.exit(main())
