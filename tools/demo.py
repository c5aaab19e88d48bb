#!/usr/bin/env python3
"""Show on a CPU what an INT8 L2 does: the same memory holds more prefixes.

SGLang's server serves the same requests three times: without an L2, with a raw BF16 one, and with
an INT8 one of the same bytes. The prefixes overflow the raw L2 and fit the INT8 one. It needs the
patched SGLang and takes minutes.

Exit codes: 0 done, 1 no result (a server failed, or nothing was restored), 2 usage, 4 the model's
package is not the expected one.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Parser, run
from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from serving.results import Comparison

EXAMPLE = """\
examples:
  tools/demo.py                        the table
  tools/demo.py --quick --json         the short form, as JSON
"""
STANDARD_OUTPUT = Path("-")
CODEC = "int8"


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser(
        "demo.py",
        description=__doc__,
        epilog=EXAMPLE,
    )
    options.add_argument("--quick", action="store_true", help="fewer and shorter prompts")
    json_help = "print the result as JSON, or write it to FILE beside the table"
    options.add_argument(
        "--json", type=Path, nargs="?", const=STANDARD_OUTPUT, metavar="FILE", help=json_help
    )
    model_help = "a Hugging Face folder of a BF16 model (SmolLM2-135M-Instruct, made once)"
    options.add_argument("--model", type=Path, metavar="DIR", help=model_help)
    options.add_argument("--seed", type=int, default=0, help="of the requests' draw (0)")
    return options


def refuse_unwritable(file: Path | None) -> None:
    """Refuse an output file that could not be written, before the minutes that fill it."""
    if file and not file.absolute().parent.is_dir():
        raise ToolError(f"--json {file}: no such folder", f"mkdir -p {file.parent}", Exit.USAGE)


@contextmanager
def logs_folder() -> Iterator[Path]:
    """Give a temporary folder that stays if something failed, but not if it was interrupted."""
    folder = Path(tempfile.mkdtemp(prefix="hiqcache-demo-"))
    failed = False
    try:
        yield folder
    except Exception:
        failed = True
        raise
    finally:
        if not failed:
            shutil.rmtree(folder)


def measure(given: Namespace) -> Comparison:
    """Serve the requests and return what came of it."""
    from patchstack.context import Context
    from serving.comparison import carry_out, plan_comparison
    from serving.model import packaged_model
    from serving.progress import on_standard_error
    from serving.workload import FULL, QUICK

    scale = QUICK if given.quick else FULL
    with on_standard_error() as progress:
        progress.stage("preparing the model and the requests")
        model = given.model.absolute() if given.model else packaged_model(Context.default().cache)
        plan = plan_comparison(model, CODEC, scale, given.seed)
        progress.say(plan.expectation.sentence())
        with logs_folder() as folder:
            return carry_out(plan, folder, progress)


def deliver(comparison: Comparison, given: Namespace) -> None:
    """Print the table, the JSON, or write the one and print the other."""
    from serving.output import print_table, to_json, write_file

    if given.json != STANDARD_OUTPUT:
        print_table(comparison)
    if given.json is None:
        return
    text = to_json(comparison, vars(given))
    if given.json == STANDARD_OUTPUT:
        print(text)
    else:
        write_file(given.json, text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        refuse_unwritable(given.json)
        from serving.environment import refuse_unpatched

        refuse_unpatched()
        # What ends a job ends it as Ctrl-C does: with the server stopped.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        deliver(measure(given), given)
        return Exit.DONE

    return run("demo.py", body)


if __name__ == "__main__":
    sys.exit(main())
