#!/usr/bin/env python3
"""Move the patch series of a release onto another release.

The patches are moved by git's three-way merge in a tree of their own; patches/ changes only when
all of them stand. Exit codes: 0 done, 1 a patch fails the smoke gate, or a dry run has findings,
2 usage, 3 a conflict or the user's work is left to the user, 4 the upstream or the lock does not
match, or the release cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Call, Parser, tool

EXAMPLE = """\
examples:
  tools/rebase.py --from pin --onto 0.5.24 --dry-run      what would happen
  tools/rebase.py --from pin --onto 0.5.24                write patches/v0.5.24
  tools/rebase.py --continue                              after a conflict
"""


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("--from", dest="origin", metavar="REV", help="a supported release, or pin")
    onto = "a release by name or version; repeat it with --dry-run"
    parser.add_argument("--onto", action="append", metavar="RELEASE", help=onto)
    parser.flag("--dry-run", help="report, and write nothing")
    parser.flag("--replace", help="replace the series of --onto")
    edit = "stop at that patch even if it merges; repeat it"
    parser.add_argument("--edit", action="append", metavar="SLUG", help=edit)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--continue", dest="go_on", action="store_true", help="take what is staged")
    action.add_argument("--skip", metavar="REASON", help="drop the patch that stopped")
    action.add_argument("--abort", action="store_true", help="give up the rebase that waits")
    parser.add_argument("--python", type=Path, help="an interpreter that can run the release")
    parser.flag("--no-smoke", help="do not run the release")
    parser.flag("--no-resolutions", help="use nothing that is recorded")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there")
    parser.json("report")
    parser.offline()
    parser.quiet()


def work(call: Call) -> int:
    """Start a rebase, or go on with one."""
    from patchstack import rebase_command

    return rebase_command.main(call.given, call.context)


main = tool("rebase.py", __doc__, EXAMPLE, options, work)


if __name__ == "__main__":
    sys.exit(main())
