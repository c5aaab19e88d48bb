#!/usr/bin/env python3
"""Run all experiments from nothing and write the page that says what they came to.

Experiments that were carried out already are not run again: remove --out to start anew. With
--quick everything is an eighth as large and once, in --out build/reproduce-quick, and so is its
page. The project's own results, which docs/results.md is made from, are in results/.

Exit codes: 0 done, 1 a run or a simulation is not what it should be, 2 usage.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Parser, run
from patchstack.errors import Exit, ToolError

TOOLS = Path(__file__).resolve().parent
#: The scale ``small`` of tools/experiment.py, in the simulation's words. Of Qwen3-8B one gigabyte
#: is as many tokens.
_SMALL = (
    *("--size", "1", "--l1", "2048", "--prefix", "256", "--question", "4", "--output", "4"),
    *("--chunk", "4096"),
)
_WORKING_SET = {"working-set": _SMALL}
EXAMPLE = """\
examples:
  tools/reproduce.py --quick          under ten minutes on two cores
  tools/reproduce.py                  build/reproduce and docs/results.md, in about three hours
  tools/reproduce.py --list           the commands, to run one by one
"""


@dataclass(frozen=True)
class Plan:
    """What is run, and where the page goes.

    Parameters
    ----------
    experiments
        Arguments of tools/experiment.py, one call each.
    out
        Where results go.
    page
        The Markdown page.
    sweeps
        Arguments of tools/simulate.py by the name of the file that each call writes.
    """

    experiments: tuple[tuple[str, ...], ...]
    out: Path
    page: Path
    sweeps: Mapping[str, tuple[str, ...]]

    @property
    def simulations(self) -> Path:
        """The folder of the sweeps, which is there before they are."""
        return self.out / "simulation"

    def commands(self) -> Iterator[list[str]]:
        """Yield the commands in their order, each a tool and its arguments."""
        out = str(self.out)
        for experiment in self.experiments:
            yield ["experiment.py", *experiment, "--out", out]
        simulations = {name: str(self.simulations / f"{name}.json") for name in self.sweeps}
        for name, sweep in self.sweeps.items():
            yield ["simulate.py", *sweep, "--json", simulations[name]]
        validation = f"{out}/validation.json"
        yield ["simulate.py", "--validate", f"{out}/runs", "--json", validation]
        yield [
            *("report.py", f"{out}/runs", "--restore", f"{out}/restore.json"),
            *("--simulation", *simulations.values(), "--validation", validation),
            *("--rate-distortion", "docs/rate-distortion.json"),
            *("--page", str(self.page), "--html", f"{out}/results.html"),
        ]


def full(out: Path) -> Plan:
    """Return everything, at the scale at which the effect was first published."""
    small = ("--scale", "small", "--repeats", "1")
    return Plan(
        (
            ("equal-bytes",),
            ("equal-tokens", "--repeats", "3"),
            ("write-back", "--repeats", "1"),
            ("formats", "--repeats", "1"),
            ("working-set", *small),
            ("prefix-length", *small),
            ("concurrency", *small),
            ("restore",),
        ),
        out,
        Path("docs/results.md"),
        {
            **_WORKING_SET,
            "budget": ("--sweep", "budget"),
            "prefix": ("--sweep", "prefix", *_SMALL, "--at", "64", "128", "256", "512"),
            "concurrency": ("--sweep", "concurrency", *_SMALL, "--at", "1", "4", "8", "16"),
        },
    )


def quick(out: Path) -> Plan:
    """Return the short form."""
    small = ("--scale", "small")
    return Plan(
        (("equal-bytes", *small, "--repeats", "1"), ("restore", *small)),
        out,
        out / "results.md",
        _WORKING_SET,
    )


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("reproduce.py", description=__doc__, epilog=EXAMPLE)
    options.flag("--quick", help="the short form")
    options.flag("--list", help="print the commands, which need OUT/simulation, and run none")
    told = "where results go (build/reproduce; with --quick build/reproduce-quick)"
    options.add_argument("--out", type=Path, metavar="DIR", help=told)
    return options


def carry_out(plan: Plan) -> None:
    """Run the commands until one fails."""
    plan.simulations.mkdir(parents=True, exist_ok=True)
    differs = False
    for tool, *arguments in plan.commands():
        print(f"== tools/{shlex.join([tool, *arguments])}", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, str(TOOLS / tool), *arguments], cwd=TOOLS.parent)
        if done.returncode == Exit.FINDINGS and "--validate" in arguments:
            differs = True  # which the page shows
        elif done.returncode:
            raise ToolError(
                f"tools/{tool} {arguments[0]} ended with code {done.returncode}",
                "see what it said above; what was done is kept, so run the same command again",
                Exit.FINDINGS,
            )
    if differs:
        raise ToolError(
            "a run differs from its simulation by more than 2 points",
            f"see {plan.page}, and tools/simulate.py --validate {plan.out}/runs",
            Exit.FINDINGS,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        chosen, default = (
            (quick, "build/reproduce-quick") if given.quick else (full, "build/reproduce")
        )
        # The tools run in the project's folder; a path is meant from where this one was called.
        out = Path(os.path.relpath(given.out.absolute(), TOOLS.parent)) if given.out else None
        plan = chosen(out or Path(default))
        if given.list:
            for tool, *arguments in plan.commands():
                print(f"tools/{shlex.join([tool, *arguments])}")
            return Exit.DONE
        from serving.environment import refuse_unpatched

        refuse_unpatched("reproduce")
        carry_out(plan)
        return Exit.DONE

    return run("reproduce.py", body)


if __name__ == "__main__":
    sys.exit(main())
