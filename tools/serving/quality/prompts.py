"""Prompts of which a prefix is restored, and tokens that push it out of L1.

No two prompts begin with the same token, and nothing else does, so that whatever the page size is,
a prompt finds no page that another one left.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchstack.errors import Exit, ToolError

Tokens = tuple[int, ...]

#: Tokens of a prompt that are scored after the restored prefix.
SCORED_TOKENS = 16
#: The first token after the prefix gets no logprob, since SGLang scores what follows a scored one.
SUFFIX_TOKENS = SCORED_TOKENS + 1
#: Tokens that are generated.
NEW_TOKENS = 32


@dataclass(frozen=True)
class Size:
    """How many prompts of what length.

    Parameters
    ----------
    requests
        Prompts.
    prefix_tokens
        Tokens of each that are to be restored.
    """

    requests: int
    prefix_tokens: int

    @property
    def prompt_tokens(self) -> int:
        """Tokens of a prompt."""
        return self.prefix_tokens + SUFFIX_TOKENS

    @property
    def served_tokens(self) -> int:
        """Tokens of a prompt and its answer."""
        return self.prompt_tokens + NEW_TOKENS


@dataclass(frozen=True)
class Draw:
    """Prompts that are alike in length.

    Parameters
    ----------
    size
        How many, and how long.
    prompts
        Their tokens.
    others
        Tokens that no prompt begins with.
    """

    size: Size
    prompts: tuple[Tokens, ...]
    others: tuple[int, ...]

    def fillers(self, count: int) -> Iterator[Tokens]:
        """Yield prompts without a meaning, as long as a prefix."""
        rng = random.Random(0)
        for _ in range(count):
            yield tuple(rng.choices(self.others, k=self.size.prefix_tokens))


def draw_prompts(texts: Sequence[Sequence[int]], size: Size) -> Draw:
    """Cut prompts out of tokenized texts; always the same ones.

    Raises
    ------
    ToolError
        If the texts are too short.
    """
    found = _windows(texts, size.prompt_tokens)
    if len(found) < size.requests:
        raise ToolError(
            f"the text holds {len(found)} prompts of {size.prompt_tokens} tokens, "
            f"fewer than {size.requests}",
            "give fewer --requests or --prefix-tokens",
            Exit.USAGE,
        )
    prompts = tuple(random.Random(0).sample(found, size.requests))
    others = {token for text in texts for token in text} - {prompt[0] for prompt in prompts}
    return Draw(size, prompts, tuple(sorted(others)))


def _windows(texts: Sequence[Sequence[int]], length: int) -> list[Tokens]:
    """Stretches of the texts that begin with different tokens and do not overlap."""
    by_first: dict[int, Tokens] = {}
    for text in texts:
        start = 0
        while start + length <= len(text):
            if text[start] in by_first:
                start += 1
            else:
                by_first[text[start]] = tuple(text[start : start + length])
                start += length
    return list(by_first.values())
