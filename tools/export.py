#!/usr/bin/env python3
"""Write the patch series of a release from the commits on top of its base.

This is the only writer of patches/. Every commit needs the trailers HiQ-Patch, Why, Upstream and
Drop-when. Exit codes: 0 done, 1 a commit cannot become a patch, 2 usage, 3 the tree holds changes
that are not committed, 4 the tree does not belong to the release.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Call, Parser, tool

EXAMPLE = """\
example:
  tree="$(tools/apply.py --rev pin)" && cd "$tree"    # then edit, and git commit
  tools/export.py --rev pin
"""


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("--rev", required=True, help="a supported release, or pin")
    parser.add_argument("--tree", type=Path, help="where the commits are (build/<revision>)")
    parser.add_argument("--reason", help="why commits change, for patches/history.toml")
    parser.quiet()


def work(call: Call) -> int:
    """Write the series."""
    from patchstack import exporting

    given = call.given
    asked = (given.rev, given.tree, call.progress, given.reason)
    print(exporting.export_revision(call.context, *asked))
    return 0


main = tool("export.py", __doc__, EXAMPLE, options, work)


if __name__ == "__main__":
    sys.exit(main())
