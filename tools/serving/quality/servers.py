"""Servers that are started here, or that run already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from patchstack.errors import Exit, ToolError
from serving.client import Client, RequestError
from serving.l2 import L2, NO_CODEC, DevicePool, usable_codecs
from serving.launch import Serving, logs_folder, sglang_launch
from serving.model import model_geometry
from serving.progress import Progress
from serving.quality.facts import Facts, read_facts, refuse_incomparable
from serving.quality.measuring import Measured, Source, measure
from serving.quality.prompts import Size
from serving.server import ready

_PAGE_SIZE = 16
_L1_PROMPTS = 2
_L2_RATIO = 16.0


def compare_launched(
    model: Path, names: Sequence[str] | None, size: Size, progress: Progress
) -> Measured:
    """Start servers on this machine, one at a time, each with an L1 of a few prompts.

    Parameters
    ----------
    model
        What they serve.
    names
        Codecs to compare with the raw L2, or None for all.
    size
        How many prompts of what length.
    progress
        Told about every step.

    Raises
    ------
    ToolError
        If there is no such codec or it cannot serve the model, before a server starts.
    """
    codecs = usable_codecs(model_geometry(model, _PAGE_SIZE), names)
    l1_tokens = _L1_PROMPTS * -(-size.served_tokens // _PAGE_SIZE) * _PAGE_SIZE
    serving = Serving(model, l1_tokens, _PAGE_SIZE)

    with logs_folder("quality") as folder:

        def start(codec: str) -> Source:
            l2 = L2.by_ratio(codec, _L2_RATIO, DevicePool(l1_tokens, _PAGE_SIZE))
            return ready(sglang_launch(codec, serving, l2, folder), progress)

        return measure(start(NO_CODEC), map(start, codecs), size, progress)


def compare_running(raw_url: str, codec_url: str, size: Size, progress: Progress) -> Measured:
    """Compare two servers by their addresses; that they can be is found out first."""
    refuse_incomparable(_facts_at(raw_url), _facts_at(codec_url))
    return measure(_running_at(raw_url), [_running_at(codec_url)], size, progress)


def _facts_at(url: str) -> Facts:
    with _running_at(url) as client:
        return read_facts(client)


@contextmanager
def _running_at(url: str) -> Iterator[Client]:
    try:
        yield Client(url)
    except RequestError as error:
        raise ToolError(
            f"{url} failed a request ({error})", "read its log, and run again", Exit.FINDINGS
        ) from error
