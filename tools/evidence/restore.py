"""Time to the first token of a prompt that is computed, and of the same prompt restored from L2.

For each length a prefix is computed, pushed out of L1 by others, and asked for again with a few
tokens more: one request at a time, so nothing but the prefix's way differs. Configurations take
turns, each time with a new server. One pass computes all of a prompt, so that no chunk's backup is
part of it. What the server counts tells what the restore took, and of that decoding, the rest being
the bytes' move.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evidence.cases import turns
from evidence.prompts import random_prompt
from evidence.provenance import provenance, same_code
from evidence.running import confirmed_device
from evidence.sizing import codec_flag
from patchstack.errors import Exit, ToolError
from serving.client import Client
from serving.delivery import write_file
from serving.l2 import L2, DevicePool
from serving.launch import Serving, logs_folder, sglang_launch
from serving.metrics import snapshot
from serving.model import model_name
from serving.pool_report import confirmed_pool
from serving.progress import Progress
from serving.server import ready
from serving.settling import settled_metrics

SCHEMA = 2
_SUFFIX_TOKENS = 16
#: What pushes a prefix out of L1 is short: attention to a long prompt is slow on a CPU.
_FILLER_TOKENS = 512
#: L2 holds what is measured, what pushes it out, and both once more.
_L2_RATIO = 4.0
_LOAD = "sglang:load_back_duration_seconds_sum"
_DECODE = "sglang:hicache_codec_decode_seconds_sum"
_DECODED = "sglang:hicache_codec_decode_seconds_count"
_LOADED_BYTES = "sglang:load_back_bytes_total"


@dataclass(frozen=True)
class Lengths:
    """What is measured: prefixes of these many tokens, whole pages, each so often."""

    prefixes: tuple[int, ...]
    repeats: int
    page_size: int = 64

    @property
    def l1_tokens(self) -> int:
        """A device cache that the longest fills."""
        return max(self.prefixes) + 128


FULL = Lengths((512, 1024, 2048, 4096, 8192), 3)
SMALL = Lengths((128, 256), 2)


@dataclass(frozen=True)
class Tried:
    """A prefix that was computed and restored.

    Parameters
    ----------
    prefix_tokens
        Its length.
    cold_ttft_s, ttft_s
        Seconds to the first token: computed, and restored.
    phases
        Seconds that its restore took to move bytes and to decode and scatter them, by the server's
        counters, or None where it has none. SGLang times no moves on a CPU.
    bytes
        Bytes that the restore moved.
    """

    prefix_tokens: int
    cold_ttft_s: float
    ttft_s: float
    phases: dict[str, float | None]
    bytes: int


def measure(
    model: Path, configurations: Sequence[str], lengths: Lengths, file: Path, progress: Progress
) -> None:
    """Serve the prompts from each configuration's servers, and write what each gave as it ended.

    Parameters
    ----------
    model
        A Hugging Face folder.
    configurations
        ``raw`` and codecs' names.
    lengths
        What is measured.
    file
        The document: a row for each configuration and length, with a value for each repetition.
        What an earlier call wrote there is not measured again.
    progress
        Told about every step.

    Raises
    ------
    ToolError
        If the file is of another measurement, before anything is served.
    """
    document = _begun(file, model, lengths)
    for name, repeat in turns(configurations, lengths.repeats):
        if repeat >= _repeats(document, name):
            with logs_folder("restore") as folder:
                tried = _visit(model, name, repeat, lengths, folder, progress)
            _add(document, name, tried)
            write_file(file, json.dumps(document, indent=1))


def _begun(file: Path, model: Path, lengths: Lengths) -> dict[str, Any]:
    """Return the document as far as it is there."""
    fresh: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": "restore",
        "model": model_name(model),
        "page_size": lengths.page_size,
        "suffix_tokens": _SUFFIX_TOKENS,
        "prefixes": list(lengths.prefixes),
        "repeats": lengths.repeats,
        "provenance": provenance(),
        "rows": [],
    }
    if not file.exists():
        return fresh
    try:
        found = json.loads(file.read_text())
        code = same_code(found["provenance"])
        same = code == same_code(fresh["provenance"]) and all(
            found[name] == fresh[name] for name in fresh if name not in ("provenance", "rows")
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        same = False
    if not same:
        raise ToolError(f"{file} is of another measurement", "name another --out", Exit.USAGE)
    return found


def _repeats(document: dict[str, Any], name: str) -> int:
    """Return how often a configuration was measured."""
    return max((len(row["ttft_s"]) for row in document["rows"] if row["configuration"] == name),
               default=0)  # fmt: skip


def _add(document: dict[str, Any], name: str, tried: Sequence[Tried]) -> None:
    """Put a repetition into the rows of its configuration, of which each length has one."""
    rows = {(row["configuration"], row["prefix_tokens"]): row for row in document["rows"]}
    for one in tried:
        row = rows.get((name, one.prefix_tokens))
        if row is None:
            row = {
                "configuration": name, "prefix_tokens": one.prefix_tokens, "cold_ttft_s": [],
                "ttft_s": [], "phases": {phase: [] for phase in one.phases}, "bytes": one.bytes,
            }  # fmt: skip
            document["rows"].append(row)
        row["cold_ttft_s"].append(one.cold_ttft_s)
        row["ttft_s"].append(one.ttft_s)
        for phase, seconds in one.phases.items():
            row["phases"][phase].append(seconds)


def _visit(
    model: Path, name: str, repeat: int, lengths: Lengths, folder: Path, progress: Progress
) -> list[Tried]:
    """Measure each length once, on a server of its own."""
    device = DevicePool(lengths.l1_tokens, lengths.page_size)
    serving = Serving(model, device.tokens, device.page_size)
    l2 = L2.by_ratio(codec_flag(name), _L2_RATIO, device)
    launch = sglang_launch(name, serving, l2, folder)
    one_pass = ("--chunked-prefill-size", str(device.tokens))
    launch = replace(launch, command=(*launch.command, *one_pass))
    tried = []
    with ready(launch, progress) as client:
        confirmed_device(client, device)
        confirmed_pool(launch, client.metrics())
        # The first one pays for what is made on first use.
        _try(client, lengths.repeats, min(lengths.prefixes), lengths)
        for prefix in lengths.prefixes:
            progress.stage(f"L2 {name}, repeat {repeat}: a prefix of {prefix} tokens")
            tried.append(_try(client, repeat, prefix, lengths))
    return tried


def _try(client: Client, number: int, prefix: int, lengths: Lengths) -> Tried:
    """Compute a prompt, and restore it when no backup is under way any more."""
    client.flush()
    # No two prompts of a server begin alike.
    prompt = random_prompt(number, prefix + _SUFFIX_TOKENS)
    filler = min(_FILLER_TOKENS, lengths.l1_tokens // 2)
    *others, last = (
        random_prompt((lengths.repeats + 1) * other + number, filler)
        for other in range(1, lengths.l1_tokens // filler + 3)
    )
    cold = client.complete(prompt)
    for other in others:
        client.complete(other)
    before = snapshot(settled_metrics(client))
    again = client.complete(prompt)
    client.complete(last)  # a GPU's times are counted when another transfer ends
    if cold.cached_tokens or again.device_tokens or again.host_tokens < prefix:
        raise ToolError(
            f"no result: of a prefix of {prefix} tokens L1 gave {again.device_tokens} and L2 "
            f"{again.host_tokens}",
            "let nobody else use the server",
            Exit.FINDINGS,
        )
    restored = snapshot(settled_metrics(client)).counted_since(before)
    if restored.get(_DECODED, 1) != 1:
        raise ToolError(
            f"no result: a restore was decoded {restored[_DECODED]:.0f} times by the server",
            "let nobody else use the server",
            Exit.FINDINGS,
        )
    load, decode = restored.get(_LOAD), restored.get(_DECODE)
    phases = {"move_s": load - (decode or 0.0) if load else None, "decode_s": decode}
    moved = round(restored.get(_LOADED_BYTES, 0))
    return Tried(prefix, cold.seconds, again.seconds, phases, moved)
