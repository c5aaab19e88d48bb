#!/usr/bin/env python3
"""Print what hit rate each format of the host cache would give, or check that against real runs.

It simulates SGLang's radix tree, its two tiers, its scheduler and the closed loop of its serving
benchmark, rule by rule and without a fitted constant. Formats have the same bytes, and what they
hold of them by hiqcache's own sizes. With --validate it simulates the requests of runs that
tools/experiment.py wrote, and prints both hit rates.

Exit codes: 0 done, 1 a run differs from its simulation by more than 2 points, 2 usage.
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from formats.models import LARGEST, PRESETS
from patchstack.command import INSTALL_TORCH, Parser, run
from patchstack.errors import Exit, ToolError
from serving.delivery import add_json_option, deliver, refuse_overwriting, refuse_unwritable
from serving.l2 import WRITE_POLICIES, WRITE_THROUGH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.sizes import Pools
    from simulator.sweep import Scene

EXAMPLE = """\
examples:
  tools/simulate.py                                working sets of 0.5 to 4 x the raw L2
  tools/simulate.py --sweep budget --plot hits.svg 8 to 2,048 GB, 8 million tokens of prefixes
  tools/simulate.py --sweep concurrency --at 1 8 64 --zipf 1.1 --json hits.json
  tools/simulate.py --validate results --plot agreement.svg
"""

#: What each sweep varies over, and its own defaults.
SWEEPS: dict[str, dict[str, object]] = {
    "working-set": {"at": [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4]},
    "budget": {
        "at": [8, 16, 32, 64, 128, 256, 512, 1024, 2048],
        "groups": 512, "prefix": 16_384, "l1": 262_144, "repeats": 1,
    },
    "prefix": {"at": [128, 256, 512, 1024, 2048, 4096]},
    "concurrency": {"at": [1, 2, 4, 8, 16, 32]},
}  # fmt: skip
DEFAULTS = {"groups": 32, "prefix": 2048, "l1": 16_384, "repeats": 3}


def positive(text: str) -> float:
    """Parse a number above zero."""
    number = float(text)
    if not 0 < number <= LARGEST:
        raise ArgumentTypeError(f"{text[:20]} is not above zero and at most {LARGEST:,}")
    return number


def whole(text: str) -> int:
    """Parse an integer above zero."""
    if (number := positive(text)) != int(number):
        raise ArgumentTypeError(f"{text[:20]} is not a whole number")
    return int(number)


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("simulate.py", description=__doc__, epilog=EXAMPLE)
    what = options.add_mutually_exclusive_group()
    what.add_argument("--sweep", choices=SWEEPS, default="working-set", help="(working-set)")
    what.add_argument("--validate", type=Path, nargs="+", metavar="RESULTS", help="files, folders")
    options.add_argument("--at", type=positive, nargs="+", metavar="X", help="values of the sweep")
    names = ", ".join(PRESETS)
    options.add_argument("--model", choices=PRESETS, default="qwen3-8b", metavar="NAME",
                         help=f"one of {names} (qwen3-8b)")  # fmt: skip
    options.add_argument("--codec", nargs="+", metavar="CODEC", help="beside none and raw (all)")
    options.add_argument("--size", type=positive, default=8, metavar="GB", help="per rank (8)")
    for name, told in (
        ("--tp", "ranks (1)"), ("--page-size", "tokens per page (1)"),
        ("--prompts", "of each group (4)"), ("--question", "its tokens (32)"),
        ("--output", "tokens of an answer (32)"), ("--concurrency", "requests at a time (8)"),
        ("--groups", "prefixes (32; budget: 512)"), ("--prefix", "its tokens (2048; 16384)"),
        ("--l1", "tokens of the device cache (16384; 262144)"),
        ("--repeats", "shuffles (3; 1)"), ("--chunk", "tokens of a prefill pass (8192)"),
    ):  # fmt: skip
        options.add_argument(name, type=whole, metavar="N", help=told)
    options.set_defaults(tp=1, page_size=1, prompts=4, question=32, output=32, concurrency=8)
    options.set_defaults(chunk=8192)
    options.add_argument("--seed", type=int, default=0, help="of the first shuffle (0)")
    options.add_argument(
        "--zipf", type=positive, metavar="A", help="exponent of the groups' shares"
    )
    options.add_argument("--write-policy", choices=WRITE_POLICIES, default=WRITE_THROUGH,
                         help=f"({WRITE_THROUGH})")  # fmt: skip
    options.add_argument("--plot", type=Path, metavar="FILE", help="draw it (.svg, .png, .pdf)")
    options.flag("--details", help="print what came from where, and what was moved")
    options.quiet()
    add_json_option(options)
    return options


def scene_of(given: Namespace) -> Scene:
    """Return what a sweep does not vary."""
    from evidence.record import Workload
    from simulator.server import Server
    from simulator.sweep import Scene

    for name, value in {**DEFAULTS, **SWEEPS[given.sweep]}.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    workload = Workload(
        given.groups, given.prompts, given.prefix, given.question, given.output,
        given.concurrency, given.seed,
    )  # fmt: skip
    server = Server(
        given.l1, page_size=given.page_size, write_policy=given.write_policy,
        chunk_tokens=given.chunk,
    )  # fmt: skip
    return Scene(workload, server, given.size, given.zipf, given.repeats)


def pools_of(given: Namespace) -> Pools:
    """Return the formats that serve the model."""
    from formats.capacity import Deployment
    from hiqcache.codecs import codec_names
    from simulator.sizes import pools

    for name in given.codec or ():
        if name not in codec_names():
            choose = f"choose {', '.join(codec_names())}"
            raise ToolError(f"--codec {name} is unknown", choose, Exit.USAGE)
    served = Deployment(given.model, PRESETS[given.model], given.tp, given.page_size)
    return pools(served, given.codec or codec_names())


@contextmanager
def telling(given: Namespace, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress on standard error, unless it is not wanted."""
    if given.quiet:
        yield lambda done, total: None
        return
    from serving.progress import on_standard_error

    with on_standard_error() as progress:
        yield lambda done, total: progress.count(what, done, total)


def draw(file: Path, figure: Callable[[], Figure]) -> None:
    """Write a plot."""
    try:
        from simulator.plot import write_figure

        write_figure(figure(), file)
    except ModuleNotFoundError as error:
        hint = "pip install matplotlib"
        raise ToolError(f"--plot needs {error.name}", hint, Exit.USAGE) from error
    except ValueError as error:
        raise ToolError(f"--plot {file}: {error}", "try .svg", Exit.USAGE) from error


def run_sweep(given: Namespace) -> int:
    """Vary a parameter and tell what came of it."""
    from simulator.output import print_sweep, scene_line, sweep_json
    from simulator.sweep import sweep

    try:
        scene, pools = scene_of(given), pools_of(given)
        with telling(given, "points") as told:
            found = sweep(scene, pools, given.sweep, given.at, told)
    except ValueError as error:
        raise ToolError(str(error), "see --help", Exit.USAGE) from error
    if given.plot:
        from simulator.plot import draw_sweep

        title = f"{given.model}: {scene_line(scene, given.sweep)}"
        draw(given.plot, lambda: draw_sweep(found, title))
    told_json = sweep_json(scene, pools, found)
    deliver(lambda: print_sweep(scene, pools, found, given.details), told_json, given.json)
    return Exit.DONE


def run_validation(given: Namespace) -> int:
    """Simulate real runs and tell by how much they differ."""
    from evidence.record import read_for
    from reporting.runs import load_runs
    from simulator.output import print_validation, validation_json
    from simulator.validation import validate

    outputs = {"--plot": given.plot, "--json": given.json}
    refuse_overwriting(outputs, read_for(given.validate, given.json))
    records = load_runs(given.validate)
    try:
        with telling(given, "runs") as told:
            found = validate(records, told)
    except ValueError as error:
        raise ToolError(
            f"a run cannot be simulated: {error}", "leave it out", Exit.USAGE
        ) from error
    if not found:
        raise ToolError("no run can be used", "run tools/experiment.py again", Exit.USAGE)
    if given.plot:
        from simulator.plot import draw_validation

        draw(given.plot, lambda: draw_validation(found))
    unusable = len(records) - len(found)
    deliver(lambda: print_validation(found, unusable), validation_json(found), given.json)
    return Exit.DONE if all(compared.agrees for compared in found) else Exit.FINDINGS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        refuse_unwritable("--plot", given.plot)
        refuse_unwritable("--json", given.json)
        return run_validation(given) if given.validate else run_sweep(given)

    return run("simulate.py", body, INSTALL_TORCH)


if __name__ == "__main__":
    sys.exit(main())
