#!/usr/bin/env python3
"""What each format of KV costs in quality, for the bits it takes: ours and other projects'.

A real model reads a prefix; its KV goes through a format; and the tokens that follow are predicted
from what came back. The prediction is compared with the one from the untouched BF16 KV. Every
score is kept, so that an interrupted run goes on where it was.

Exit codes: 0 done and every goal met, 1 a goal missed, 2 usage or a text that is not the chosen
one, 4 the model's package is not the expected one.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from patchstack.command import Parser, run  # noqa: E402
from patchstack.context import Context  # noqa: E402
from patchstack.errors import Exit, ToolError  # noqa: E402
from patchstack.report import Progress  # noqa: E402
from serving.delivery import refuse_unwritable, write_bytes, write_file  # noqa: E402

if TYPE_CHECKING:
    from kvbench.report import Report

#: Where the packages are.
INSTALL = "tox -e rate-distortion, which has it"
#: What --docs writes.
PLOT, JSON, PAGE = (f"rate-distortion.{kind}" for kind in ("svg", "json", "md"))
WINDOWS = 3
QUICK_WINDOWS = 1
#: Columns of the table where no terminal has a number of its own.
WIDTH = 140
EXAMPLE = """\
examples:
  benchmarks/rate_distortion.py                the table of all formats
  benchmarks/rate_distortion.py --docs docs    and docs/rate-distortion.{md,json,svg}
  benchmarks/rate_distortion.py --quick        two documents and a few formats
  benchmarks/rate_distortion.py --from docs/rate-distortion.json --docs docs
                                               page and plot of results that are there
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("rate_distortion.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--quick", action="store_true", help="two documents, few formats, no goal")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    options.add_argument("--docs", type=Path, metavar="DIR", help="write page, plot and JSON there")
    from_help = "show what --json wrote before, and measure nothing"
    options.add_argument("--from", type=Path, dest="source", metavar="FILE", help=from_help)
    scores = Context.default().cache / "rate-distortion.jsonl"
    scores_help = f"where scores are kept and found again ({scores})"
    options.add_argument("--scores", type=Path, default=scores, metavar="FILE", help=scores_help)
    return options


def measure(given: Namespace, progress: Progress) -> Report:
    """Measure what is not measured yet, and return the report."""
    from cpu_runtime.model import SHA256
    from kvbench import catalogue, texts
    from kvbench.goals import goals
    from kvbench.measure import Run, setting
    from kvbench.model import Model
    from kvbench.report import Report
    from kvbench.results import collect
    from kvbench.store import Store
    from serving.model import packaged_model

    formats = catalogue.quick_formats() if given.quick else catalogue.all_formats()
    documents = texts.quick_documents() if given.quick else texts.documents()
    windows = QUICK_WINDOWS if given.quick else WINDOWS
    planned = Run(setting(SHA256), documents, windows, formats)
    store = Store(given.scores)
    model = Model(packaged_model(Context.default().cache))
    try:
        planned.fill(store, model, progress.say)
    except texts.TextDiffersError as error:
        raise ToolError(str(error), "run it by tox -e rate-distortion", Exit.USAGE) from error
    results = collect(planned, store)
    return Report.of(planned, results, [] if given.quick else goals(results))


def shown_before(file: Path) -> Report:
    """Read a result."""
    from kvbench.report import Report

    try:
        return Report.read(file.read_text("utf-8"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "name a file that --json wrote"
        raise ToolError(f"{file} holds no result of this tool", hint, Exit.USAGE) from error


def deliver(report: Report, given: Namespace) -> None:
    """Print the table, and write the files that were asked for."""
    from rich.console import Console

    from kvbench.page import page
    from kvbench.plot import draw

    terminal = Console()
    report.show(terminal if terminal.is_terminal else Console(width=WIDTH))
    if given.json:
        write_file(given.json, report.as_json())
    if given.docs:
        drawn, written = draw(report.rows), page(report, PLOT)
        write_bytes(given.docs / PLOT, drawn)
        write_file(given.docs / JSON, report.as_json())
        write_bytes(given.docs / PAGE, written.encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        refuse_unwritable("--json", given.json)
        for name in (PLOT, JSON, PAGE):
            refuse_unwritable("--docs", given.docs and given.docs / name)
        report = shown_before(given.source) if given.source else measure(given, Progress())
        deliver(report, given)
        return Exit.DONE if all(goal.met for goal in report.goals) else Exit.FINDINGS

    # Spinning threads of a library that waits would take the cores from one that works; and
    # transformers draws bars, and asks the hub about local folders too.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    return run("rate_distortion.py", body, INSTALL)


if __name__ == "__main__":
    sys.exit(main())
