"""What a run found: each format's figures over all documents, and how formats compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvbench.formats import Format
from kvbench.measure import Run
from kvbench.statistics import Column, Interval, added_perplexity, mean, ratio
from kvbench.store import Measured, Store
from kvbench.texts import Document


@dataclass(frozen=True)
class Result:
    """One format's figures.

    Parameters
    ----------
    name, kind, version
        The format's.
    made
        The digest of what it makes of a fixed draw.
    bits
        Bits that are allocated for each value.
    divergence
        KL in nats for each token, one value for each document.
    agreement
        Share of tokens with the same most likely successor, for each document.
    surprise
        Added nats for each token of the true text, for each document.
    groups
        Mean KL over the documents of each domain.
    largest
        The largest KL of any token.
    """

    name: str
    kind: str
    version: str
    made: str
    bits: float
    divergence: Column
    agreement: Column
    surprise: Column
    groups: Mapping[str, float]
    largest: float

    @property
    def kl(self) -> Interval:
        """Mean KL."""
        return mean(self.divergence)

    @property
    def top1(self) -> Interval:
        """Agreement in per cent."""
        return mean(100.0 * self.agreement)

    @property
    def perplexity(self) -> Interval:
        """Added perplexity in per cent."""
        return added_perplexity(self.surprise)

    def dominates(self, other: Result) -> bool:
        """Tell whether this format takes no more bits and, by the interval, has a lower KL."""
        if round(self.bits, 2) > round(other.bits, 2):
            return False
        return ratio(self.divergence, other.divergence).high < 1.0


@dataclass(frozen=True)
class Row:
    """What is shown and written of a format, all of which the JSON holds.

    Parameters
    ----------
    name, kind, version, made, bits, groups, largest
        As of a :class:`Result`.
    kl, top1, perplexity
        With their intervals.
    by_document
        KL of each document.
    dominated_by
        Names of the formats that dominate it.
    """

    name: str
    kind: str
    version: str
    made: str
    bits: float
    kl: Interval
    top1: Interval
    perplexity: Interval
    largest: float
    groups: Mapping[str, float]
    by_document: Sequence[float]
    dominated_by: Sequence[str]

    @classmethod
    def of(cls, result: Result, results: Sequence[Result]) -> Row:
        """Compute the row of one of ``results``."""
        return cls(
            name=result.name,
            kind=result.kind,
            version=result.version,
            made=result.made,
            bits=result.bits,
            kl=result.kl,
            top1=result.top1,
            perplexity=result.perplexity,
            largest=result.largest,
            groups=dict(result.groups),
            by_document=result.divergence.tolist(),
            dominated_by=dominators(result, results),
        )

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Row:
        """Return the row that :meth:`as_json` was of."""
        return cls(
            name=kept["name"],
            kind=kept["kind"],
            version=kept["version"],
            made=kept["made"],
            bits=kept["bits"],
            kl=Interval(**kept["kl"]),
            top1=Interval(**kept["top1_percent"]),
            perplexity=Interval(**kept["added_perplexity_percent"]),
            largest=kept["largest_kl"],
            groups=kept["kl_by_group"],
            by_document=kept["kl_by_document"],
            dominated_by=kept["dominated_by"],
        )

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "version": self.version,
            "made": self.made,
            "bits": self.bits,
            "kl": self.kl._asdict(),
            "top1_percent": self.top1._asdict(),
            "added_perplexity_percent": self.perplexity._asdict(),
            "largest_kl": self.largest,
            "kl_by_group": self.groups,
            "kl_by_document": self.by_document,
            "dominated_by": self.dominated_by,
        }


def collect(run: Run, store: Store) -> list[Result]:
    """Return the results of a run whose scores are all in the store."""
    return [_result(form, run, store) for form in run.formats]


def dominators(result: Result, results: Sequence[Result]) -> list[str]:
    """Name the formats that dominate one."""
    return [other.name for other in results if other is not result and other.dominates(result)]


def _result(form: Format, run: Run, store: Store) -> Result:
    rows = [
        [store[run.key(form, document, window)] for window in range(run.windows)]
        for document in run.documents
    ]
    measured = [window for row in rows for window in row]
    divergence = _by_document(rows, "divergence")
    return Result(
        name=form.name,
        kind=form.kind,
        version=form.version,
        made=run.made[form.name],
        bits=8 * sum(part.held for part in measured) / sum(part.elements for part in measured),
        divergence=divergence,
        agreement=_by_document(rows, "agreeing"),
        surprise=_by_document(rows, "surprise"),
        groups=_by_group(run.documents, divergence),
        largest=max(part.score.largest for part in measured),
    )


def _by_document(rows: Sequence[Sequence[Measured]], sum_of: str) -> Column:
    """Return a sum for each token, document by document."""

    def total(row: Sequence[Measured], name: str) -> float:
        return sum(getattr(window.score, name) for window in row)

    return np.array([total(row, sum_of) / total(row, "tokens") for row in rows])


def _by_group(documents: Sequence[Document], column: Column) -> dict[str, float]:
    groups = [document.group for document in documents]
    return {
        group: float(
            np.mean([value for value, of in zip(column, groups, strict=True) if of == group])
        )
        for group in dict.fromkeys(groups)
    }
