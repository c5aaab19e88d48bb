"""Prompts served so that each prefix comes back from L2, with the proof that it did.

Requests go one at a time. A batch rounds BF16 by its composition, so only then does a server with
another codec compute exactly the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from patchstack.errors import Exit, ToolError
from serving.client import Client, Reply
from serving.progress import Progress
from serving.quality.facts import Facts
from serving.quality.prompts import NEW_TOKENS, Draw, Tokens
from serving.quality.rounds import Rounds, plan_rounds


@dataclass(frozen=True)
class Answer:
    """One prompt's two requests.

    Parameters
    ----------
    prefix
        The prefix alone, which is computed.
    prompt
        The whole prompt, later, its prefix restored.
    """

    prefix: Reply
    prompt: Reply

    @property
    def is_restored(self) -> bool:
        """Whether the server itself says that L2 gave the whole prefix, and gave nothing before."""
        expected = (0, self.prefix.prompt_tokens)
        found = (self.prompt.device_tokens, self.prompt.host_tokens)
        return not self.prefix.cached_tokens and found == expected


def collect(client: Client, facts: Facts, draw: Draw, progress: Progress) -> tuple[Answer, ...]:
    """Serve the prompts in rounds.

    Raises
    ------
    ToolError
        If the first round restores nothing: then no other will.
    """
    rounds = plan_rounds(facts, draw.size)
    answers: list[Answer] = []
    for start in range(0, len(draw.prompts), rounds.prompts):
        prompts = draw.prompts[start : start + rounds.prompts]
        for answer in _round(client, draw, prompts, rounds):
            answers.append(answer)
            progress.count(f"L2 {facts.codec}: answers", len(answers), len(draw.prompts))
        if not any(answer.is_restored for answer in answers):
            raise ToolError(
                f"no result: 0 of {len(answers)} requests were restored from the L2 of "
                f"{client.url} ({facts.codec})",
                "it needs --hicache-write-policy write_through, and no other requests meanwhile",
                Exit.FINDINGS,
            )
    return tuple(answers)


def _round(
    client: Client, draw: Draw, prompts: tuple[Tokens, ...], rounds: Rounds
) -> Iterator[Answer]:
    client.flush()
    prefixes = [client.complete(prompt[: draw.size.prefix_tokens]) for prompt in prompts]
    for filler in draw.fillers(rounds.fillers):
        client.complete(filler)
    for prefix, prompt in zip(prefixes, prompts, strict=True):
        reply = client.complete(prompt, scored_from=draw.size.prefix_tokens, new_tokens=NEW_TOKENS)
        yield Answer(prefix, reply)
