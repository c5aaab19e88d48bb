#!/usr/bin/env python3
"""Make the patched SGLang tree of a release.

Exit codes: 0 done, 1 a patch cannot go into a wheel, 2 usage, 3 the target holds work of the
user's, 4 the upstream or the lock does not match, or the release cannot be had.
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
  tree="$(tools/apply.py --rev pin)" && cd "$tree"  the patched sources
  tools/apply.py --rev pin --wheel                  and the wheels to install
  tools/apply.py --rev pin --source git             onto the tag of SGLang's repository
  tools/apply.py --rev pin --source ../sglang       onto a checkout
"""


def parser(dist: Path) -> Parser:
    """Return the command line's parser; ``dist`` is where wheels go by default."""
    options = Parser("apply.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--rev", required=True, help="a supported release, or pin")
    options.add_argument("--target", type=Path, help="where the tree goes (build/<revision>)")
    wheel = "write the wheels of the patched release and of hiqcache (build/dist)"
    options.add_argument("--wheel", type=Path, nargs="?", const=dist, metavar="DIR", help=wheel)
    source = "git[:URL], a checkout, a wheel or an unpacked tree (the pinned wheel, from pip)"
    options.add_argument("--source", metavar="SOURCE", help=source)
    record = "with --source git: write into lock.toml which commit the tag is"
    options.add_argument("--record", action="store_true", help=record)
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    options.add_argument("--offline", action="store_true", help="use the cache alone")
    options.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return options


def main(argv: Sequence[str] | None = None, context: Context | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        from patchstack import applying, gitenv, report, usergit
        from patchstack import context as paths
        from patchstack.source import parse_source

        where = context or paths.Context.default()
        given = parser(where.dist).parse_args(argv)
        user = usergit.UserGit(gitenv.isolate(os.environ))
        source = parse_source(given.source, user, record=given.record)
        request = applying.Request(given.rev, given.target, given.wheel, given.offline, source)
        result = applying.apply_revision(where, request, report.Progress(given.quiet))
        print(result.to_json() if given.json else result.to_text())
        return 0

    return run("apply.py", body)


if __name__ == "__main__":
    sys.exit(main())
