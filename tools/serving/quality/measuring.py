"""One server after another answers the same prompts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from serving.client import Client
from serving.metrics import parse_counters
from serving.progress import Progress
from serving.quality.answers import Answer, collect
from serving.quality.facts import Facts, read_facts, refuse_incomparable
from serving.quality.prompts import Draw, Size, draw_prompts
from serving.text import python_topics

#: A server that is there while it is entered.
Source = AbstractContextManager[Client]


@dataclass(frozen=True)
class Served:
    """One server and its answers.

    Parameters
    ----------
    facts
        What it says about itself.
    bytes_per_token
        Bytes that a token took in its L2.
    answers
        One for each prompt.
    """

    facts: Facts
    bytes_per_token: float | None
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Measured:
    """The prompts, and what the servers answered."""

    draw: Draw
    raw: Served
    encoded: tuple[Served, ...]


def measure(raw: Source, encoded: Iterable[Source], size: Size, progress: Progress) -> Measured:
    """Serve the prompts.

    Parameters
    ----------
    raw
        The server with the raw L2. It answers once, whatever the number of codecs, and its
        tokenizer cuts the prompts.
    encoded
        The servers with a codec, each entered when its turn comes.
    size
        How many prompts of what length.
    progress
        Told about every step.
    """
    with raw as client:
        draw = draw_prompts(client.tokenize(python_topics()), size)
        reference = _serve(client, read_facts(client), draw, progress)
    others = []
    for server in encoded:
        with server as client:
            facts = read_facts(client)
            refuse_incomparable(reference.facts, facts)
            others.append(_serve(client, facts, draw, progress))
    return Measured(draw, reference, tuple(others))


def _serve(client: Client, facts: Facts, draw: Draw, progress: Progress) -> Served:
    answers = collect(client, facts, draw, progress)
    return Served(facts, parse_counters(client.metrics()).bytes_per_token, answers)
