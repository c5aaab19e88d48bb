#!/usr/bin/env python3
"""Move the pin's series to every supported release and back, with what is recorded.

Prints what became of each file. Exit codes: 0 every series came out as the release's own, 1 one did
not, or needs a person, 2 usage, 4 a release cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Call, Parser, tool
from patchstack.errors import Exit

EXAMPLE = """\
example:
  tools/moves.py --record     after a series changed: patches/resolutions/ and docs/moves.md
"""


def options(parser: Parser) -> None:
    """Add the options."""
    record = "first record every move anew, from the releases' own series; write docs/moves.md"
    parser.flag("--record", help=record)
    parser.offline()
    parser.quiet()


def work(call: Call) -> int:
    """Move, and tell what came of it."""
    from patchstack import replaying

    given = call.given
    replays = replaying.prove(call.context, call.progress, given.offline, anew=given.record)
    print(replaying.page(replays))
    return int(Exit.FINDINGS if any(each.problem for each in replays) else Exit.DONE)


main = tool("moves.py", __doc__, EXAMPLE, options, work)


if __name__ == "__main__":
    sys.exit(main())
