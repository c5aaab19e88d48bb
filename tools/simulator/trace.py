"""Requests in the order in which they are sent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from evidence.record import Record, Workload
from simulator.tokens import Tokens, joined, run_of


@dataclass(frozen=True)
class Ask:
    """One request: a group's prefix, a question of its own, and an answer of a known length.

    Parameters
    ----------
    group
        Which prefix it begins with.
    prefix, question, output
        Tokens of each. A prefix may be shorter than its group's longest.
    """

    group: int
    prefix: int
    question: int
    output: int

    def __post_init__(self) -> None:
        if self.prefix < 0 or self.question < 0 or self.prompt < 1:
            raise ValueError(f"a prompt of {self.prefix} + {self.question} tokens")
        if self.output < 1:
            raise ValueError(f"an answer of {self.output} tokens")

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return self.prefix + self.question

    def tokens(self, number: int) -> Tokens:
        """Prompt and answer of the request that is ``number`` in its trace."""
        return joined(
            run_of(("prefix", self.group), self.prefix),
            run_of(("question", number), self.question),
            run_of(("answer", number), self.output),
        )


def group_order(workload: Workload, zipf: float | None = None) -> list[int]:
    """The groups of a generated-shared-prefix workload, shuffled by its seed.

    SGLang's benchmark draws alike, but from a generator that its prompts have moved on: the order
    of one of its runs is another one.

    Parameters
    ----------
    workload
        Groups, prompts of each, and seed.
    zipf
        The exponent of SGLang's ``--gsp-group-distribution zipf``: a group's share is its rank to
        the minus that. None gives each group as many prompts.
    """
    rng = random.Random(workload.seed)
    groups = range(workload.groups)
    if zipf is None:
        order = [group for group in groups for _ in range(workload.prompts_per_group)]
    elif zipf > 0:
        shares = [(group + 1) ** -zipf for group in groups]
        order = rng.choices(groups, shares, k=workload.requests)
    else:
        raise ValueError(f"a zipf exponent of {zipf}")
    rng.shuffle(order)
    return order


def generated(workload: Workload, zipf: float | None = None) -> tuple[Ask, ...]:
    """The requests of a generated-shared-prefix workload."""
    w = workload
    return tuple(
        Ask(group, w.prefix_tokens, w.question_tokens, w.output_tokens)
        for group in group_order(w, zipf)
    )


def recorded(record: Record) -> tuple[Ask, ...]:
    """The requests that a run's benchmark sent.

    A prefix and a question that were tokenized together may have come out shorter than set: the
    prefix is then taken for whole, and the question for the rest.
    """
    prefix = record.setup.workload.prefix_tokens
    return tuple(
        Ask(
            request.group,
            min(prefix, request.prompt_tokens),
            max(0, request.prompt_tokens - prefix),
            request.output_tokens,
        )
        for request in record.requests
    )


def prompt_tokens(trace: Sequence[Ask]) -> int:
    """Tokens of all prompts."""
    return sum(ask.prompt for ask in trace)
