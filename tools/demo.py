#!/usr/bin/env python3
"""Show on a CPU what an INT8 L2 does: the same memory holds more prefixes.

SGLang's server serves the same requests three times: without an L2, with a raw BF16 one, and with
an INT8 one of the same bytes. The prefixes overflow the raw L2 and fit the INT8 one. It needs the
patched SGLang and takes minutes.

Exit codes: 0 done, 1 no result (a server failed, or nothing was restored), 2 usage, 4 the model's
package is not the expected one.
"""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Parser, run
from patchstack.errors import Exit
from serving.delivery import add_json_option, deliver, refuse_unwritable

if TYPE_CHECKING:
    from serving.results import Comparison

EXAMPLE = """\
examples:
  tools/demo.py                        the table
  tools/demo.py --quick --json         the short form, as JSON
"""
CODEC = "int8"


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser(
        "demo.py",
        description=__doc__,
        epilog=EXAMPLE,
    )
    options.add_argument("--quick", action="store_true", help="fewer and shorter prompts")
    add_json_option(options)
    model_help = "a Hugging Face folder of a BF16 model (SmolLM2-135M-Instruct, made once)"
    options.add_argument("--model", type=Path, metavar="DIR", help=model_help)
    options.add_argument("--seed", type=int, default=0, help="of the requests' draw (0)")
    return options


def measure(given: Namespace) -> Comparison:
    """Serve the requests and return what came of it."""
    from patchstack.context import Context
    from serving.comparison import carry_out, plan_comparison
    from serving.launch import logs_folder
    from serving.model import packaged_model
    from serving.progress import on_standard_error
    from serving.workload import FULL, QUICK

    scale = QUICK if given.quick else FULL
    with on_standard_error() as progress:
        progress.stage("preparing the model and the requests")
        model = given.model.absolute() if given.model else packaged_model(Context.default().cache)
        plan = plan_comparison(model, CODEC, scale, given.seed)
        progress.say(plan.expectation.sentence())
        with logs_folder("demo") as folder:
            return carry_out(plan, folder, progress)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        refuse_unwritable("--json", given.json)
        from serving.environment import refuse_unpatched

        refuse_unpatched("demo")
        # What ends a job ends it as Ctrl-C does: with the server stopped.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        comparison = measure(given)
        from serving.output import print_table, to_json

        deliver(lambda: print_table(comparison), to_json(comparison, vars(given)), given.json)
        return Exit.DONE

    return run("demo.py", body)


if __name__ == "__main__":
    sys.exit(main())
