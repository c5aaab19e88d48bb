#!/usr/bin/env python3
"""Check everything under patches/, and what names the releases elsewhere.

Patches against their rules, series and locks against the files, the history against its past,
tox.ini and the documents against the releases; then every release is fetched into an empty cache,
and its patches are applied and written again. All findings are listed, one a line. Exit codes:
0 nothing found, 1 findings, 2 usage, 4 revisions.toml cannot be read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchstack.command import Parser, run
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.context import Context

EXAMPLE = """\
examples:
  tools/check.py --fast       before each commit; no network, a few seconds
  tools/check.py              all of it; fetches every supported release
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("check.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--fast", action="store_true", help="leave out what needs a release")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    options.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return options


def main(argv: Sequence[str] | None = None, context: Context | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = parser().parse_args(argv)
        from patchstack import checking, gitenv, report
        from patchstack import context as paths

        gitenv.isolate(os.environ)
        where = context or paths.Context.default()
        found = checking.check(
            where, fast=arguments.fast, progress=report.Progress(arguments.quiet)
        )
        print(found.to_json() if arguments.json else found.to_text())
        return int(Exit.FINDINGS if found.findings else Exit.DONE)

    return run("check.py", body)


if __name__ == "__main__":
    sys.exit(main())
