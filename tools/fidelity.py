#!/usr/bin/env python3
"""Print how far INT8 blocks are from the values they were made of.

Five inputs are encoded and decoded on the device, and every element is held to the proven bound
by an exact reference on the CPU. The inputs come from fixed seeds.

Exit codes: 0 the bound holds, 1 it does not, or the codec differs from the reference, 2 usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from patchstack.command import INSTALL_TORCH, Parser, run
from patchstack.errors import Exit

if TYPE_CHECKING:
    import torch

    from hiqcache.fidelity import BoundReport

EXAMPLE = """\
examples:
  tools/fidelity.py
  tools/fidelity.py --device cuda --json
"""

KV_HEADS, HEAD_DIM = 8, 128


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser(
        "fidelity.py",
        description=__doc__,
        epilog=EXAMPLE,
    )
    options.add_argument("--device", default="cpu", help="where the codec runs (cpu)")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    return options


@dataclass(frozen=True)
class Measured:
    """One input's report, or what broke the bound."""

    name: str
    tokens: int
    report: BoundReport | None
    violation: str | None

    @property
    def findings(self) -> list[str]:
        """What is wrong, if anything."""
        if self.report is None:
            return [f"{self.name}: {self.violation}"]
        found = {
            f"{self.report.differing} elements differ from the reference": self.report.differing,
            "encoding what was restored gives other bytes": not self.report.idempotent,
        }
        return [f"{self.name}: {text}" for text, is_so in found.items() if is_so]


def inputs() -> dict[str, torch.Tensor]:
    """Return the rows to measure, by name."""
    import torch

    def normal(tokens: int, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn((tokens, KV_HEADS, HEAD_DIM), generator=generator)

    integers = torch.arange(256 * KV_HEADS * HEAD_DIM).view(256, KV_HEADS, HEAD_DIM) % 255 - 127
    integers[..., 0] = 127  # so that the step is a power of two and nothing is rounded
    rows = {
        "random_unit": normal(256, seed=0),
        "qwen3_8b_shaped": normal(512, seed=2),
        "random_large": normal(256, seed=3) * 1000,
        "all_zeros": torch.zeros((256, KV_HEADS, HEAD_DIM)),
        "exact_grid": integers / 64,
    }
    return {name: values.bfloat16() for name, values in rows.items()}


def measure(device: torch.device) -> list[Measured]:
    """Measure every input on ``device``."""
    import torch

    from hiqcache.codecs.int8 import Int8Block
    from hiqcache.fidelity import ErrorBoundViolated, verified_error_bound
    from hiqcache.geometry import PageRows

    block = Int8Block(PageRows(1, KV_HEADS, HEAD_DIM, torch.bfloat16))
    results = []
    for name, rows in inputs().items():
        report, violation = None, None
        try:
            report = verified_error_bound(rows.to(device), block)
        except ErrorBoundViolated as error:
            violation = str(error)
        results.append(Measured(name, rows.shape[0], report, violation))
    return results


def as_json(device: torch.device, results: Sequence[Measured]) -> str:
    """Return the whole result as JSON."""
    document: dict[str, Any] = {
        "device": str(device),
        "holds": not any(result.findings for result in results),
        "inputs": [asdict(result) for result in results],
    }
    return json.dumps(document, indent=2)


def print_table(results: Sequence[Measured]) -> None:
    """Print the result as a table, a row for each input."""
    from rich import box
    from rich.table import Table

    from serving.printing import Printer

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("input")
    for heading in ("max |y-x|/s", "mean |y-x|", "p99 |y-x|", "bound used"):
        table.add_column(heading, justify="right")
    for result in results:
        if result.report is None:
            table.add_row(result.name, "-", "-", "-", "violated")
            continue
        errors = result.report.errors
        numbers = (errors.mean_abs, errors.p99_abs)
        table.add_row(
            result.name,
            f"{errors.max_normalised:.3f}",
            *(f"{number:.3g}" for number in numbers),
            f"{result.report.total:.1%}",
        )
    Printer().table(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = parser().parse_args(argv)
        from formats.device import usable_device

        device = usable_device(arguments.device)
        results = measure(device)
        if arguments.json:
            print(as_json(device, results))
        else:
            print_table(results)
        findings = [finding for result in results for finding in result.findings]
        for finding in findings:
            print(f"fidelity.py: {finding}", file=sys.stderr)
        return Exit.FINDINGS if findings else Exit.DONE

    return run("fidelity.py", body, INSTALL_TORCH)


if __name__ == "__main__":
    sys.exit(main())
