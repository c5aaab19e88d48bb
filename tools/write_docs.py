#!/usr/bin/env python3
"""Write the parts of docs/ that say what the supported releases are, and what goes with what.

The table of docs/patches.md comes from patches/, docs/upstream.md from the releases' own sources,
docs/compatibility.md from the library, for which torch must be installed.
Exit codes: 0 done, 1 a document lacks its markers, 2 usage, 4 a release cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from patchstack.command import Call, Parser, tool

EXAMPLE = """\
examples:
  tools/write_docs.py               after a series, a release or a codec changed
  tools/write_docs.py --offline     the same, if the cache has every release
"""


def options(parser: Parser) -> None:
    """Add the options."""
    parser.offline()
    parser.quiet()


def work(call: Call) -> int:
    """Write them, and print which have changed."""
    from patchstack import documenting

    for path in documenting.write_documents(call.context, call.given.offline, call.progress):
        print(path)
    return 0


main = tool("write_docs.py", __doc__, EXAMPLE, options, work)


if __name__ == "__main__":
    sys.exit(main())
