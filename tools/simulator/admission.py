"""Which waiting requests a prefill pass takes: first come, first served, while there is room.

The rules are those of ``managers/schedule_policy.py``, whose lines are named, and of
``mem_cache/prefill_budget.py``. The policy is ``fcfs``, as by default: a request whose prefix
another one is computing does not wait for it, and computes it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from simulator.cache import Cache
from simulator.job import Job
from simulator.server import LONGEST_RESERVED_ANSWER, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.node import Node


class Verdict(Enum):
    """Whether the next request may be looked at."""

    GO_ON = auto()
    NO_ROOM = auto()
    PASS_IS_FULL = auto()


@dataclass(frozen=True)
class _Shape:
    """What of a request a pass computes."""

    prefix: int
    extend: int
    answer: int
    chunked: bool


class Admission:
    """One prefill pass.

    Parameters
    ----------
    server, cache
        Limits, and what there is.
    running
        Requests that produce an answer, whose rest is reserved.

    Attributes
    ----------
    jobs
        What the pass computes.
    chunked
        The one of them whose prompt it does not finish, or None.
    """

    def __init__(self, server: Server, cache: Cache, running: Sequence[Job]) -> None:
        self._server, self._cache = server, cache
        self._later = sum(_reserved(job) for job in running)
        self._now = 0
        self._input, self._chunk = server.prefill_tokens, server.chunk_tokens
        self.jobs: list[Job] = []
        self.chunked: Job | None = None

    @property
    def _room(self) -> int:
        return self._cache.available - self._later

    def verdict(self) -> Verdict:
        """Whether the next request may be looked at (line 874)."""
        if self._room <= 0 or self._cache.available - self._now <= 0:
            return Verdict.NO_ROOM
        if self._input <= 0 or self._chunk <= 0:
            return Verdict.PASS_IS_FULL
        return Verdict.GO_ON

    def go_on(self, job: Job) -> None:
        """Compute the next chunk of a prompt, whatever there is (line 1140)."""
        limit = min(self._chunk, self._room) if self._room > 0 else self._chunk
        rest = job.ask.prompt - job.prefix
        extend = min(rest, limit)
        job.end = job.prefix + extend
        self.jobs.append(job)
        if extend < rest:
            self.chunked = job
        self._reserve(extend, 0 if extend < rest else _reserved(job))

    def add(self, job: Job) -> Verdict:
        """Admit a request, or tell why not (line 1395)."""
        found = self._cache.match(job.prompt, job.ask.prompt - 1)
        job.prefix = job.protected = found.device_tokens
        total = job.ask.prompt - job.prefix + _reserved(job) + self._server.page_size
        with self._needed(found.device_node):
            shape = self._shape(job, total, found.host_tokens)
            if isinstance(shape, Verdict):
                return shape
            node, loaded = found.device_node, 0
            if found.host_tokens:
                loaded = self._cache.load_back(found.node)
                node = found.node if loaded else node
                shape = shape if loaded else self._shape(job, total, 0)
                if isinstance(shape, Verdict):
                    return shape
            self._commit(job, shape, node, loaded)
        return self.verdict()

    @contextmanager
    def _needed(self, node: Node) -> Iterator[None]:
        self._cache.tree.lock(node)
        yield
        self._cache.tree.unlock(node)

    def _shape(self, job: Job, total: int, host_tokens: int) -> _Shape | Verdict:
        """What the pass computes of a request (line 1592)."""
        if total >= self._room:
            return Verdict.NO_ROOM
        prefix = job.prefix + host_tokens
        extend = job.ask.prompt - prefix
        if self._server.taken(extend) <= self._chunk:
            return _Shape(prefix, extend, _reserved(job), False)
        extend = self._server.whole_pages(prefix + self._server.whole_pages(self._chunk)) - prefix
        if extend <= 0:
            return Verdict.PASS_IS_FULL
        return _Shape(prefix, extend, 0, True)

    def _commit(self, job: Job, shape: _Shape, node: Node, loaded: int) -> None:
        job.device_hit, job.host_hit = job.prefix, loaded
        job.prefix = job.protected = shape.prefix
        job.end = shape.prefix + shape.extend
        job.node = node
        self._cache.tree.lock(node)
        self.jobs.append(job)
        if shape.chunked:
            self.chunked = job
        self._reserve(shape.extend, shape.answer)

    def _reserve(self, extend: int, answer: int) -> None:
        """Charge the pass (line 895)."""
        extend = self._server.taken(extend)
        self._now += extend + self._server.page_size
        self._later += extend + self._server.page_size + answer
        self._input -= extend
        self._chunk -= extend


def _reserved(job: Job) -> int:
    """Answer tokens that are reserved: all of them, as the benchmark ignores the end of text."""
    return min(job.remaining, LONGEST_RESERVED_ANSWER)
