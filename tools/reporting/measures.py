"""What a run is judged by: figures with their units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from evidence.record import Record
from reporting.spread import Difference, Spread

#: Stands where there is nothing.
NOTHING = "-"


@dataclass(frozen=True)
class Measure:
    """A figure of a run.

    Parameters
    ----------
    name, unit
        What it is called, and what it is counted in.
    of
        Computes it, or returns None where a run has none.
    shown
        Writes a number of it.
    factor
        From what it is computed in to its unit.
    difference_unit
        What differences are counted in, where that is another word.
    """

    name: str
    unit: str
    of: Callable[[Record], float | None]
    shown: Callable[[float], str]
    factor: float = 1.0
    difference_unit: str = ""

    @property
    def title(self) -> str:
        """Name and unit."""
        return f"{self.name}, {self.unit}"

    @property
    def difference_title(self) -> str:
        """Name, and unit of a difference."""
        return f"{self.name}, {self.difference_unit or self.unit}"

    def spread(self, values: Sequence[float]) -> str:
        """Write the median over repeats, with the least and the largest."""
        if not values:
            return NOTHING
        found = Spread.of([self.factor * value for value in values])
        middle, low, high = map(self.shown, (found.median, found.low, found.high))
        return middle if low == high else f"{middle} ({low} to {high})"

    def difference(self, found: Difference) -> str:
        """Write a difference with its interval, or that there is none to be seen."""
        mean, low, high = (
            self._signed(self.factor * bound) for bound in (found.mean, found.low, found.high)
        )
        if found.pairs == 1:
            return "not told apart (one pair)"
        interval = f"({low} to {high})"
        return f"{mean} {interval}" if found.told_apart else f"not told apart {interval}"

    def _signed(self, value: float) -> str:
        return ("+" if value >= 0 else "-") + self.shown(abs(value))


def three_digits(value: float) -> str:
    """Write a number with three significant digits and no exponent where one can do without."""
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def whole(value: float) -> str:
    """Write a number without decimals."""
    return f"{value:,.0f}"


def tenths(value: float) -> str:
    """Write a number with one decimal."""
    return f"{value:.1f}"


def first_tokens(run: Record) -> list[float]:
    """Seconds to the first token of each request whose first token had text."""
    found = [request.first_token_s for request in run.requests]
    return [seconds for seconds in found if seconds is not None]


def _pool(run: Record, name: str) -> float | None:
    return float(getattr(run.pool, name)) if run.pool else None


def _tpot(run: Record) -> float | None:
    found = [request.tpot_s for request in run.requests if request.first_token_s is not None]
    return _of([value for value in found if value is not None], fmean)


def _of(values: Sequence[float], figure: Callable[[Sequence[float]], float]) -> float | None:
    return figure(values) if values else None


def _p99(values: Sequence[float]) -> float:
    return float(np.percentile(values, 99))


HIT_RATE = Measure("hit rate", "%", lambda run: run.hit_rate, tenths, 100.0, "percentage points")
FIRST_TOKEN = Measure(
    "time to first token, mean", "s", lambda run: _of(first_tokens(run), fmean), three_digits
)
#: In the order of the tables.
JUDGED = (
    HIT_RATE,
    Measure("restored from L2", "tokens", lambda run: float(run.host_tokens), whole),
    FIRST_TOKEN,
    Measure(
        "time to first token, p99", "s",
        lambda run: _of(first_tokens(run), _p99), three_digits,
    ),
    Measure("time per output token", "s", _tpot, three_digits),
    Measure("output", "tokens/s", lambda run: run.output_throughput, three_digits),
)  # fmt: skip
#: What the server said about its L2.
POOL = (
    Measure("L2 capacity", "tokens", lambda run: _pool(run, "slots"), whole),
    Measure("L2 memory", "bytes", lambda run: _pool(run, "nbytes"), whole),
    Measure("L2", "bytes/token", lambda run: _pool(run, "size_per_token"), whole),
)
