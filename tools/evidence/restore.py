"""Time to the first token of a prompt that is computed, and of the same prompt restored from L2.

For each length a prefix is computed, pushed out of L1 by others, and asked for again with a few
tokens more: one request at a time, so nothing but the prefix's way differs. What the server counts
meanwhile tells the phases: all of a load, and of it decoding, the rest being the bytes' move.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evidence.provenance import provenance
from evidence.sizing import codec_flag
from patchstack.errors import Exit, ToolError
from serving.client import Client, Reply
from serving.l2 import L2, DevicePool
from serving.launch import Serving, logs_folder, sglang_launch
from serving.metrics import snapshot
from serving.pool_report import confirmed_pool
from serving.progress import Progress
from serving.server import ready
from serving.settling import settled_metrics

SCHEMA = 1
_SUFFIX_TOKENS = 16
#: What pushes a prefix out of L1 is short: attention to a long prompt is slow on a CPU.
_FILLER_TOKENS = 512
_PAGE_SIZE = 64
#: L2 holds what is measured, what pushes it out, and both once more.
_L2_RATIO = 4.0
_LOAD = "sglang:load_back_duration_seconds_sum"
_DECODE = "sglang:hicache_codec_decode_seconds_sum"
_ENCODE = "sglang:hicache_codec_encode_seconds_sum"
_LOADED_BYTES = "sglang:load_back_bytes_total"
#: Tokens that any model has. The lower ones begin prompts.
_FIRST_WORD, _WORDS = 1000, 8000


@dataclass(frozen=True)
class Lengths:
    """What is measured: prefixes of these many tokens, each so often."""

    prefixes: tuple[int, ...]
    repeats: int

    @property
    def l1_tokens(self) -> int:
        """A device cache that the longest fills."""
        return max(self.prefixes) + 2 * _PAGE_SIZE


FULL = Lengths((512, 1024, 2048, 4096, 8192), 5)
SMALL = Lengths((128, 256), 2)


@dataclass(frozen=True)
class Row:
    """One configuration's figures for one length.

    Parameters
    ----------
    configuration
        ``raw`` or a codec's name.
    prefix_tokens
        The prefix's length.
    cold_ttft_s, ttft_s
        Seconds to the first token of each repetition: computed, and restored.
    phases
        Seconds that a restore took to move bytes and to decode them, and that all backups of a
        repetition took to encode; medians of the repetitions, by the server's counters. SGLang
        does not time moves on a CPU.
    bytes
        Bytes that a restore moved.
    """

    configuration: str
    prefix_tokens: int
    cold_ttft_s: tuple[float, ...]
    ttft_s: tuple[float, ...]
    phases: dict[str, float | None]
    bytes: int


def measure(
    model: Path, configurations: Sequence[str], lengths: Lengths, progress: Progress
) -> dict[str, Any]:
    """Serve the prompts from each configuration's server and return the document.

    Parameters
    ----------
    model
        A Hugging Face folder.
    configurations
        ``raw`` and codecs' names.
    lengths
        What is measured.
    progress
        Told about every step.
    """
    rows: list[Row] = []
    environment = provenance()
    device = DevicePool(lengths.l1_tokens, _PAGE_SIZE)
    serving = Serving(model, device.tokens, device.page_size)
    with logs_folder("restore") as folder:
        for name in configurations:
            l2 = L2.by_ratio(codec_flag(name), _L2_RATIO, device)
            launch = sglang_launch(name, serving, l2, folder)
            with ready(launch, progress) as client:
                confirmed_pool(launch, client.metrics())
                for prefix in lengths.prefixes:
                    progress.stage(f"L2 {name}: prefixes of {prefix} tokens")
                    rows.append(_row(client, name, prefix, lengths))
    return {
        "schema": SCHEMA,
        "kind": "restore",
        "model": model.name,
        "provenance": environment,
        "page_size": _PAGE_SIZE,
        "suffix_tokens": _SUFFIX_TOKENS,
        "rows": [asdict(row) for row in rows],
    }


def _row(client: Client, name: str, prefix: int, lengths: Lengths) -> Row:
    tries = [_try(client, number, prefix, lengths) for number in range(lengths.repeats)]
    counted = [found for *_, found in tries]

    def median(counter: str) -> float:
        return statistics.median(found.get(counter, 0.0) for found in counted)

    load, decode, encode = median(_LOAD), median(_DECODE), median(_ENCODE)
    return Row(
        name,
        prefix,
        tuple(cold.seconds for cold, _, _ in tries),
        tuple(restored.seconds for _, restored, _ in tries),
        {"move_s": load - decode if load else None, "decode_s": decode, "encode_s": encode},
        round(median(_LOADED_BYTES)),
    )


def _try(
    client: Client, number: int, prefix: int, lengths: Lengths
) -> tuple[Reply, Reply, dict[str, float]]:
    """Compute a prompt, restore it, and return both replies and what was counted."""
    client.flush()
    before = snapshot(settled_metrics(client))
    # No two prompts of a server begin alike.
    prompt = _prompt(number, prefix + _SUFFIX_TOKENS)
    cold = client.complete(prompt)
    for other in range(1, lengths.l1_tokens // _FILLER_TOKENS + 2):
        client.complete(_prompt(lengths.repeats * other + number, _FILLER_TOKENS))
    restored = client.complete(prompt)
    if cold.cached_tokens or restored.device_tokens or restored.host_tokens < prefix:
        raise ToolError(
            f"no result: of a prefix of {prefix} tokens L1 gave {restored.device_tokens} and L2 "
            f"{restored.host_tokens}",
            "let nobody else use the server",
            Exit.FINDINGS,
        )
    return cold, restored, snapshot(settled_metrics(client)).counted_since(before)


def _prompt(number: int, tokens: int) -> list[int]:
    """Random tokens that another number's do not begin with."""
    rng = random.Random(number)
    return [number + 1, *(rng.randrange(_FIRST_WORD, _WORDS) for _ in range(tokens - 1))]
