"""What tools/simulate.py says: hit rates by what is varied, and how far it is from the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evidence.record import RAW
from patchstack.errors import Exit, ToolError
from reporting import varied
from reporting.loading import load
from reporting.runs import Case, Configuration
from reporting.varied import Varied
from simulator.sweep import UNITS, Scene, Sweep

#: What is varied where the working set is; the values are times the raw L2's tokens.
WORKING_SET = "working-set"
#: What of a run's workload is varied by a sweep. A budget is no part of it.
_ALONG = {
    WORKING_SET: varied.WORKING_SET,
    "prefix": varied.PREFIX,
    "concurrency": varied.CONCURRENCY,
}

#: L2s whose tokens differ by less of them are the same: sizes are whole pages.
SAME = 0.02


@dataclass(frozen=True)
class Simulation(Sweep):
    """A sweep, as it was written.

    Parameters
    ----------
    model
        Whose bytes the tokens of the L2s are counted by.
    scene
        What is not varied.
    """

    model: str
    scene: Scene

    def __post_init__(self) -> None:
        if self.varied not in UNITS:
            raise ValueError(f"it varies {self.varied}, and none of {', '.join(UNITS)}")
        if not any(point.l2_tokens for point in self.line(RAW)):
            raise ValueError("no point of it has a raw L2")
        if min(self.values, default=0) <= 0 or len(self.ceilings) != len(self.values):
            raise ValueError("not all of its values are above zero and have a ceiling")
        for name in self.formats:
            if tuple(point.value for point in self.line(name)) != self.values:
                raise ValueError(f"{name} has no point at each of its values")
        for rate in (*self.ceilings, *(point.hit_rate for point in self.points)):
            if not 0 <= rate <= 100:
                raise ValueError(f"a hit rate of {rate} % is none")

    @property
    def l2_tokens(self) -> int:
        """Tokens of the largest raw L2, which is the only one unless the budget is varied."""
        return max(point.l2_tokens for point in self.line(RAW))

    @property
    def along(self) -> Varied | None:
        """What of a workload is varied, if it is something of it."""
        return _ALONG.get(self.varied)

    @property
    def axis(self) -> str:
        """What an axis of what is varied is called, with the unit."""
        return self.along.axis if self.along else UNITS[self.varied]

    @property
    def _unit(self) -> int:
        return self.l2_tokens if self.varied == WORKING_SET else 1

    def curve(self, rates: Sequence[float]) -> list[tuple[float, float]]:
        """Return places along the axis, in order, each with the rate of its value."""
        return sorted(
            (value * self._unit, rate) for value, rate in zip(self.values, rates, strict=True)
        )

    def is_of(self, case: Case) -> bool:
        """Whether a case was measured with the same caches and requests as were simulated."""
        if self.along is None or self.scene.zipf is not None:
            return False
        setup, server, load = case.setup, self.scene.server, case.setup.workload
        value = self.along.of(load) / self._unit
        mine = self.scene.at(self.varied, value, self.l2_tokens).workload
        caches = (server.l1_tokens, server.page_size, server.write_policy)
        return (
            (setup.l1_tokens, setup.page_size, setup.write_policy) == caches
            and replace(load, seed=mine.seed) == mine
            and all(map(self._is_as_large, case.configurations))
        )

    def _is_as_large(self, one: Configuration) -> bool:
        """Whether an L2 was measured with the tokens that it was simulated with, if it was."""
        pool, line = one.runs[0].pool, self.line(one.setup.configuration)
        held = pool.slots if pool else 0
        return not line or abs(held - line[0].l2_tokens) <= SAME * line[0].l2_tokens


@dataclass(frozen=True)
class Compared:
    """A run of the engine and its simulation; hit rates in per cent."""

    name: str
    configuration: str
    simulated: float
    engine: float

    def __post_init__(self) -> None:
        if not (0 <= self.simulated <= 100 and 0 <= self.engine <= 100):
            raise ValueError(f"the hit rates of {self.name} are none")

    @property
    def difference(self) -> float:
        """Percentage points that the simulation is above the engine."""
        return self.simulated - self.engine


@dataclass(frozen=True)
class Validation:
    """Runs beside their simulation, and by how many points they may differ."""

    tolerated: float
    runs: tuple[Compared, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("it has no runs")
        if self.tolerated < 0:
            raise ValueError(f"it tolerates {self.tolerated} points")

    @property
    def off(self) -> list[Compared]:
        """Runs that differ by more."""
        return [run for run in self.runs if abs(run.difference) > self.tolerated]


def load_simulations(files: Iterable[Path]) -> tuple[Simulation, ...]:
    """Read sweeps, each of something else.

    Raises
    ------
    ToolError
        If one is another file, or varies what another one does.
    """
    found: dict[str, Simulation] = {}
    for file in files:
        sweep = load(Simulation, file, "a sweep of tools/simulate.py")
        if sweep.varied in found:
            what = f"{file} varies the {sweep.varied}, as another sweep does"
            raise ToolError(what, "give one of each", Exit.USAGE)
        found[sweep.varied] = sweep
    return tuple(found.values())


def load_validation(file: Path) -> Validation:
    """Read a validation.

    Raises
    ------
    ToolError
        If it is another file.
    """
    return load(Validation, file, "a validation of the simulator")
