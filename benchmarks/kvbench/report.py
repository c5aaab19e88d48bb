"""A run's results as a table on the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from kvbench.catalogue import LEGACY
from kvbench.goals import Goal
from kvbench.measure import Run
from kvbench.model import PREFIX, SCORED
from kvbench.results import Result, dominators
from kvbench.statistics import CONFIDENCE, RESAMPLES, Interval
from kvbench.texts import GROUPS

PACKAGES = ("torch", "transformers", "tokenizers")
HEADER = (
    "format", "kind", "bits", "KL, nats/token", f"{CONFIDENCE:.0f} % interval", *GROUPS,
    "largest", "same top-1, %", "ΔPPL, %", "dominated by",
)  # fmt: skip


@dataclass(frozen=True)
class Report:
    """What a run found, ready to be shown.

    Parameters
    ----------
    run
        What was measured.
    results
        Each format's figures.
    goals
        How they were judged; none where too little was measured.
    heads
        KV heads of the model, and their dimension.
    """

    run: Run
    results: Sequence[Result]
    goals: Sequence[Goal]
    heads: tuple[int, int]

    @property
    def tokens(self) -> int:
        """Scored tokens of each format."""
        return len(self.run.documents) * self.run.windows * SCORED

    @property
    def method(self) -> str:
        """What was done, in two sentences."""
        return (
            f"{len(self.run.documents)} documents of {self.run.windows} windows: the KV of a "
            f"{PREFIX:,}-token prefix goes through the format, and the {SCORED} tokens after it "
            f"are scored against BF16 KV, {self.tokens:,} in all. Intervals hold {CONFIDENCE:.0f} "
            f"% of {RESAMPLES:,} resamples of the documents."
        )

    def ordered(self) -> list[Result]:
        """Return the results from the most bits to the fewest."""
        return sorted(self.results, key=lambda result: (-result.bits, result.kl))

    def cells(self, result: Result) -> list[str]:
        """Return a format's row, as :data:`HEADER` names its cells."""
        kl, top1, perplexity = result.kl, result.top1, result.perplexity
        return [
            f"{result.name} (legacy)" if result.name == LEGACY else result.name,
            result.kind,
            f"{result.bits:.3f}",
            f"{kl.estimate:.2e}",
            f"{kl.low:.1e} to {kl.high:.1e}",
            *(f"{result.groups[group]:.1e}" if group in result.groups else "" for group in GROUPS),
            f"{result.largest:.2g}",
            f"{top1.estimate:.2f}",
            f"{perplexity.estimate:+.3f} ({perplexity.low:+.2f} to {perplexity.high:+.2f})",
            ", ".join(dominators(result, self.results)),
        ]

    def rows(self) -> list[list[str]]:
        """Return every format's row."""
        return [self.cells(result) for result in self.ordered()]

    def show(self, console: Console) -> None:
        """Print the table and the goals."""
        name = Column(HEADER[0], no_wrap=True)
        table = Table(name, *HEADER[1:5], *HEADER[8:], caption=self.method)
        for row in self.rows():
            style = "bold" if row[1] == "ours" else None
            table.add_row(*row[:5], *row[8:], style=style)
        console.print(table)
        for goal in self.goals:
            mark = "[green]met[/]   " if goal.met else "[red]missed[/]"
            console.print(f"{mark} {goal.text}: {goal.found}")

    def as_json(self) -> str:
        """Return everything, by document."""
        return json.dumps(
            {
                "setting": self.run.setting,
                "packages": {name: version(name) for name in PACKAGES},
                "windows": self.run.windows,
                "prefix": PREFIX,
                "scored": SCORED,
                "documents": [vars(document) for document in self.run.documents],
                "formats": [self._as_json(result) for result in self.ordered()],
                "goals": [vars(goal) for goal in self.goals],
            },
            indent=1,
        )

    def _as_json(self, result: Result) -> dict[str, Any]:
        return {
            "name": result.name,
            "kind": result.kind,
            "version": result.version,
            "made": result.made,
            "bits": result.bits,
            "kl": _bounds(result.kl),
            "top1_percent": _bounds(result.top1),
            "added_perplexity_percent": _bounds(result.perplexity),
            "largest_kl": result.largest,
            "kl_by_group": dict(result.groups),
            "kl_by_document": result.divergence.tolist(),
            "dominated_by": dominators(result, self.results),
        }


def _bounds(figure: Interval) -> dict[str, float]:
    return figure._asdict()
