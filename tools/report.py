#!/usr/bin/env python3
"""Write what runs of tools/experiment.py say as a page: tables, differences, drawings.

Figures are medians over the repeats, with the least and the largest. A difference is one where the
interval over the repeats excludes zero; elsewhere the page says that the two are not told apart.

Exit codes: 0 done, 1 --check found a stale page, 2 usage.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from patchstack.command import INSTALL_TORCH, Parser, run
from patchstack.errors import Exit, ToolError
from serving.delivery import add_json_option, deliver, refuse_overwriting, refuse_unwritable

EXAMPLE = """\
examples:
  tools/report.py build/runs --html build/results.html
  tools/report.py docs/runs --page docs/results.md --rate-distortion docs/rate-distortion.json
  tools/report.py docs/runs --page docs/results.md --check     whether the page is stale
"""


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("report.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument(
        "results", type=Path, nargs="+", metavar="RESULTS", help="files of runs, or folders"
    )
    for name, told in (
        ("restore", "prefix lengths, restored and computed"),
        ("rate-distortion", "docs/rate-distortion.json"),
        ("validation", "a validation of tools/simulate.py"),
        ("html", "write one HTML page there"),
        ("page", "write Markdown there, and its drawings in a folder beside it"),
    ):
        options.add_argument(f"--{name}", type=Path, metavar="FILE", help=told)
    options.add_argument(
        "--simulation", type=Path, nargs="+", metavar="FILE",
        help="sweeps of tools/simulate.py, each of something else",
    )  # fmt: skip
    options.flag("--check", help="write nothing; exit with 1 if a page is not what it would be now")
    add_json_option(options)
    return options


def refuse(given: Namespace) -> None:
    """Refuse what could not be written, and a check of nothing."""
    from reporting.files import refuse_folder

    if given.check:
        if not (given.html or given.page):
            raise ToolError("--check has nothing to look at", "name --page or --html", Exit.USAGE)
        if given.json:
            raise ToolError("--check has no JSON", "leave --json out", Exit.USAGE)
        return
    for name in ("html", "page", "json"):
        refuse_unwritable(f"--{name}", getattr(given, name))
    refuse_folder(given.page)
    _refuse_overwriting(given)


def _refuse_overwriting(given: Namespace) -> None:
    """Refuse to write over what is read, or over a run that --json has taken for its file."""
    from evidence.record import read_for

    others = [*(given.simulation or ()), given.restore, given.validation, given.rate_distortion]
    inputs = [*read_for(given.results, given.json), *(file for file in others if file)]
    outputs = {f"--{name}": getattr(given, name) for name in ("html", "page", "json")}
    refuse_overwriting(outputs, inputs)


def report(given: Namespace) -> Exit:
    """Read, and write or compare."""
    from reporting.document import make_document
    from reporting.files import make_files, stale, write_files
    from reporting.inputs import load_inputs
    from reporting.output import print_table, to_json

    refuse(given)
    inputs = load_inputs(given)
    files = make_files(make_document(inputs), given.html, given.page)
    as_json = to_json(inputs.results)
    if given.check:
        lines = list(stale(files, given.page))
        print("\n".join(lines) if lines else "the page is what the results say")
        return Exit.FINDINGS if lines else Exit.DONE
    write_files(files)
    deliver(lambda: print_table(inputs.results), as_json, given.json)
    return Exit.DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        try:
            return report(given)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                raise
            hint = "pip install matplotlib"
            raise ToolError("drawings need matplotlib", hint, Exit.USAGE) from error

    return run("report.py", body, INSTALL_TORCH)


if __name__ == "__main__":
    sys.exit(main())
