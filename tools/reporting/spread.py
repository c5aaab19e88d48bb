"""A figure over repeats, and the difference of two configurations that took turns.

Two runs of the same repeat shared the machine's mood, so they are compared as a pair. The interval
is Student's over the pairs. With the three to five repeats of an experiment, a bootstrap's interval
is too narrow: of two equal configurations it would call one better in every sixth comparison or
more, and not in one of twenty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

#: Per cent of the intervals that hold what they estimate.
CONFIDENCE = 95
#: Of fewer pairs no difference is claimed.
FEWEST_PAIRS = 3
#: Student's quantile at 97.5 % by degrees of freedom, from 1.
_QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
_NORMAL = 1.960


@dataclass(frozen=True)
class Spread:
    """A figure's median over the repeats, and its least and its largest value."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise values, of which there is at least one."""
        return cls(median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Difference:
    """The mean difference of pairs, and the interval that it was found with."""

    mean: float
    low: float
    high: float
    pairs: int

    @property
    def told_apart(self) -> bool:
        """Whether the interval excludes zero; two pairs that agree by chance have no interval."""
        return self.pairs >= FEWEST_PAIRS and (self.low > 0 or self.high < 0)

    @classmethod
    def between(cls, values: Sequence[float], others: Sequence[float]) -> Difference:
        """Compare pair by pair; of one pair nothing is known, so its interval is endless.

        Raises
        ------
        ValueError
            If there is no pair.
        """
        apart = [value - other for value, other in zip(values, others, strict=True)]
        if not apart:
            raise ValueError("there is no pair")
        mean = fmean(apart)
        if len(apart) == 1:
            return cls(mean, -math.inf, math.inf, 1)
        half = _quantile(len(apart) - 1) * stdev(apart) / math.sqrt(len(apart))
        return cls(mean, mean - half, mean + half, len(apart))


def _quantile(freedom: int) -> float:
    """Student's quantile; past the table, a little more than it, which goes with 2.4 / freedom."""
    if freedom <= len(_QUANTILES):
        return _QUANTILES[freedom - 1]
    return _NORMAL + 2.6 / freedom
