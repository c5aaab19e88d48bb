#!/usr/bin/env python3
"""Say whether this machine is ready to serve a model with a codec, before its hours are paid for.

Each check is a line: pass, fail or skip, what was found, and the next step. Nothing is installed
or changed; SGLang may compile a kernel into its own cache. Before SGLang is installed, what needs
it is skipped; when it is, --strict counts what is skipped as failed.

Exit codes: 0 nothing fails, 1 something does, 2 usage.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from formats.models import LARGEST, PRESETS
from machine.finding import Finding, Status
from patchstack.command import Parser, run
from patchstack.errors import Exit
from serving.delivery import add_json_option, deliver, refuse_unwritable

#: Of torch, it has to be a build for this machine's devices.
INSTALL = "pip install torch, the release that SGLang pins (docs/reproducing.md)"
EXAMPLE = """\
examples:
  tools/preflight.py --model qwen3-8b --codec int8-hadamard --page-size 64 --hicache-size 8
  tools/preflight.py --model path/to/model --tp 2 --hicache-size 32 --strict --json preflight.json
"""
#: Grows when a field is renamed, removed or means something else.
SCHEMA = 1


def whole(text: str) -> int:
    """Parse an integer above zero that a machine could have."""
    number = int(text)
    if not 0 < number <= LARGEST:
        raise ArgumentTypeError(f"{text[:20]} is not from 1 to {LARGEST:,}")
    return number


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("preflight.py", description=__doc__, epilog=EXAMPLE)
    add = options.add_argument
    model_help = f"a model's folder, or one of {', '.join(PRESETS)} (qwen3-8b)"
    add("--model", default="qwen3-8b", metavar="DIR|NAME", help=model_help)
    add("--codec", default="int8-hadamard", help="value of --hicache-l2-codec (int8-hadamard)")
    add("--page-size", type=whole, default=64, metavar="N", help="tokens per page (64)")
    add("--tp", type=whole, default=1, metavar="N", help="ranks (1)")
    add("--nodes", type=whole, default=1, metavar="N", help="machines that share the ranks (1)")
    size_help = "decimal gigabytes of host memory per rank (8)"
    add("--hicache-size", type=whole, default=8, metavar="GB", help=size_help)
    long_help = "leave out what takes more than a few seconds"
    options.flag("--quick", help=f"{long_help}: conformance, mover and round trip")
    options.flag("--strict", help="count what is skipped as failed")
    add_json_option(options)
    return options


def to_json(given: Namespace, findings: Sequence[Finding]) -> str:
    """Return the report for programs."""
    arguments = {name: value for name, value in vars(given).items() if name != "json"}
    checks = [asdict(finding) for finding in findings]
    return json.dumps({"schema": SCHEMA, "arguments": arguments, "checks": checks}, indent=1)


def report(given: Namespace) -> list[Finding]:
    """Make the checks, and print each line when it is there, unless JSON takes its place."""
    from machine.asked import asked
    from machine.checks import check_machine

    wanted = asked(
        given.model, given.codec, given.page_size, given.tp, given.nodes, given.hicache_size
    )
    findings = []
    for finding in check_machine(wanted, given.quick):
        findings.append(finding)
        if given.json != Path("-"):
            print(finding.line(), flush=True)
    return findings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        refuse_unwritable("--json", given.json)
        findings = report(given)
        counts = Counter(finding.status for finding in findings)
        told = ", ".join(f"{counts[status]} {status}" for status in Status)
        deliver(lambda: print(told), to_json(given, findings), given.json)
        bad = counts[Status.FAIL] + (counts[Status.SKIP] if given.strict else 0)
        return Exit.FINDINGS if bad else Exit.DONE

    return run("preflight.py", body, INSTALL)


if __name__ == "__main__":
    sys.exit(main())
