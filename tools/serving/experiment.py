"""One run: start a server, send it the workload, read what it says about itself."""

from __future__ import annotations

import time
from dataclasses import dataclass

from patchstack.errors import Exit, ToolError
from serving.client import Client, Reply
from serving.launch import Launch
from serving.metrics import TransferCounters, parse_counters
from serving.pool_report import PoolReport, confirmed_pool
from serving.progress import Progress
from serving.server import ready
from serving.settling import settled_metrics
from serving.workload import Workload


@dataclass(frozen=True)
class Run:
    """What serving the workload came to.

    Parameters
    ----------
    name
        Which server.
    command
        How it was started.
    pool
        Its host pool, or None if it was started without one.
    counters
        What moved while the workload was served.
    replies
        One for each prompt.
    seconds
        Wall time from starting the server to its last figure.
    """

    name: str
    command: tuple[str, ...]
    pool: PoolReport | None
    counters: TransferCounters
    replies: tuple[Reply, ...]
    seconds: float

    def __post_init__(self) -> None:
        if not self.replies:
            raise ValueError(f"the run {self.name!r} has no replies")
        if self.counters.load_back_tokens != self.restored_tokens:
            raise ToolError(
                f"the run {self.name!r} is inconsistent: its requests had {self.restored_tokens} "
                f"tokens restored and SGLang counted {self.counters.load_back_tokens}",
                "run again, and report it if it stays so",
                Exit.FINDINGS,
            )

    @property
    def restored_tokens(self) -> int:
        """Tokens that requests got from L2."""
        return sum(reply.host_tokens for reply in self.replies)


def run_workload(launch: Launch, workload: Workload, progress: Progress) -> Run:
    """Serve the workload, one request at a time, and return what came of it.

    Parameters
    ----------
    launch
        The server. It is gone when this returns.
    workload
        What to send.
    progress
        Told about every step.
    """
    started = time.monotonic()
    with ready(launch, progress) as client:
        pool = confirmed_pool(launch, client.metrics())
        progress.stage(f"L2 {launch.name}: warming up")
        _warm_up(client, workload)
        before = parse_counters(client.metrics())
        replies = _serve(client, workload, launch.name, progress)
        counters = parse_counters(settled_metrics(client)).since(before)
    return Run(launch.name, launch.command, pool, counters, replies, time.monotonic() - started)


def _warm_up(client: Client, workload: Workload) -> None:
    """Let the first request pay for what is made on first use, and forget its KV."""
    client.complete(workload.prompts[0].tokens, workload.scale.prefix_tokens)
    client.flush()


def _serve(client: Client, workload: Workload, name: str, progress: Progress) -> tuple[Reply, ...]:
    total = len(workload.prompts)
    replies = []
    for prompt in workload.prompts:
        replies.append(client.complete(prompt.tokens, workload.scale.prefix_tokens))
        progress.count(f"L2 {name}: requests", len(replies), total)
    return tuple(replies)
