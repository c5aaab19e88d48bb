"""SGLang's serving benchmark with its generated-shared-prefix workload, run on a server.

It runs as a process of its own with a home folder of its own: it caches prompts below the home
folder by the tokenizer's class, and would take those of another vocabulary for its own. From that
cache comes which prefix a request begins with, which its result does not say.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.record import Request, Workload
from patchstack.errors import Exit, ToolError
from serving.server import last_words

_RESULT, _LOG, _HOME = "bench.jsonl", "bench.log", "home"


@dataclass(frozen=True)
class Benched:
    """What the benchmark measured: wall time of all requests, and each of them."""

    seconds: float
    requests: tuple[Request, ...]


def bench_command(url: str, model: Path, workload: Workload, folder: Path) -> tuple[str, ...]:
    """Return program and arguments.

    Prompts are sent as token ids: as text, a random prompt has some other number of tokens once it
    is tokenized again. The server has been warmed up, so the benchmark need not.
    """
    return (
        *(sys.executable, "-m", "sglang.bench_serving", "--backend", "sglang"),
        *("--base-url", url, "--model", str(model)),
        *("--dataset-name", "generated-shared-prefix", "--tokenize-prompt"),
        *("--gsp-num-groups", str(workload.groups)),
        *("--gsp-prompts-per-group", str(workload.prompts_per_group)),
        *("--gsp-system-prompt-len", str(workload.prefix_tokens)),
        *("--gsp-question-len", str(workload.question_tokens)),
        *("--gsp-output-len", str(workload.output_tokens)),
        *("--max-concurrency", str(workload.concurrency), "--seed", str(workload.seed)),
        *("--warmup-requests", "0", "--disable-tqdm", "--cache-report"),
        *("--output-details", "--output-file", str(folder / _RESULT)),
    )


def run_bench(
    command: Sequence[str], environment: Mapping[str, str], workload: Workload, folder: Path
) -> Benched:
    """Run the benchmark and read its result.

    Parameters
    ----------
    command
        From :func:`bench_command`.
    environment
        Of the server, whose packages it shares.
    workload
        What it sends.
    folder
        Empty. Its files go there.

    Raises
    ------
    ToolError
        If it fails, or a request does.
    """
    log = folder / _LOG
    with log.open("wb") as stream:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**environment, "HOME": str(folder / _HOME)},
        )
    if done.returncode:
        raise _failure(f"ended with code {done.returncode}: {last_words(log)}", log)
    found = json.loads((folder / _RESULT).read_text())
    errors = [error for error in found["errors"] if error]
    if errors or found["completed"] != workload.requests:
        told = errors[0].strip().splitlines()[-1] if errors else "no reason given"
        served = f"{found['completed']} of {workload.requests}"
        raise _failure(f"had {served} requests answered: {told}", log)
    return Benched(found["duration"], _requests(found, _groups(folder / _HOME, workload)))


def _failure(what: str, log: Path) -> ToolError:
    return ToolError(f"SGLang's serving benchmark {what}", f"read {log}", Exit.FINDINGS)


def _groups(home: Path, workload: Workload) -> list[int]:
    """Number the prefixes in the order in which they first appear."""
    (cache,) = (home / ".cache" / "sglang" / "benchmark").glob("*.pkl")
    rows = pickle.loads(cache.read_bytes())
    prefixes = [tuple(row.prompt[: workload.prefix_tokens]) for row in rows]
    numbers = {prefix: number for number, prefix in enumerate(dict.fromkeys(prefixes))}
    return [numbers[prefix] for prefix in prefixes]


def _requests(found: Mapping[str, Any], groups: Sequence[int]) -> tuple[Request, ...]:
    columns = ("input_lens", "output_lens", "cached_tokens_details", "ttfts", "itls")
    rows = zip(groups, *(found[column] for column in columns), strict=True)
    return tuple(
        Request(
            group=group,
            prompt_tokens=prompt,
            output_tokens=output,
            device_tokens=(cached or {}).get("device") or 0,
            host_tokens=(cached or {}).get("host") or 0,
            ttft_s=ttft,
            itl_s=tuple(itl),
        )
        for group, prompt, output, cached, ttft, itl in rows
    )
