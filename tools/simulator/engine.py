"""The scheduler's passes, and clients that each send their next request when one is answered.

The rules are those of ``managers/scheduler.py``, whose lines are named. Where the order of events
depends on time it is this one: the scheduler takes requests in at the beginning of a pass and sends
answers at its end, so that the way of an answer to the client and of its next request to the
scheduler ends during the next pass, and that request joins the one after it; a scheduler that has
nothing to compute goes on with the first request that comes, and those that come with it wait for
the next pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.admission import Admission, Verdict
from simulator.cache import Cache
from simulator.job import Job
from simulator.outcome import Outcome, Served
from simulator.server import TOUCH_INTERVAL, TOUCHED, Server
from simulator.trace import Ask

#: From the end of the pass that sends an answer to the one that the client's next request joins.
_PASSES_TO_NEXT = 2


class DoesNotFitError(ValueError):
    """A request that the server can never serve."""


@dataclass(frozen=True)
class _Pass:
    """What runs on the device."""

    jobs: tuple[Job, ...]
    is_prefill: bool
    chunked: Job | None = None


class Engine:
    """A server and its clients.

    Parameters
    ----------
    server
        Sizes and rules.
    trace
        Requests in the order in which they are sent.
    concurrency
        Requests under way at a time.
    """

    def __init__(self, server: Server, trace: Sequence[Ask], concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError(f"a concurrency of {concurrency}")
        self._server = server
        self.cache = Cache(server)
        self._jobs = [Job(number, ask, ask.tokens(number)) for number, ask in enumerate(trace)]
        self._unsent = deque(self._jobs)
        self._due = deque([0] * concurrency)
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._chunked: Job | None = None
        self._last: _Pass | None = None
        self._is_full = False
        self._admissions = 0
        self._unanswered = len(self._jobs)

    def run(self, told: Callable[[int, int], None] = lambda done, total: None) -> Outcome:
        """Serve the trace.

        Parameters
        ----------
        told
            Called with the requests that are answered, and with all.

        Raises
        ------
        DoesNotFitError
            If a request does not fit in L1 with its answer.
        """
        while self._unanswered:
            self._pass()
            told(len(self._jobs) - self._unanswered, len(self._jobs))
        return self._outcome()

    def _pass(self) -> None:
        """One round of the scheduler (lines 2061 and 3894)."""
        self.cache.now += 1
        self._arrive()
        self.cache.see_transfers()
        self._take_over()
        chosen = self._prefill() or self._decode()
        before, self._last = self._last, chosen
        if not self._server.overlap:
            before = chosen
        if before is not None:
            self._process(before)
        elif chosen is None:
            self._refuse_standstill()

    def _arrive(self) -> None:
        """Let requests in, and only one if nothing is computed."""
        busy = self._running or self._chunked or self._last
        while self._unsent and self._due and self._due[0] <= self.cache.now:
            self._waiting.append(self._unsent.popleft())
            self._due.popleft()
            if not busy:
                break

    def _refuse_standstill(self) -> None:
        if self._waiting and not (self._running or self._chunked or self.cache.has_transfers):
            ask = self._waiting[0].ask
            raise DoesNotFitError(
                f"a prompt of {ask.prompt:,} tokens with an answer of {ask.output:,} does not "
                f"fit in an L1 of {self._server.l1_tokens:,}"
            )

    def _take_over(self) -> None:
        """Let the last pass's requests run, and forget those that have ended (line 3911)."""
        if self._chunked is not None:
            self._insert(self._chunked, self._chunked.end)
            self._chunked.prefix = self._chunked.end
        if self._last is not None and self._last.is_prefill:
            joining = [job for job in self._last.jobs if job is not self._last.chunked]
            joining = [job for job in joining if job.remaining]
            self._is_full &= len(joining) == len(self._last.jobs)
            self._running += joining
        before = len(self._running)
        self._running = [job for job in self._running if job.remaining]
        self._is_full &= len(self._running) == before

    # Prefill

    def _prefill(self) -> _Pass | None:
        """Choose what to compute of prompts (line 4079)."""
        self._is_full &= bool(self._running)
        if (self._is_full or not self._waiting) and self._chunked is None:
            return None
        if self._slots(0) <= 0 and self._chunked is None:
            self._is_full = True
            return None
        self._touch_waiting()
        admission = Admission(self._server, self.cache, self._running)
        if self._chunked is not None:
            admission.go_on(self._chunked)
        self._admit(admission)
        if not admission.jobs:
            return None
        self._waiting = [job for job in self._waiting if job not in admission.jobs]
        self._chunked = admission.chunked
        self._allocate(admission.jobs)
        return _Pass(tuple(admission.jobs), True, admission.chunked)

    def _admit(self, admission: Admission) -> None:
        for job in list(self._waiting):
            if admission.verdict() is Verdict.PASS_IS_FULL:
                break
            if len(admission.jobs) >= self._slots(sum(j.committed > 0 for j in admission.jobs)):
                self._is_full = True
            if self._is_full:
                break
            verdict = admission.add(job)
            if verdict is Verdict.NO_ROOM:
                self._is_full = bool(admission.jobs or self._running)
            if verdict is not Verdict.GO_ON:
                break

    def _slots(self, held_by_pass: int) -> int:
        """Requests that may still be admitted (line 4027)."""
        most = self._server.max_running
        if most is None:
            return len(self._jobs) + 1
        held = sum(job.committed > 0 and job.remaining > 0 for job in self._jobs)
        return min(most - len(self._running), most - held + held_by_pass)

    def _touch_waiting(self) -> None:
        """Count what waits as used, the head last (``schedule_policy.py:282``)."""
        if not self._waiting:
            return
        due = self._admissions % TOUCH_INTERVAL == 0
        self._admissions += 1
        if due:
            for job in reversed(self._waiting[:TOUCHED]):
                self.cache.match(job.prompt, job.ask.prompt)

    def _allocate(self, jobs: Sequence[Job]) -> None:
        """Give a pass its place in L1 (``allocation.py:152`` and ``:175``)."""
        page = self._server.page_size
        wanted = sum(job.end - job.prefix for job in jobs)
        self.cache.make_room(wanted if page == 1 else wanted + page * len(jobs))
        for job in jobs:
            start = job.committed or job.protected
            self.cache.take(self._server.taken(job.end) - self._server.taken(start))
            job.committed = job.end
            job.in_flight = job is not self._chunked

    # Decode

    def _decode(self) -> _Pass | None:
        """Produce one more token of each answer, or several while nothing else can happen."""
        before = len(self._running)
        self._running = [job for job in self._running if not job.finishing]
        self._is_full &= len(self._running) == before and bool(self._running)
        if not self._running:
            return None
        steps = self._steps_alone()
        # As if each answer began a page in the last of them (``allocation.py:584``).
        self.cache.make_room(self._wanted(steps - 1) + self._server.page_size * len(self._running))
        if self.cache.free < self._wanted(steps):
            raise DoesNotFitError(
                f"an L1 of {self._server.l1_tokens:,} tokens is full before its answers end; "
                "SGLang would stop one and start it over, which is not simulated"
            )
        self.cache.take(self._wanted(steps))
        for job in self._running:
            job.committed += steps
            job.produced += steps - 1
            job.in_flight = True
        self.cache.now += steps - 1
        return _Pass(tuple(self._running), False)

    def _wanted(self, steps: int) -> int:
        taken = self._server.taken
        return sum(taken(job.committed + steps) - taken(job.committed) for job in self._running)

    def _steps_alone(self) -> int:
        """Decode passes in which nothing but decoding can happen, the next one included."""
        if (self._due and self._unsent) or self._chunked or self.cache.has_transfers:
            return 1
        if self._waiting and not self._is_full:
            return 1
        if self._server.overlap and not self._repeats_last():
            return 1
        return max(1, min(job.remaining - job.in_flight for job in self._running))

    def _repeats_last(self) -> bool:
        last = self._last
        return last is not None and not last.is_prefill and set(last.jobs) == set(self._running)

    # Results

    def _process(self, ended: _Pass) -> None:
        """See what a pass has produced."""
        for job in ended.jobs:
            if job is ended.chunked or not job.in_flight:
                continue
            job.produced += 1
            job.in_flight = job in self._running_now()
            if not job.remaining:
                self._finish(job)
            elif ended.is_prefill:
                self._insert(job, job.end)
                job.prefix = job.end

    def _running_now(self) -> tuple[Job, ...]:
        """Requests of the pass that has been started meanwhile."""
        if not self._server.overlap or self._last is None:
            return ()
        return self._last.jobs

    def _finish(self, job: Job) -> None:
        self._insert(job, job.committed)
        self._release(job)
        job.in_flight = False
        self._unanswered -= 1
        self._due.append(self.cache.now + _PASSES_TO_NEXT)

    def _release(self, job: Job) -> None:
        """Take back what of a request is not the tree's (``mem_cache/common.py:400``)."""
        assert job.node is not None
        self.cache.give_back(self._server.taken(job.committed) - job.protected)
        self.cache.tree.unlock(job.node)

    def _insert(self, job: Job, end: int) -> None:
        """Hand a request's tokens to the tree (``unified_radix_cache.py:1164``).

        What is past the prompt becomes a node of its own, which is older than the prompt.
        """
        assert job.node is not None
        kept = self._server.whole_pages(end)
        node = self.cache.insert(job.tokens.cut(0, kept), job.protected, job.inserted)
        prompt = self._server.whole_pages(job.ask.prompt)
        if 0 < prompt < kept:
            self.cache.insert(job.tokens.cut(0, prompt), prompt, prompt)
        self.cache.tree.unlock(job.node)
        self.cache.tree.lock(node)
        job.node, job.protected, job.inserted = node, kept, max(job.inserted, kept)

    def _outcome(self) -> Outcome:
        cache = self.cache
        served = (Served(job.ask.prompt, job.device_hit, job.host_hit) for job in self._jobs)
        return Outcome(
            tuple(served),
            restored_tokens=cache.restored,
            backed_up_tokens=cache.host.written,
            l1_evicted_tokens=cache.evicted,
            l2_evicted_tokens=cache.host.evicted,
            dropped_tokens=cache.dropped,
            passes=cache.now,
        )


def simulate(server: Server, trace: Sequence[Ask], concurrency: int) -> Outcome:
    """Serve a trace and return what came of it: :class:`Engine`."""
    return Engine(server, trace, concurrency).run()
