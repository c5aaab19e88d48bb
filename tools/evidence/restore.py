"""Time to the first token of a prompt that is computed, and of the same prompt restored from L2.

For each length a prefix is computed, pushed out of L1 by others, and asked for again with a few
tokens more: one request at a time, so nothing but the prefix's way differs. What the server counts
meanwhile tells the phases: all of a load, and of it decoding, the rest being the bytes' move.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evidence.prompts import random_prompt
from evidence.provenance import provenance, same_code
from evidence.running import confirmed_device
from evidence.sizing import codec_flag
from patchstack.errors import Exit, ToolError
from serving.client import Client, Reply
from serving.delivery import write_file
from serving.l2 import L2, DevicePool
from serving.launch import Serving, logs_folder, sglang_launch
from serving.metrics import snapshot
from serving.model import model_name
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


@dataclass(frozen=True)
class Lengths:
    """What is measured: prefixes of these many tokens, each so often."""

    prefixes: tuple[int, ...]
    repeats: int

    @property
    def l1_tokens(self) -> int:
        """A device cache that the longest fills."""
        return max(self.prefixes) + 2 * _PAGE_SIZE


FULL = Lengths((512, 1024, 2048, 4096, 8192), 3)
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
    model: Path, configurations: Sequence[str], lengths: Lengths, file: Path, progress: Progress
) -> None:
    """Serve the prompts from each configuration's server, and write each as soon as it ended.

    Parameters
    ----------
    model
        A Hugging Face folder.
    configurations
        ``raw`` and codecs' names.
    lengths
        What is measured.
    file
        The document. Configurations that an earlier call wrote there are not served again.
    progress
        Told about every step.

    Raises
    ------
    ToolError
        If the file is of another measurement, before anything is served.
    """
    document = _begun(file, model, lengths)
    for name in configurations:
        if not any(row["configuration"] == name for row in document["rows"]):
            with logs_folder("restore") as folder:
                rows = _rows(model, name, lengths, folder, progress)
            document["rows"] += [asdict(row) for row in rows]
            write_file(file, json.dumps(document, indent=1))


def _begun(file: Path, model: Path, lengths: Lengths) -> dict[str, Any]:
    """Return the document as far as it is there."""
    fresh: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": "restore",
        "model": model_name(model),
        "page_size": _PAGE_SIZE,
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


def _rows(model: Path, name: str, lengths: Lengths, folder: Path, progress: Progress) -> list[Row]:
    device = DevicePool(lengths.l1_tokens, _PAGE_SIZE)
    serving = Serving(model, device.tokens, device.page_size)
    l2 = L2.by_ratio(codec_flag(name), _L2_RATIO, device)
    launch = sglang_launch(name, serving, l2, folder)
    rows = []
    with ready(launch, progress) as client:
        confirmed_device(client, device)
        confirmed_pool(launch, client.metrics())
        # The first one pays for what is made on first use.
        _try(client, lengths.repeats, min(lengths.prefixes), lengths)
        for prefix in lengths.prefixes:
            progress.stage(f"L2 {name}: prefixes of {prefix} tokens")
            rows.append(_row(client, name, prefix, lengths))
    return rows


def _row(client: Client, name: str, prefix: int, lengths: Lengths) -> Row:
    tries = [_try(client, number, prefix, lengths) for number in range(lengths.repeats)]
    counted = [found for *_, found in tries]

    def median(counter: str) -> float | None:
        """What a repetition counted, or None where the server has no such counter."""
        values = [found[counter] for found in counted if counter in found]
        return statistics.median(values) if values else None

    load, decode, encode = median(_LOAD), median(_DECODE), median(_ENCODE)
    return Row(
        name,
        prefix,
        tuple(cold.seconds for cold, _, _ in tries),
        tuple(restored.seconds for _, restored, _ in tries),
        {
            "move_s": load - (decode or 0.0) if load else None,
            "decode_s": decode,
            "encode_s": encode,
        },
        round(median(_LOADED_BYTES) or 0),
    )


def _try(
    client: Client, number: int, prefix: int, lengths: Lengths
) -> tuple[Reply, Reply, dict[str, float]]:
    """Compute a prompt, restore it, and return both replies and what was counted."""
    client.flush()
    before = snapshot(settled_metrics(client))
    # No two prompts of a server begin alike.
    prompt = random_prompt(number, prefix + _SUFFIX_TOKENS)
    cold = client.complete(prompt)
    for other in range(1, lengths.l1_tokens // _FILLER_TOKENS + 2):
        client.complete(random_prompt((lengths.repeats + 1) * other + number, _FILLER_TOKENS))
    settled_metrics(client)  # no backup of theirs is still under way
    restored = client.complete(prompt)
    if cold.cached_tokens or restored.device_tokens or restored.host_tokens < prefix:
        raise ToolError(
            f"no result: of a prefix of {prefix} tokens L1 gave {restored.device_tokens} and L2 "
            f"{restored.host_tokens}",
            "let nobody else use the server",
            Exit.FINDINGS,
        )
    return cold, restored, snapshot(settled_metrics(client)).counted_since(before)
