"""A request under way."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.node import Node
from simulator.tokens import Tokens
from simulator.trace import Ask


@dataclass(eq=False)
class Job:
    """A request under way.

    Parameters
    ----------
    number
        Its place in the trace.
    ask
        What was sent.
    tokens
        Prompt and answer.

    Attributes
    ----------
    produced
        Answer tokens that the scheduler has seen.
    in_flight
        Whether a pass that has not been seen to end produces another.
    prefix
        Tokens that need not be computed, those computed in earlier chunks included.
    end
        Where the chunk that is computed ends.
    committed
        Tokens whose KV has a place in L1.
    protected
        Of those, the tree's.
    inserted
        Tokens that it has handed to the tree.
    node
        Where the path ends that it needs, or None before it is admitted.
    device_hit, host_hit
        Tokens found when it was admitted.
    """

    number: int
    ask: Ask
    tokens: Tokens
    produced: int = 0
    in_flight: bool = False
    prefix: int = 0
    end: int = 0
    committed: int = 0
    protected: int = 0
    inserted: int = 0
    node: Node | None = None
    device_hit: int = 0
    host_hit: int = 0

    @property
    def prompt(self) -> Tokens:
        """What has to be computed before the answer."""
        return self.tokens.cut(0, self.ask.prompt)

    @property
    def remaining(self) -> int:
        """Answer tokens that are still to come."""
        return self.ask.output - self.produced

    @property
    def finishing(self) -> bool:
        """Whether the pass in flight produces its last token."""
        return self.in_flight and self.remaining == 1
