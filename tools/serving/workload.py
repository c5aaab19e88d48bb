"""Prompts that share prefixes, and whether serving them tells two sizes of L2 apart.

A draw is one request: the prefix of a group and a suffix of its own. The groups come in a seeded
random order, each at least once. All prefixes together overflow the smaller L2 and fit the larger
one; whether they do is decided before any server starts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchstack.errors import Exit, ToolError

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Scale:
    """How much is served, and with how large caches.

    Parameters
    ----------
    groups
        Prefixes.
    prefix_tokens, suffix_tokens
        Tokens of each, whole pages. All prompts are as long, so that a prefix is always computed
        in the same shape and its KV does not depend on which prompt came first.
    draws
        Requests.
    l1_tokens, raw_l2_tokens
        Tokens that the device pool and the raw host pool hold.
    page_size
        Tokens per page.
    """

    groups: int
    prefix_tokens: int
    suffix_tokens: int
    draws: int
    l1_tokens: int
    raw_l2_tokens: int
    page_size: int = 16

    def __post_init__(self) -> None:
        if self.page_size < 1:
            raise ValueError(f"pages of {self.page_size} tokens")
        for name in ("prefix_tokens", "suffix_tokens", "l1_tokens", "raw_l2_tokens"):
            tokens = getattr(self, name)
            if tokens < self.page_size or tokens % self.page_size:
                raise ValueError(f"{name} = {tokens} is not pages of {self.page_size} tokens")
        if not 1 <= self.groups <= self.draws:
            raise ValueError(f"{self.draws} draws from {self.groups} groups")
        # A prompt, and a page for the token that it generates.
        if self.l1_tokens < self.prompt_tokens + self.page_size:
            raise ValueError(f"an L1 of {self.l1_tokens} tokens cannot serve a prompt")

    @property
    def prompt_tokens(self) -> int:
        """Tokens of one prompt."""
        return self.prefix_tokens + self.suffix_tokens


FULL = Scale(
    groups=12, prefix_tokens=448, suffix_tokens=32, draws=48, l1_tokens=1216, raw_l2_tokens=4032
)
QUICK = Scale(
    groups=8, prefix_tokens=320, suffix_tokens=32, draws=24, l1_tokens=768, raw_l2_tokens=1920
)


@dataclass(frozen=True)
class Prompt:
    """One request's tokens."""

    group: int
    tokens: Tokens


@dataclass(frozen=True)
class Workload:
    """The requests in the order in which they are sent."""

    scale: Scale
    seed: int
    prompts: tuple[Prompt, ...]


def draw_workload(scale: Scale, texts: Sequence[Sequence[int]], seed: int) -> Workload:
    """Draw a workload from tokenized texts.

    Parameters
    ----------
    scale
        How many of what.
    texts
        Token ids. Some give their beginnings as prefixes, the others are cut into suffixes.
    seed
        The same seed and texts give the same workload.

    Raises
    ------
    ToolError
        If the texts are too short.
    """
    rng = random.Random(seed)
    shuffled = rng.sample([tuple(text) for text in texts], len(texts))
    prefixes = _prefixes(scale, shuffled)
    heads = set(prefixes)
    rest = [text for text in shuffled if text[: scale.prefix_tokens] not in heads]
    suffixes = _suffixes(scale, rest)
    if len(prefixes) < scale.groups or len(suffixes) < scale.draws:
        raise ToolError(
            f"the text holds {len(prefixes)} prefixes of {scale.prefix_tokens} tokens and "
            f"{len(suffixes)} suffixes, fewer than {scale.groups} and {scale.draws}",
            "use a Python with its pydoc topics installed",
            Exit.USAGE,
        )
    again = rng.choices(range(scale.groups), k=scale.draws - scale.groups)
    order = rng.sample([*range(scale.groups), *again], scale.draws)
    own = rng.sample(suffixes, scale.draws)
    prompts = (Prompt(g, prefixes[g] + suffix) for g, suffix in zip(order, own, strict=True))
    return Workload(scale, seed, tuple(prompts))


def _prefixes(scale: Scale, texts: Sequence[Tokens]) -> list[Tokens]:
    """Beginnings of texts that share no page with each other."""
    by_first_page: dict[Tokens, Tokens] = {}
    for text in texts:
        if len(text) >= scale.prefix_tokens and len(by_first_page) < scale.groups:
            by_first_page.setdefault(text[: scale.page_size], text[: scale.prefix_tokens])
    return list(by_first_page.values())


def _suffixes(scale: Scale, texts: Sequence[Tokens]) -> list[Tokens]:
    """Pieces of texts that share no page with each other."""
    length = scale.suffix_tokens
    by_first_page: dict[Tokens, Tokens] = {}
    for text in texts:
        for start in range(0, len(text) - length + 1, length):
            piece = text[start : start + length]
            by_first_page.setdefault(piece[: scale.page_size], piece)
    return list(by_first_page.values())


@dataclass(frozen=True)
class Expectation:
    """What the workload should show, were L1 and L2 least-recently-used stores of tokens."""

    prefix_tokens: int
    stored_tokens: int
    l1_tokens: int
    raw_l2_tokens: int
    encoded_l2_tokens: int
    l1_hits: int
    raw_restores: int
    encoded_restores: int

    def sentence(self) -> str:
        """Say it in one line."""
        return (
            f"the prefixes ({self.prefix_tokens:,} tokens) overflow the raw L2 "
            f"({self.raw_l2_tokens:,}) and fit the encoded one ({self.encoded_l2_tokens:,}); "
            f"expected: {self.l1_hits} hits in L1 (which holds {self.l1_tokens:,} tokens), "
            f"{self.raw_restores} restores from the raw L2, "
            f"{self.encoded_restores} from the encoded one"
        )


def expect(workload: Workload, raw_l2_tokens: int, encoded_l2_tokens: int) -> Expectation:
    """Return what serving the workload should show with L2s of these sizes.

    Raises
    ------
    ToolError
        If it could not tell the two L2s apart, or shows no restore from the raw one.
    """
    scale = workload.scale
    groups = len({prompt.group for prompt in workload.prompts})
    prefixes = groups * scale.prefix_tokens
    # Each suffix is written to L2 as well, though none is asked for again.
    stored = prefixes + len(workload.prompts) * scale.suffix_tokens
    stores = {"l1": scale.l1_tokens, "raw": raw_l2_tokens, "encoded": encoded_l2_tokens}
    found = Counter(_first_holder(tokens, stores) for tokens in _reuse_distances(workload))
    expectation = Expectation(
        prefixes,
        stored,
        scale.l1_tokens,
        raw_l2_tokens,
        encoded_l2_tokens,
        l1_hits=found["l1"],
        raw_restores=found["raw"],
        encoded_restores=found["raw"] + found["encoded"],
    )
    _refuse_undiscriminating(expectation)
    return expectation


def _reuse_distances(workload: Workload) -> Iterator[int]:
    """Tokens that a store must hold to still have each draw's prefix from its last use."""
    scale = workload.scale
    last: dict[int, int] = {}
    for now, prompt in enumerate(workload.prompts):
        if prompt.group in last:
            since = workload.prompts[last[prompt.group] : now]
            groups = len({p.group for p in since})
            yield groups * scale.prefix_tokens + len(since) * scale.suffix_tokens
        last[prompt.group] = now


def _first_holder(tokens: int, stores: dict[str, int]) -> str | None:
    return next((name for name, holds in stores.items() if tokens <= holds), None)


def _refuse_undiscriminating(e: Expectation) -> None:
    prefixes, stored = f"{e.prefix_tokens:,}", f"{e.stored_tokens:,}"
    refusals = {
        f"the prefixes ({prefixes} tokens) fit in the raw L2 ({e.raw_l2_tokens:,}), "
        "which would restore as much as the encoded one": e.prefix_tokens <= e.raw_l2_tokens,
        f"what is served ({stored} tokens) overflows the encoded L2 ({e.encoded_l2_tokens:,}) "
        "too": e.stored_tokens > e.encoded_l2_tokens,
        f"L1 ({e.l1_tokens:,} tokens) holds over a third of the prefixes ({prefixes} tokens)": 3
        * e.l1_tokens
        > e.prefix_tokens,
        "this draw restores nothing from the raw L2": e.raw_restores == 0,
        "this draw restores no more from the encoded L2 than from the raw one": e.encoded_restores
        == e.raw_restores,
    }
    for reason, refused in refusals.items():
        if refused:
            raise ToolError(
                f"the workload would show nothing: {reason}",
                "use another --seed or --model",
                Exit.USAGE,
            )
