"""Prompts without a meaning, for what is not the workload: warming up, and filling L1."""

from __future__ import annotations

import random

#: Tokens that any model has. The lower ones begin prompts.
_FIRST_WORD, _WORDS = 1000, 8000


def random_prompt(number: int, tokens: int) -> list[int]:
    """Return random tokens that another number's do not begin with.

    Parameters
    ----------
    number
        From 0 to 998.
    tokens
        How many.
    """
    rng = random.Random(number)
    return [number + 1, *(rng.randrange(_FIRST_WORD, _WORDS) for _ in range(tokens - 1))]
