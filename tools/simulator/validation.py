"""Runs of the real engine, told from their simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from evidence.record import Record
from simulator.engine import simulate
from simulator.server import Server
from simulator.trace import recorded

#: Points of hit rate by which a run may differ.
TOLERATED = 2.0

#: Passes from an answer to the next request. A client's way back takes time that is not modelled:
#: by how much these differ is what a run's hit rate owes to it.
DELAYS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Compared:
    """A run and its simulation.

    Parameters
    ----------
    name
        The run's file.
    configuration
        ``none``, ``raw`` or a codec.
    simulated, engine
        Percent of the prompts' tokens that were not computed.
    lowest, highest
        Of the simulation, with each of :data:`DELAYS`; the first is ``simulated``.
    simulated_restored, engine_restored
        Tokens that L2 gave back.
    """

    name: str
    configuration: str
    simulated: float
    engine: float
    lowest: float
    highest: float
    simulated_restored: int
    engine_restored: int

    @property
    def difference(self) -> float:
        """By how many points the simulation is above the engine."""
        return self.simulated - self.engine

    @property
    def agrees(self) -> bool:
        """Whether that is tolerated."""
        return abs(self.difference) <= TOLERATED


def server_of(record: Record) -> Server:
    """What a run's server was started with, as far as the cache goes."""
    setup, command = record.setup, record.server_command
    running = _option(command, "--max-running-requests")
    return Server(
        l1_tokens=setup.l1_tokens,
        l2_tokens=record.pool.slots if record.pool else 0,
        page_size=setup.page_size,
        write_policy=setup.write_policy,
        chunk_tokens=record.limits.chunked_prefill_size,
        prefill_tokens=record.limits.max_prefill_tokens,
        max_running=int(running) if running else None,
        overlap="--disable-overlap-schedule" not in command,
    )


def _option(command: Sequence[str], name: str) -> str | None:
    """The value of an option, given as one argument or as two."""
    for at, argument in enumerate(command):
        if argument.startswith(name + "="):
            return argument.partition("=")[2]
        if argument == name and at + 1 < len(command):
            return command[at + 1]
    return None


def compare(record: Record) -> Compared:
    """Simulate the requests of a run on its server."""
    server, trace = server_of(record), recorded(record)
    concurrency = record.setup.workload.concurrency
    outcomes = [simulate(server, trace, concurrency, delay) for delay in DELAYS]
    rates = [100 * outcome.hit_rate for outcome in outcomes]
    return Compared(
        record.name,
        record.setup.configuration,
        simulated=rates[0],
        engine=100 * record.hit_rate,
        lowest=min(rates),
        highest=max(rates),
        simulated_restored=outcomes[0].host_tokens,
        engine_restored=record.host_tokens,
    )


def validate(
    records: Iterable[Record], told: Callable[[int, int], None] = lambda done, total: None
) -> list[Compared]:
    """Simulate all runs that can be used."""
    usable = [record for record in records if record.invalid is None]
    found = []
    for record in usable:
        found.append(compare(record))
        told(len(found), len(usable))
    return found
