#!/usr/bin/env python3
"""Serve SGLang's shared-prefix workload without an L2, with a raw one and with encoded ones.

Each run is one server of the patched release, driven by SGLang's own serving benchmark, and is
written as one JSON file. A run that cannot be used is kept under a name that says so. Runs that are
there already are not run again, so that a command that was stopped goes on.

Exit codes: 0 done, 1 a run cannot be used or a server failed, 2 usage.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from patchstack.command import INSTALL_TORCH, Parser, at_least_one, run
from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from evidence.record import Record
    from serving.progress import Progress

EXAMPLE = """\
examples:
  tools/experiment.py equal-bytes                    results/runs/equal-bytes/*.json
  tools/experiment.py working-set --scale small --repeats 1
  tools/experiment.py restore
"""
RESTORE = "restore"


def parser() -> Parser:
    """Return the command line's parser."""
    from evidence.cases import CASES, SCALES

    told = "\n".join(f"  {name:<16}{case.about}" for name, case in CASES.items())
    more = f"experiments:\n{told}\n  {RESTORE:<16}time to the first token, computed and restored"
    options = Parser("experiment.py", description=__doc__, epilog=f"{more}\n\n{EXAMPLE}")
    add = options.add_argument
    add("experiment", choices=(*CASES, RESTORE), metavar="EXPERIMENT", help="which (below)")
    add("--scale", choices=SCALES, default="full", help="how large it is (full)")
    add("--repeats", type=at_least_one, metavar="N", help="how often (by the scale)")
    add("--configurations", metavar="A,B,...", help="none, raw and codecs (by the experiment)")
    add("--model", type=Path, metavar="DIR", help="a Hugging Face folder (a small random model)")
    told = "tokens of the raw L2, whose bytes each L2 gets (by the scale)"
    add("--l2-tokens", type=at_least_one, metavar="N", help=told)
    told = "tokens per page (1; of restores 64)"
    add("--page-size", type=at_least_one, metavar="N", help=told)
    add("--out", type=Path, default=Path("results"), metavar="DIR", help="where runs go (results)")
    options.flag("--dry-run", help="say what it should show, by simulation, and run nothing")
    return options


def configurations(given: Namespace, default: Sequence[str]) -> tuple[str, ...]:
    """Return the configurations that were asked for."""
    from evidence.record import NO_L2, RAW
    from hiqcache.codecs import codec_names

    names = tuple(given.configurations.split(",")) if given.configurations else tuple(default)
    if len(set(names)) < len(names):
        raise ToolError(f"{given.configurations} has one twice", "name each once", Exit.USAGE)
    known = (RAW, *codec_names()) if given.experiment == RESTORE else (NO_L2, RAW, *codec_names())
    for name in names:
        if name not in known:
            raise ToolError(
                f"no configuration {name!r}", f"choose from {', '.join(known)}", Exit.USAGE
            )
    return names


def run_case(given: Namespace, model: Path, progress: Progress) -> Exit:
    """Run an experiment of the serving benchmark."""
    from evidence.cases import CASES, SCALES
    from evidence.record import read_record
    from evidence.running import Experiment, run_experiment
    from simulator.expectation import expected
    from simulator.expectation import sentence as expectation

    case, scale = CASES[given.experiment], SCALES[given.scale]
    case = replace(case, configurations=configurations(given, case.configurations))
    scale = replace(
        scale,
        repeats=given.repeats or scale.repeats,
        l2_tokens=given.l2_tokens or scale.l2_tokens,
        page_size=given.page_size or scale.page_size,
    )
    refuse_part_of_a_page(scale.l1_tokens, scale.page_size)
    experiment = Experiment(given.experiment, case, scale, model)
    try:
        for working_set, rates in expected(experiment):
            progress.say(expectation(working_set, rates))
    except ValueError as error:  # no codec for the model, no L2 of the size, no room in L1
        hint = "choose others by --configurations, --page-size or --l2-tokens"
        raise ToolError(str(error), hint, Exit.USAGE) from error
    if given.dry_run:
        return Exit.DONE
    folder = given.out / "runs" / given.experiment
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(given.out):
        records = [read_record(file) for file in run_experiment(experiment, folder, progress)]
    for record in records:
        print(sentence(record))
    return Exit.FINDINGS if any(record.invalid for record in records) else Exit.DONE


def alone_in(folder: Path) -> AbstractContextManager[None]:
    """Wait for another experiment that writes there, and keep others out."""
    from patchstack.locking import held
    from patchstack.report import Progress as StackProgress

    return held([folder], StackProgress())


def refuse_part_of_a_page(tokens: int, page_size: int) -> None:
    """Refuse pages that an L1, or a prefix, of so many tokens is not a whole number of."""
    if tokens % page_size:
        raise ToolError(
            f"--page-size {page_size}: {tokens:,} tokens are not whole pages",
            "take a power of two",
            Exit.USAGE,
        )


def sentence(record: Record) -> str:
    """Say what a run came to, in one line."""
    workload = record.setup.workload
    first = [seconds for each in record.requests if (seconds := each.first_token_s) is not None]
    ttft = f"{fmean(first):.2f} s on average" if first else "without text"
    told = (
        f"{record.name}: working set {workload.working_set_tokens:,} tokens, L2 "
        f"{record.setup.l2_tokens:,}; hit rate {record.hit_rate:.1%}, restored "
        f"{record.host_tokens:,} tokens, first token {ttft}"
    )
    return f"{told}; INVALID: {record.invalid}" if record.invalid else told


def run_restore(given: Namespace, model: Path, progress: Progress) -> Exit:
    """Measure restores of prefixes."""
    from evidence.cases import FORMATS
    from evidence.record import RAW
    from evidence.restore import FULL, SMALL, measure

    lengths = FULL if given.scale == "full" else SMALL
    lengths = replace(
        lengths,
        repeats=given.repeats or lengths.repeats,
        page_size=given.page_size or lengths.page_size,
    )
    refuse_part_of_a_page(min(lengths.prefixes), lengths.page_size)
    names = configurations(given, (RAW, *FORMATS))
    file = given.out / f"{RESTORE}.json"
    with alone_in(given.out):
        measure(model, names, lengths, file, progress)
    print(file)
    return Exit.DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        from evidence.random_model import random_model
        from patchstack.context import Context
        from serving.environment import refuse_unpatched
        from serving.progress import on_standard_error

        if given.dry_run and given.experiment == RESTORE:
            what = "--dry-run: restores are not simulated"
            raise ToolError(what, "leave it out to measure", Exit.USAGE)
        if not given.dry_run:
            refuse_unpatched("reproduce")
        with on_standard_error() as progress:
            progress.stage("preparing the model")
            model = given.model.absolute() if given.model else random_model(Context.default().cache)
            work = run_restore if given.experiment == RESTORE else run_case
            return work(given, model, progress)

    return run("experiment.py", body, INSTALL_TORCH)


if __name__ == "__main__":
    sys.exit(main())
