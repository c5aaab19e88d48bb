#!/usr/bin/env python3
"""Say which commit a patch is on every release, or which patch a commit is.

NAME is a patch's slug or file, or a commit id of four digits or more; commits that a series had
once are known too. Without NAME, everything that is current. Exit codes: 0 done, 2 usage,
4 a lock or the history cannot be read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Call, Parser, tool

EXAMPLE = """\
examples:
  tools/map.py l2-codec-flag      its commit on each release
  tools/map.py 1bf7ceb            the patch and the release that a result was measured with
"""


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a patch or a commit")
    parser.json()


def work(call: Call) -> int:
    """Print what is known."""
    from patchstack import commit_map

    found, name = commit_map.load_map(call.context), call.given.name
    entries = found.current if name is None else found.find(name)
    if call.given.json:
        print(json.dumps([entry.to_fields() for entry in entries], indent=2))
    else:
        print("\n".join(entry.to_text() for entry in entries))
    return 0


main = tool("map.py", __doc__, EXAMPLE, options, work, needs_git=False)


if __name__ == "__main__":
    sys.exit(main())
