"""How many prompts fit into the two caches at a time.

A round empties both caches, computes the prefixes of its prompts, pushes them out of L1 with
fillers, and then asks. L2 has to hold all of that. So the memory that is needed does not grow with
the number of requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchstack.errors import Exit, ToolError
from serving.quality.facts import Facts
from serving.quality.prompts import Size


def _times(tokens: int, each: int) -> int:
    return -(-tokens // each)


@dataclass(frozen=True)
class Rounds:
    """How large a round is.

    Parameters
    ----------
    prompts
        Prompts of one round, at most.
    fillers
        Prompts without a meaning that push their prefixes out of L1.
    """

    prompts: int
    fillers: int


def plan_rounds(facts: Facts, size: Size) -> Rounds:
    """Size rounds for a server's caches.

    Raises
    ------
    ToolError
        If not one prompt fits, or a prefix is not whole pages.
    """
    prefix, page = size.prefix_tokens, facts.page_size
    if prefix % page:
        raise ToolError(
            f"prefixes of {prefix} tokens are not whole pages of {page}",
            f"give --prefix-tokens {_times(prefix, page) * page}",
            Exit.USAGE,
        )
    # One more than fill L1, since fillers may begin with the same page where pages are small.
    fillers = _times(facts.l1_tokens, prefix) + 1
    each = _times(size.served_tokens, page) * page
    prompts = (facts.l2_tokens - fillers * prefix) // each
    if prompts < 1:
        raise ToolError(
            f"an L2 of {facts.l2_tokens:,} tokens is too small beside an L1 of "
            f"{facts.l1_tokens:,}: what pushes a prefix out of L1 would push it out of L2 too",
            "start the servers with a --hicache-ratio of 2 or more, or a smaller L1 "
            "(--max-total-tokens)",
            Exit.USAGE,
        )
    return Rounds(prompts, fillers)
