"""What came of a run."""

from __future__ import annotations

from dataclasses import dataclass

from evidence.hits import Hits


@dataclass(frozen=True)
class Served:
    """One request.

    Parameters
    ----------
    prompt_tokens
        Its length.
    device_tokens, host_tokens
        Of those, what L1 had and what L2 gave back.
    """

    prompt_tokens: int
    device_tokens: int
    host_tokens: int

    def __post_init__(self) -> None:
        if min(self.device_tokens, self.host_tokens, self.computed_tokens) < 0:
            raise ValueError(f"{self} does not add up")

    @property
    def computed_tokens(self) -> int:
        """The rest."""
        return self.prompt_tokens - self.device_tokens - self.host_tokens


@dataclass(frozen=True)
class Outcome(Hits):
    """All requests of a trace, in its order, and what the cache did for them.

    Parameters
    ----------
    requests
        One for each.
    restored_tokens, backed_up_tokens
        Tokens copied from L2 and to it.
    l1_evicted_tokens, l2_evicted_tokens
        Tokens that left each.
    dropped_tokens
        Tokens that left L1 without a copy in L2.
    passes
        Of the scheduler.
    """

    requests: tuple[Served, ...]
    restored_tokens: int
    backed_up_tokens: int
    l1_evicted_tokens: int
    l2_evicted_tokens: int
    dropped_tokens: int
    passes: int
