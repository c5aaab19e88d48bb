#!/usr/bin/env python3
"""Make the patched SGLang tree of a release.

Exit codes: 0 done, 1 a patch cannot go into a wheel, 2 usage, 3 the target holds work of the
user's, 4 the upstream or the lock does not match, or the release cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Call, Parser, tool

EXAMPLE = """\
examples:
  tree="$(tools/apply.py --rev pin)" && cd "$tree"  the patched sources
  tools/apply.py --rev pin --wheel                  and the wheels to install
  tools/apply.py --rev pin --source git             onto the tag of SGLang's repository
  tools/apply.py --rev pin --source ../sglang       onto a checkout
"""


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("--rev", required=True, help="a supported release, or pin")
    parser.add_argument("--target", type=Path, help="where the tree goes (build/<revision>)")
    wheel = "write two wheels, the release's for this Python and hiqcache's (build/dist)"
    parser.add_argument("--wheel", nargs="?", const="", metavar="DIR", help=wheel)
    source = "git[:URL], a checkout, a wheel or an unpacked tree (the pinned wheel, from pip)"
    parser.add_argument("--source", metavar="SOURCE", help=source)
    parser.flag("--record", help="with --source git: write into lock.toml which commit the tag is")
    parser.json()
    parser.offline()
    parser.quiet()


def work(call: Call) -> int:
    """Make the tree."""
    from patchstack import applying, usergit
    from patchstack.source import parse_source
    from patchstack.wheel import install_command

    given = call.given
    source = parse_source(given.source, usergit.UserGit(call.variables), record=given.record)
    dist = None if given.wheel is None else Path(given.wheel or call.context.dist)
    request = applying.Request(given.rev, given.target, dist, given.offline, source)
    result = applying.apply_revision(call.context, request, call.progress)
    print(result.to_json() if given.json else result.to_text())
    if result.wheels and not given.json:
        call.progress.say(f"install both with: {install_command(result.wheels)}")
    return 0


main = tool("apply.py", __doc__, EXAMPLE, options, work)


if __name__ == "__main__":
    sys.exit(main())
