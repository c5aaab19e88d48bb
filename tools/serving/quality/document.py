"""All that was measured, as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from patchstack.errors import Exit, ToolError
from serving.environment import Environment
from serving.quality.agreement import CONFIDENCE, RESAMPLES, Agreement
from serving.quality.answers import Answer
from serving.quality.measuring import Measured, Served
from serving.quality.prompts import NEW_TOKENS, SCORED_TOKENS

#: Grows when a field is renamed, removed or means something else.
SCHEMA = 1

Document = dict[str, Any]


def make_document(measured: Measured, command: str, environment: Environment | None) -> Document:
    """Compare every codec with the raw L2.

    Parameters
    ----------
    measured
        What the servers answered.
    command
        What was run.
    environment
        Where, if the servers ran here.

    Raises
    ------
    ToolError
        If no request was restored from both of two L2s.
    """
    raw, arguments = measured.raw, measured.raw.facts.arguments
    return {
        "schema": SCHEMA,
        "command": command,
        "model": PurePath(arguments["model_path"]).name,
        "sglang": arguments["version"],
        "device": arguments["device"],
        "environment": asdict(environment) if environment else None,
        **asdict(measured.draw.size),
        "scored_tokens": SCORED_TOKENS,
        "generated_tokens": NEW_TOKENS,
        "intervals": {"percent": CONFIDENCE, "resamples": RESAMPLES, "unit": "request"},
        "raw_bytes_per_token": raw.bytes_per_token,
        "codecs": {each.facts.codec: _compared(raw, each) for each in measured.encoded},
    }


def to_json(document: Document) -> str:
    """Return it as text, with what holds nothing else, such as a request, on one line."""
    text = json.dumps(document, indent=1)
    return re.sub(r"\{[^{}]*\}", lambda leaf: re.sub(r"\n *", " ", leaf[0]), text)


def read_document(file: Path) -> Document:
    """Return what was written before."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["schema"] == SCHEMA:
            return document
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise no_result(file)


def no_result(file: Path) -> ToolError:
    """What is said of a file that this tool did not write."""
    return ToolError(f"{file} holds no result of this tool", "measure again", Exit.USAGE)


def _compared(raw: Served, encoded: Served) -> Document:
    pairs = list(zip(raw.answers, encoded.answers, strict=True))
    both = [a.is_restored and b.is_restored for a, b in pairs]
    if not any(both):
        raise ToolError(
            f"no result: 0 of {len(pairs)} requests were restored from both the raw L2 "
            f"({sum(a.is_restored for a, _ in pairs)}) and {encoded.facts.codec}'s "
            f"({sum(b.is_restored for _, b in pairs)})",
            "let both L2s hold more, and send no other requests meanwhile",
            Exit.FINDINGS,
        )
    restored = [(a.prompt, b.prompt) for (a, b), is_in in zip(pairs, both, strict=True) if is_in]
    agreement = Agreement.between(restored)
    rows = iter(_rows(agreement))
    return {
        "bytes_per_token": encoded.bytes_per_token,
        "restored": agreement.requests,
        "computed_alike": sum(a.prefix.generated == b.prefix.generated for a, b in pairs),
        "positions": agreement.positions,
        "figures": {name: asdict(figure) for name, figure in agreement.figures().items()},
        "requests": [
            _source("raw", a)
            | _source("codec", b)
            | {"restored": is_in}
            | (next(rows) if is_in else {})
            for (a, b), is_in in zip(pairs, both, strict=True)
        ],
    }


def _source(name: str, answer: Answer) -> dict[str, int]:
    """Where a prompt's KV came from."""
    reply = answer.prompt
    return {f"{name}_device": reply.device_tokens, f"{name}_host": reply.host_tokens}


def _rows(agreement: Agreement) -> list[dict[str, float]]:
    """Each request's own figures."""
    return [
        {
            "same_tokens": int(same.sum()),
            "same_until_first_other": int(np.logical_and.accumulate(same).sum()),
            "mean": float(np.nanmean(apart)),
            "max": float(np.nanmax(apart)),
        }
        for same, apart in zip(agreement.same, agreement.apart, strict=True)
    ]
