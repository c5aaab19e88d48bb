#!/usr/bin/env python3
"""Check everything under patches/, and what names the releases elsewhere.

Patches against their rules, series and locks against the files, the history against its past,
tox.ini and the documents against the releases; then every release is fetched into an empty cache,
and its patches are applied and written again. All findings are listed, one a line. Exit codes:
0 nothing found, 1 findings, 2 usage, 4 revisions.toml cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Call, Parser, tool
from patchstack.errors import Exit

EXAMPLE = """\
examples:
  tools/check.py --fast       before each commit; no network, a few seconds
  tools/check.py              all of it; fetches every supported release
"""


def options(parser: Parser) -> None:
    """Add the options."""
    parser.flag("--fast", help="leave out what needs a release")
    parser.json()
    parser.quiet()


def work(call: Call) -> int:
    """Check, and tell what was found."""
    from patchstack import checking

    found = checking.check(call.context, fast=call.given.fast, progress=call.progress)
    print(found.to_json() if call.given.json else found.to_text())
    return int(Exit.FINDINGS if found.findings else Exit.DONE)


main = tool("check.py", __doc__, EXAMPLE, options, work)


if __name__ == "__main__":
    sys.exit(main())
