#!/usr/bin/env python3
"""Say which commit a patch is on every release, or which patch a commit is.

NAME is a patch's slug or file, or a commit id of four digits or more; commits that a series had
once are known too. Without NAME, everything that is current. Exit codes: 0 done, 2 usage,
4 a lock or the history cannot be read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchstack.command import Parser, run

if TYPE_CHECKING:
    from patchstack.context import Context

EXAMPLE = """\
examples:
  tools/map.py l2-codec-flag      its commit on each release
  tools/map.py 1bf7ceb            the patch and the release that a result was measured with
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("map.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("name", nargs="?", metavar="NAME", help="a patch or a commit")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    return options


def main(argv: Sequence[str] | None = None, context: Context | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = parser().parse_args(argv)
        from patchstack import commit_map
        from patchstack import context as paths

        found = commit_map.load_map(context or paths.Context.default())
        name = arguments.name
        entries = found.current if name is None else found.find(name)
        if arguments.json:
            print(json.dumps([entry.to_fields() for entry in entries], indent=2))
        else:
            print("\n".join(entry.to_text() for entry in entries))
        return 0

    return run("map.py", body)


if __name__ == "__main__":
    sys.exit(main())
