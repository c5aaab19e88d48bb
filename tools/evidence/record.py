"""One run as a file: what was set, what was measured, and where.

A file is one run of one server. It is written whether the run can be used or not; one that cannot
says why, and its name says that it does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from evidence.hits import Hits
from patchstack.errors import Exit, ToolError
from serving.delivery import write_file

#: Grows when a field is renamed, removed or means something else.
SCHEMA = 1

#: Bytes of a file that is read.
LARGEST_FILE = 2**28

#: Configurations without a codec: no L2, and SGLang's own.
NO_L2, RAW = "none", "raw"

#: SGLang's gauge of tokens in its host cache.
USED = "sglang:hicache_host_used_tokens"

#: What the name of a run's file ends with if it cannot be used.
INVALID = "-INVALID"


@dataclass(frozen=True)
class Workload:
    """A generated-shared-prefix workload of SGLang's serving benchmark.

    Parameters
    ----------
    groups
        Shared prefixes.
    prompts_per_group
        Requests that begin with each of them.
    prefix_tokens, question_tokens, output_tokens
        Tokens of a prefix, of what a request adds to it, and of its answer.
    concurrency
        Requests that are under way at a time.
    seed
        Of the tokens and of the order.
    """

    groups: int
    prompts_per_group: int
    prefix_tokens: int
    question_tokens: int
    output_tokens: int
    concurrency: int
    seed: int

    def __post_init__(self) -> None:
        for name in ("groups", "prompts_per_group", "prefix_tokens", "question_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: it has to be at least 1")
        if self.output_tokens < 1 or self.concurrency < 1:
            raise ValueError("an answer and a request at a time are the least")

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return self.groups * self.prompts_per_group

    @property
    def prompt_tokens(self) -> int:
        """Tokens of one request."""
        return self.prefix_tokens + self.question_tokens

    @property
    def working_set_tokens(self) -> int:
        """Tokens of all prefixes."""
        return self.groups * self.prefix_tokens


@dataclass(frozen=True)
class Setup:
    """What a server was started with.

    Parameters
    ----------
    experiment
        Name of the experiment.
    configuration
        ``none`` (no L2), ``raw`` (SGLang's own) or a codec's name.
    sizing
        ``bytes`` or ``tokens``: what the L2s of an experiment have in common.
    l1_tokens, page_size
        Device cache.
    l2_tokens
        What the host cache has to hold, or 0 without one.
    write_policy
        SGLang's ``--hicache-write-policy``.
    model
        Name of the model.
    workload
        What is served.
    """

    experiment: str
    configuration: str
    sizing: str
    l1_tokens: int
    page_size: int
    l2_tokens: int
    write_policy: str
    model: str
    workload: Workload


@dataclass(frozen=True)
class Pool:
    """The host cache that the server allocated: tokens, bytes, and bytes that a token takes."""

    slots: int
    nbytes: int
    size_per_token: int


@dataclass(frozen=True)
class Limits:
    """A server's ``--chunked-prefill-size`` and ``--max-prefill-tokens``."""

    chunked_prefill_size: int
    max_prefill_tokens: int


@dataclass(frozen=True)
class Request:
    """One request, in the order in which the benchmark sent them.

    Parameters
    ----------
    group
        Which prefix it begins with.
    prompt_tokens, output_tokens
        Its length and its answer's.
    device_tokens, host_tokens
        Of the prompt, tokens that were in L1 and tokens that L2 gave back.
    ttft_s
        Seconds to the first text. A token can have none, as half of a character has.
    itl_s
        Seconds between the later tokens.
    """

    group: int
    prompt_tokens: int
    output_tokens: int
    device_tokens: int
    host_tokens: int
    ttft_s: float
    itl_s: tuple[float, ...]

    @property
    def first_token_s(self) -> float | None:
        """Seconds to the first token, or None if that was a token without text."""
        has_text = self.ttft_s > 0 and len(self.itl_s) == self.output_tokens - 1
        return self.ttft_s if has_text else None

    @property
    def tpot_s(self) -> float | None:
        """Seconds for each token after the first, or None if there was none."""
        return sum(self.itl_s) / len(self.itl_s) if self.itl_s else None


@dataclass(frozen=True)
class Record(Hits):
    """One run.

    Parameters
    ----------
    setup
        What was started.
    repeat
        Which repetition it is, from 0.
    position
        Its place among all runs of the experiment, from 0: configurations take turns.
    started
        When, in UTC, ISO 8601.
    invalid
        Why the run cannot be used, or None.
    provenance
        Revision, packages and machine (:mod:`evidence.provenance`).
    server_command, bench_command
        Program and arguments, without the machine's folders.
    pool
        The host cache, or None without one.
    limits
        What the server computes in one pass at most, as it resolved that.
    counters
        How far each of SGLang's ``/metrics`` counters went on while the workload was served.
    gauges
        SGLang's gauges when it had been served.
    l2_use
        Tokens in L2, read each second while it was served. There are none without an L2, and of
        earlier runs.
    seconds
        Wall time of the measured phase.
    requests
        One for each request.
    log_tail
        Last lines of the server's log.
    """

    setup: Setup
    repeat: int
    position: int
    started: str
    invalid: str | None
    provenance: dict[str, Any]
    server_command: tuple[str, ...]
    bench_command: tuple[str, ...]
    pool: Pool | None
    limits: Limits
    counters: dict[str, float]
    gauges: dict[str, float]
    seconds: float
    requests: tuple[Request, ...]
    log_tail: tuple[str, ...]
    schema: int = field(default=SCHEMA)
    l2_use: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file."""
        mark = INVALID if self.invalid else ""
        return f"{self.position:03}-{self.setup.configuration}-{self.repeat}{mark}.json"

    @property
    def most_held(self) -> float | None:
        """The most tokens that L2 held, or None if it was not watched."""
        return most_held(self.l2_use, self.gauges) if self.l2_use else None

    @property
    def output_throughput(self) -> float:
        """Generated tokens per second of the measured phase."""
        return sum(request.output_tokens for request in self.requests) / self.seconds

    def write(self, folder: Path) -> Path:
        """Write it into a folder and return the file."""
        file = folder / self.name
        write_file(file, json.dumps(asdict(self), indent=1, allow_nan=False))
        return file


def most_held(l2_use: Sequence[float], gauges: Mapping[str, float]) -> float:
    """Return the most tokens of all readings of an L2, the gauge at the end being one."""
    return max([*l2_use, gauges.get(USED, 0.0)])


def without_folder(word: str) -> str:
    """Leave of a path that starts at the root its last part, also behind an equals sign.

    An argument of a command that anybody may read says nothing of one machine's folders then.
    """
    name, equals, value = word.rpartition("=")
    if not value.startswith("/"):
        return word
    return f"{name}{equals}{value.rstrip('/').rpartition('/')[2]}"


def text_of(file: Path) -> str:
    """Read a file of JSON.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is a pipe or a device, which may never end, or too large, or no text.
    """
    if file.exists() and not file.is_file():
        raise ValueError("it is no regular file")
    if file.stat().st_size > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE:,} bytes")
    return file.read_text(encoding="utf-8")


def read_record(file: Path) -> Record:
    """Read a run.

    Raises
    ------
    ToolError
        If the file is not one, or is of another schema.
    """
    try:
        found = json.loads(text_of(file))
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}, not {SCHEMA}")
        return _record(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError(
            f"{file} is not a run ({type(error).__name__}: {error})",
            "give files that tools/experiment.py wrote",
            Exit.USAGE,
        ) from error


def _record(found: dict[str, Any]) -> Record:
    later = {"l2_use"} - found.keys()
    known = {item.name for item in fields(Record)} - later
    setup = found["setup"]
    requests = [
        Request(**{**request, "itl_s": tuple(request["itl_s"])}) for request in found["requests"]
    ]
    parts: dict[str, Any] = {
        "setup": Setup(**{**setup, "workload": Workload(**setup["workload"])}),
        "pool": Pool(**found["pool"]) if found["pool"] else None,
        "limits": Limits(**found["limits"]),
        "requests": tuple(requests),
    }
    for name in known & {"server_command", "bench_command", "log_tail", "l2_use"}:
        parts[name] = tuple(found[name])
    return Record(**{**{name: found[name] for name in known}, **parts})


def run_files(paths: Iterable[Path]) -> list[Path]:
    """Return files, and in folders and their folders all that are not of another kind, by name.

    Raises
    ------
    ToolError
        If there is none.
    OSError
        If a folder cannot be read.
    """
    given = list(paths)
    files = [
        file
        for path in given
        for file in (filter(_may_be_run, sorted(_below(path))) if path.is_dir() else [path])
    ]
    if not files:
        where = ", ".join(map(str, given))
        raise ToolError(f"there are no runs in {where}", "run tools/experiment.py", Exit.USAGE)
    return files


def read_for(paths: Iterable[Path], *outputs: Path | None) -> list[Path]:
    """Return :func:`run_files`, and outputs that are runs: an option has taken one for its file."""
    found = run_files(paths)
    return found + [file for file in outputs if file and _is_run(file)]


def _below(folder: Path) -> Iterator[Path]:
    """Yield what may be JSON in a folder and in its folders, links followed, each folder once."""

    def told(error: OSError) -> None:
        raise error

    seen = set()
    for here, folders, names in os.walk(folder, onerror=told, followlinks=True):
        place = Path(here).stat()
        if (place.st_dev, place.st_ino) in seen:
            folders.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        yield from (Path(here, name) for name in names if name.endswith(".json"))


def _may_be_run(file: Path) -> bool:
    """Whether a file is a run, or nothing that could be read: that is told by who reads it."""
    found = _json_of(file)
    return not isinstance(found, dict) or "setup" in found


def _is_run(file: Path) -> bool:
    found = _json_of(file)
    return isinstance(found, dict) and "setup" in found


def _json_of(file: Path) -> Any:
    """Return what a file says, or None if that is nothing."""
    try:
        return json.loads(text_of(file))
    except (OSError, ValueError, RecursionError):
        return None
