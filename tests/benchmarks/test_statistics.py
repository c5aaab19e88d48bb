"""Confidence intervals by document."""

from __future__ import annotations

import numpy as np
import pytest

from kvbench.statistics import added_perplexity, interval, mean, ratio


def test_equal_documents_leave_no_doubt() -> None:
    assert mean(np.full(9, 0.25)) == (0.25, 0.25, 0.25)


def test_a_mean_has_the_width_that_normal_draws_have() -> None:
    column = np.random.default_rng(1).normal(10.0, 2.0, size=400)
    found = mean(column)
    half = 1.96 * column.std() / np.sqrt(len(column))
    assert found.estimate == pytest.approx(column.mean())
    assert found.low == pytest.approx(found.estimate - half, abs=0.1 * half)
    assert found.high == pytest.approx(found.estimate + half, abs=0.1 * half)


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    draws = np.random.default_rng(2).exponential(1.0, size=(200, 40))
    inside = [low <= 1.0 <= high for _, low, high in map(mean, draws)]
    assert 0.88 <= np.mean(inside) <= 0.99


def test_what_two_formats_share_cancels_in_their_ratio() -> None:
    hard = np.random.default_rng(3).lognormal(size=27)
    assert mean(hard).high > 1.3 * mean(hard).low
    assert ratio(0.5 * hard, hard) == pytest.approx((0.5, 0.5, 0.5))


def test_the_same_figures_have_the_same_interval() -> None:
    column = np.random.default_rng(4).random(27)
    assert mean(column) == mean(column.copy())


def test_perplexity_is_that_of_the_mean_surprise() -> None:
    surprise = np.array([0.0, 0.02])
    assert added_perplexity(surprise).estimate == pytest.approx(100 * (np.exp(0.01) - 1))


def test_a_figure_of_several_columns_takes_the_same_documents_of_each() -> None:
    first, second = np.arange(5.0), -np.arange(5.0)
    assert interval(np.add, first, second) == (0.0, 0.0, 0.0)
