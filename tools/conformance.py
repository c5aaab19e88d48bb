#!/usr/bin/env python3
"""Digest what every format makes of fixed vectors, to compare devices byte for byte.

The vectors are made of integers, and their own digests come with the result. Of restored rows
every NaN counts as the same one.

Exit codes: 0 done, 1 something differs from what was expected, 2 usage.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from patchstack.command import INSTALL_TORCH, Parser, run
from patchstack.errors import Exit
from serving.delivery import add_json_option, deliver, refuse_unwritable

if TYPE_CHECKING:
    from formats.digests import Manifest

EXAMPLE = """\
examples:
  tools/conformance.py generate --device cuda --expect tests/fixtures/conformance.json
  tools/conformance.py generate --device cpu --json conformance.json
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("conformance.py", description=__doc__, epilog=EXAMPLE)
    commands = options.add_subparsers(required=True, metavar="COMMAND")
    generate = commands.add_parser(
        "generate", help="encode, decode and digest", description=__doc__, epilog=EXAMPLE
    )
    generate.add_argument("--device", default="cpu", help="where the codecs run (cpu)")
    strided_help = "leave gaps between rows and between units, as views of larger tensors have"
    generate.add_argument("--strided", action="store_true", help=strided_help)
    expect_help = (
        "a manifest to compare with: say that it is equal, or what differs and exit with 1"
    )
    generate.add_argument("--expect", type=Path, metavar="FILE", help=expect_help)
    add_json_option(generate)
    generate.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return options


def print_table(manifest: Manifest) -> None:
    """Print the beginning of a digest of each format's digests."""
    from rich import box
    from rich.table import Table

    from formats.catalogue import built_in
    from serving.printing import Printer

    table = Table("format", "vectors", "their digest", box=box.SIMPLE_HEAD)
    for name in built_in():
        count, together = manifest.of_format(name)
        table.add_row(name, str(count), together[:16])
    Printer().table(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = parser().parse_args(argv)
        from formats.device import usable_device
        from formats.digests import differences, make_manifest, read_manifest
        from patchstack.report import Progress

        refuse_unwritable("--json", arguments.json)
        expected = read_manifest(arguments.expect) if arguments.expect else None
        device = usable_device(arguments.device)
        manifest = make_manifest(device, arguments.strided, Progress(arguments.quiet))
        deliver(lambda: print_table(manifest), manifest.to_json(), arguments.json)
        found = differences(expected, manifest) if expected else []
        for line in found:
            print(f"conformance.py: {line}", file=sys.stderr)
        if expected and not found:
            print(f"conformance.py: equal to {arguments.expect}", file=sys.stderr)
        return Exit.FINDINGS if found else Exit.DONE

    return run("conformance.py", body, INSTALL_TORCH)


if __name__ == "__main__":
    sys.exit(main())
