"""Where prompts' tokens came from, in a run of the engine and in its simulation alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Asked(Protocol):
    """A request, as far as its prompt goes."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""

    @property
    def device_tokens(self) -> int:
        """Of those, tokens that were in L1."""

    @property
    def host_tokens(self) -> int:
        """Of those, tokens that L2 gave back."""


class Hits:
    """Figures of many requests. The hit rate is SGLang's: cached prompt tokens over all of them."""

    requests: Sequence[Asked]

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(request.prompt_tokens for request in self.requests)

    @property
    def device_tokens(self) -> int:
        """Prompt tokens that were in L1."""
        return sum(request.device_tokens for request in self.requests)

    @property
    def host_tokens(self) -> int:
        """Prompt tokens that L2 gave back."""
        return sum(request.host_tokens for request in self.requests)

    @property
    def hit_rate(self) -> float:
        """Share of all prompt tokens that were not computed."""
        return (self.device_tokens + self.host_tokens) / self.prompt_tokens
