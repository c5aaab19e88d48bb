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


@dataclass(frozen=True)
class Compared:
    """A run and its simulation.

    Parameters
    ----------
    name
        The run's experiment and file.
    configuration
        ``none``, ``raw`` or a codec.
    simulated, engine
        Percent of the prompts' tokens that were not computed.
    simulated_restored, engine_restored
        Tokens that L2 gave back.
    """

    name: str
    configuration: str
    simulated: float
    engine: float
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
    outcome = simulate(server, trace, record.setup.workload.concurrency)
    return Compared(
        f"{record.setup.experiment}/{record.name}",
        record.setup.configuration,
        simulated=100 * outcome.hit_rate,
        engine=100 * record.hit_rate,
        simulated_restored=outcome.host_tokens,
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
