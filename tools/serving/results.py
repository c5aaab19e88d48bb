"""What the runs of a comparison add up to, and when they add up to nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from patchstack.errors import Exit, ToolError
from serving.client import Reply
from serving.environment import Environment
from serving.experiment import Run
from serving.pool_report import refuse_unequal_bytes
from serving.workload import Expectation, Workload


@dataclass(frozen=True)
class FirstToken:
    """Time to first token of some of a run's requests."""

    requests: int
    median_s: float | None

    @classmethod
    def of(cls, replies: Iterable[Reply]) -> FirstToken:
        """Summarise replies, of which there may be none."""
        seconds = [reply.seconds for reply in replies]
        return cls(len(seconds), median(seconds) if seconds else None)


@dataclass(frozen=True)
class Difference:
    """Logprobs of one run against those of another, over the prompts that can be compared."""

    prompts: int
    positions: int
    largest: float | None
    mean: float | None

    @classmethod
    def between(cls, pairs: Sequence[tuple[Reply, Reply]]) -> Difference:
        """Compare replies to the same prompts, position by position."""
        apart = [abs(x - y) for a, b in pairs for x, y in zip(a.logprobs, b.logprobs, strict=True)]
        return cls(
            len(pairs), len(apart), max(apart, default=None), fmean(apart) if apart else None
        )


@dataclass(frozen=True)
class Summary:
    """One column of the table. What a server without an L2 has not is None."""

    moved_bytes_per_token: float | None
    stored_bytes_per_token: float | None
    arena_bytes: int | None
    capacity_tokens: int | None
    restored_tokens: int
    hit_rate: float
    cold: FirstToken
    l1_hit: FirstToken
    restored: FirstToken
    difference: Difference | None


@dataclass(frozen=True)
class Comparison:
    """The same workload without L2, with a raw one and with an encoded one of the same bytes.

    Raises
    ------
    ToolError
        If the two L2s are not of the same bytes, or one of them restored nothing.
    """

    model: str
    environment: Environment
    workload: Workload
    expectation: Expectation
    none: Run
    raw: Run
    encoded: Run

    def __post_init__(self) -> None:
        if self.raw.pool is None or self.encoded.pool is None:
            raise ValueError("a run with an L2 has no pool report")
        refuse_unequal_bytes(self.raw.pool, self.encoded.pool)
        if not (self.raw.restored_tokens and self.encoded.restored_tokens):
            raise ToolError(
                "no result: "
                f"{self.raw.restored_tokens} tokens were restored from the raw L2 and "
                f"{self.encoded.restored_tokens} from the encoded one",
                "read the servers' logs, or use another --seed",
                Exit.FINDINGS,
            )

    @property
    def runs(self) -> tuple[Run, Run, Run]:
        """All runs, in the table's order."""
        return self.none, self.raw, self.encoded

    def summaries(self) -> dict[str, Summary]:
        """Return the table's columns by the names of the runs."""
        differences = (self._recomputed(), None, self._restored())
        return {
            run.name: _summary(run, difference)
            for run, difference in zip(self.runs, differences, strict=True)
        }

    def _restored(self) -> Difference:
        """The encoded L2 against the raw one, over prompts that both restored alike."""
        pairs = zip(self.raw.replies, self.encoded.replies, strict=True)
        return Difference.between(
            [
                (raw, encoded)
                for raw, encoded in pairs
                if raw.host_tokens > 0
                and (raw.host_tokens, raw.device_tokens)
                == (encoded.host_tokens, encoded.device_tokens)
            ]
        )

    def _recomputed(self) -> Difference:
        """Computing a prompt anew against restoring it raw: what rounding alone does."""
        pairs = zip(self.raw.replies, self.none.replies, strict=True)
        return Difference.between(
            [(raw, none) for raw, none in pairs if raw.host_tokens > 0 and not none.cached_tokens]
        )


def _summary(run: Run, difference: Difference | None) -> Summary:
    cached = sum(reply.cached_tokens for reply in run.replies)
    return Summary(
        moved_bytes_per_token=run.counters.bytes_per_token,
        stored_bytes_per_token=run.pool.bytes_per_token if run.pool else None,
        arena_bytes=run.pool.nbytes if run.pool else None,
        capacity_tokens=run.pool.slots if run.pool else None,
        restored_tokens=run.restored_tokens,
        hit_rate=cached / sum(reply.prompt_tokens for reply in run.replies),
        cold=FirstToken.of(r for r in run.replies if not r.cached_tokens),
        l1_hit=FirstToken.of(r for r in run.replies if r.device_tokens and not r.host_tokens),
        restored=FirstToken.of(r for r in run.replies if r.host_tokens),
        difference=difference,
    )
