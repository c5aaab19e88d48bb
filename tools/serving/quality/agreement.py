"""How far two L2s' answers to the same prompts agree, with intervals.

The sample is the request: tokens of one answer depend on each other, so intervals come from
drawing whole requests anew, with replacement (the percentile bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serving.client import Reply
from serving.quality.prompts import NEW_TOKENS, SCORED_TOKENS

RESAMPLES = 2000
#: Percent of the resamples that an interval holds.
CONFIDENCE = 95


@dataclass(frozen=True)
class Figure:
    """A figure and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """Requests that both L2s restored.

    Parameters
    ----------
    same
        ``[requests, NEW_TOKENS]``, whether both generated the same token.
    apart
        ``[requests, SCORED_TOKENS + NEW_TOKENS]``, the absolute difference of a token's logprobs.
        NaN from the first token on that was not the same: what follows it was asked of two
        different texts.
    """

    same: np.ndarray
    apart: np.ndarray

    @classmethod
    def between(cls, pairs: Sequence[tuple[Reply, Reply]]) -> Agreement:
        """Compare answers to the same prompts."""
        rows = [_compare(raw, encoded) for raw, encoded in pairs]
        same = np.array([row[0] for row in rows], dtype=bool).reshape(-1, NEW_TOKENS)
        apart = np.array([row[1] for row in rows]).reshape(-1, SCORED_TOKENS + NEW_TOKENS)
        return cls(same, apart)

    @property
    def requests(self) -> int:
        """How many there are."""
        return len(self.same)

    @property
    def positions(self) -> int:
        """How many tokens' logprobs are compared."""
        return int((~np.isnan(self.apart)).sum())

    def drawn(self, rows: np.ndarray) -> Agreement:
        """Return these requests, some of them more than once."""
        return Agreement(self.same[rows], self.apart[rows])

    def values(self) -> dict[str, float]:
        """Return each figure by its name."""
        apart = self.apart[~np.isnan(self.apart)]
        p95, p99 = np.quantile(apart, (0.95, 0.99))
        found = {
            "first_token": self.same[:, 0].mean(),
            "tokens_16": self.same[:, :16].all(axis=1).mean(),
            "tokens_32": self.same[:, :32].all(axis=1).mean(),
            "per_token": self.same.mean(),
            "mean": apart.mean(),
            "p95": p95,
            "p99": p99,
            "max": apart.max(),
        }
        return {name: float(value) for name, value in found.items()}

    def figures(self, resamples: int = RESAMPLES) -> dict[str, Figure]:
        """Return each figure with its interval; always the same one."""
        rng = np.random.default_rng(0)
        n = self.requests
        draws = [self.drawn(rng.integers(n, size=n)).values() for _ in range(resamples)]
        tail = (1 - CONFIDENCE / 100) / 2
        limits = {
            name: np.quantile([draw[name] for draw in draws], (tail, 1 - tail)) for name in draws[0]
        }
        return {
            name: Figure(value, *map(float, limits[name])) for name, value in self.values().items()
        }


def _compare(raw: Reply, encoded: Reply) -> tuple[np.ndarray, np.ndarray]:
    """One request's rows of :class:`Agreement`."""
    (raw_tokens, raw_logprobs), (tokens, logprobs) = map(_answer, (raw, encoded))
    same = raw_tokens == tokens
    apart = np.abs(raw_logprobs - logprobs)
    apart[~np.logical_and.accumulate(same)] = np.nan
    scored = np.abs(np.subtract(raw.logprobs, encoded.logprobs))
    return same, np.concatenate([scored, apart])


def _answer(reply: Reply) -> tuple[np.ndarray, np.ndarray]:
    tokens, logprobs = zip(*reply.generated, strict=True)
    return np.array(tokens), np.array(logprobs)
