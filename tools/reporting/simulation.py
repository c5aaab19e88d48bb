"""What tools/simulate.py says: hit rates by working set, and how far it is from the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from evidence.record import RAW, Workload
from reporting.loading import load
from reporting.runs import Case

#: What is varied where the working set is; the values are times the raw L2's tokens.
WORKING_SET = "working-set"

#: L2s whose tokens differ by less of them are the same: sizes are whole pages.
SAME = 0.02


@dataclass(frozen=True)
class Point:
    """A format's hit rate in per cent, with an L2 of so many tokens, at one value of the sweep."""

    value: float
    format: str
    l2_tokens: int
    hit_rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.hit_rate <= 100:
            raise ValueError(f"a hit rate of {self.hit_rate} % is none")


@dataclass(frozen=True)
class Server:
    """What of a simulated server a run of the engine can share."""

    l1_tokens: int
    page_size: int
    write_policy: str


@dataclass(frozen=True)
class Scene:
    """What a sweep does not vary."""

    workload: Workload
    server: Server


@dataclass(frozen=True)
class Simulation:
    """A sweep of the working set.

    Parameters
    ----------
    model
        Whose bytes the tokens of the L2s are counted by.
    scene
        What is served on what.
    varied
        :data:`WORKING_SET`.
    points
        For each value, one of each format.
    """

    model: str
    scene: Scene
    varied: str
    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if self.varied != WORKING_SET:
            raise ValueError(f"it varies {self.varied}, not {WORKING_SET}")
        if not self.l2_tokens:
            raise ValueError("no point of it has a raw L2")

    @property
    def l2_tokens(self) -> int:
        """Tokens of the raw L2, or 0 without one."""
        return max((point.l2_tokens for point in self.points if point.format == RAW), default=0)

    @property
    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """For each format, working sets in tokens and hit rates in per cent."""
        found: dict[str, list[tuple[float, float]]] = {}
        for point in sorted(self.points, key=lambda point: point.value):
            place = (point.value * self.l2_tokens, point.hit_rate)
            found.setdefault(point.format, []).append(place)
        return found

    def is_of(self, case: Case) -> bool:
        """Whether a case was measured with the same caches and requests as were simulated."""
        setup, load, mine = case.setup, case.setup.workload, self.scene.workload
        raw = case.named(RAW)
        pool = raw.runs[0].pool if raw else None
        return (
            pool is not None
            and abs(pool.slots - self.l2_tokens) <= SAME * self.l2_tokens
            and Server(setup.l1_tokens, setup.page_size, setup.write_policy) == self.scene.server
            and replace(load, groups=mine.groups, seed=mine.seed) == mine
        )


@dataclass(frozen=True)
class Compared:
    """A run of the engine and its simulation; hit rates in per cent."""

    name: str
    configuration: str
    simulated: float
    engine: float

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

    @property
    def off(self) -> list[Compared]:
        """Runs that differ by more."""
        return [run for run in self.runs if abs(run.difference) > self.tolerated]


def load_simulation(file: Path) -> Simulation:
    """Read a sweep of the working set.

    Raises
    ------
    ToolError
        If it is another file.
    """
    return load(Simulation, file, "a sweep of the working set")


def load_validation(file: Path) -> Validation:
    """Read a validation.

    Raises
    ------
    ToolError
        If it is another file.
    """
    return load(Validation, file, "a validation of the simulator")
