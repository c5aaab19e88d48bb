"""Confidence intervals by document.

The tokens of a text are alike, so that they are no independent draws; texts are. An interval is
the spread of a figure over resamples of the documents, the same ones for every format, so that
what two formats share on a text cancels where they are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
SEED = 0
#: Per cent of the resamples that an interval holds.
CONFIDENCE = 95.0

Column: TypeAlias = NDArray[np.float64]


class Interval(NamedTuple):
    """An estimate and the bounds that hold :data:`CONFIDENCE` per cent of its resamples."""

    estimate: float
    low: float
    high: float


def interval(figure: Callable[..., Column], *columns: Column) -> Interval:
    """Return a figure's estimate and its bounds.

    Parameters
    ----------
    figure
        Computes it from the mean of each column.
    columns
        One value for each document.
    """
    count = len(columns[0])
    draws = np.random.default_rng(SEED).integers(count, size=(RESAMPLES, count))
    resampled = figure(*(column[draws].mean(axis=1) for column in columns))
    outside = (100.0 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [outside, 100.0 - outside])
    return Interval(float(figure(*(column.mean() for column in columns))), float(low), float(high))


def mean(column: Column) -> Interval:
    """Return the interval of a mean."""
    return interval(lambda value: value, column)


def ratio(column: Column, other: Column) -> Interval:
    """Return the interval of one mean divided by another."""
    return interval(lambda value, base: value / base, column, other)


def added_perplexity(surprise: Column) -> Interval:
    """Return the interval of what perplexity gains, in per cent, from nats per token."""
    return interval(lambda value: 100.0 * np.expm1(value), surprise)
