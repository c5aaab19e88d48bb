"""A run's results as a table on the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console
from rich.table import Column, Table

from kvbench.goals import Goal
from kvbench.measure import Run
from kvbench.model import PREFIX, SCORED
from kvbench.results import Result, Row
from kvbench.statistics import CONFIDENCE, RESAMPLES
from kvbench.texts import GROUPS, Document

PACKAGES = ("torch", "transformers", "tokenizers")
HEADER = (
    "format", "kind", "bits", "KL, nats/token", f"{CONFIDENCE:.0f} % interval", *GROUPS,
    "largest", "same top-1, %", "ΔPPL, %", "dominated by",
)  # fmt: skip


@dataclass(frozen=True)
class Report:
    """What a run found: all that is shown of it, and all that its JSON holds.

    Parameters
    ----------
    setting
        Digest of what every score depends on.
    packages
        What it was computed with, by name.
    windows, prefix, scored
        Windows of each document, and tokens of each window.
    documents
        The texts.
    rows
        Each format's figures, from the most bits to the fewest.
    goals
        How they were judged; none where too little was measured.
    """

    setting: str
    packages: Mapping[str, str]
    windows: int
    prefix: int
    scored: int
    documents: Sequence[Document]
    rows: Sequence[Row]
    goals: Sequence[Goal]

    @classmethod
    def of(cls, run: Run, results: Sequence[Result], goals: Sequence[Goal]) -> Report:
        """Put together what a run found."""
        ordered = sorted(results, key=lambda result: (-result.bits, result.kl))
        return cls(
            setting=run.setting,
            packages={name: version(name) for name in PACKAGES},
            windows=run.windows,
            prefix=PREFIX,
            scored=SCORED,
            documents=run.documents,
            rows=[Row.of(result, results) for result in ordered],
            goals=goals,
        )

    @classmethod
    def read(cls, text: str) -> Report:
        """Return the report whose JSON this is.

        Raises
        ------
        ValueError, TypeError, KeyError
            If it is that of no report.
        """
        kept = json.loads(text)
        return cls(
            setting=kept["setting"],
            packages=kept["packages"],
            windows=kept["windows"],
            prefix=kept["prefix"],
            scored=kept["scored"],
            documents=[Document(**document) for document in kept["documents"]],
            rows=[Row.read(row) for row in kept["formats"]],
            goals=[Goal(**goal) for goal in kept["goals"]],
        )

    @property
    def tokens(self) -> int:
        """Scored tokens of each format."""
        return len(self.documents) * self.windows * self.scored

    @property
    def method(self) -> str:
        """What was done, in two sentences."""
        return (
            f"{len(self.documents)} documents of {self.windows} windows: the KV of a "
            f"{self.prefix:,}-token prefix goes through the format, and the {self.scored} tokens "
            f"after it are scored against BF16 KV, {self.tokens:,} in all. Intervals hold "
            f"{CONFIDENCE:.0f} % of {RESAMPLES:,} resamples of the documents."
        )

    def cells(self) -> list[list[str]]:
        """Return every format's row, as :data:`HEADER` names its cells."""
        return [_cells(row) for row in self.rows]

    def show(self, console: Console) -> None:
        """Print the table and the goals."""
        name = Column(HEADER[0], no_wrap=True)
        table = Table(name, *HEADER[1:5], *HEADER[8:], caption=self.method)
        for row in self.cells():
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
                "setting": self.setting,
                "packages": self.packages,
                "windows": self.windows,
                "prefix": self.prefix,
                "scored": self.scored,
                "documents": [vars(document) for document in self.documents],
                "formats": [row.as_json() for row in self.rows],
                "goals": [vars(goal) for goal in self.goals],
            },
            indent=1,
        )


def _cells(row: Row) -> list[str]:
    kl, top1, perplexity = row.kl, row.top1, row.perplexity
    return [
        row.name,
        row.kind,
        f"{row.bits:.3f}",
        f"{kl.estimate:.2e}",
        f"{kl.low:.1e} to {kl.high:.1e}",
        *(f"{row.groups[group]:.1e}" if group in row.groups else "" for group in GROUPS),
        f"{row.largest:.2g}",
        f"{top1.estimate:.2f}",
        f"{perplexity.estimate:+.3f} ({perplexity.low:+.2f} to {perplexity.high:+.2f})",
        ", ".join(row.dominated_by),
    ]
