"""What the simulator says of what is varied, and how far it is from the engine."""

from __future__ import annotations

from evidence.record import RAW
from reporting.content import Block, Bullets, Plot, Section, Table, Text
from reporting.measures import three_digits
from reporting.runs import Results
from reporting.simulation import Compared, Simulation, Validation
from reporting.simulation_plot import draw_simulated
from reporting.spread import Spread
from reporting.unmeasured import SIMULATIONS
from reporting.validation_plot import draw_validation
from simulator.output import payoff_lines, scene_line


def simulated(found: Simulation, results: Results) -> Section:
    """Return the section of a sweep, with what was measured of the same."""
    measured = [case for case in results.cases if found.is_of(case)]
    words = (
        f"Simulated, with the bytes of {found.model}: {scene_line(found.scene, found.varied)}. "
        f"Raw, the L2 holds {_raw_tokens(found)}."
    )
    beside = "full marks: measured" if measured else "nothing of the same sizes was measured"
    caption = (
        f"Hit rate against {found.axis.partition(',')[0]}. Lines: simulated; {beside}. Ceiling: "
        "what a cache of any size could hit."
    )
    plot = Plot(f"hit-rate-simulated-{found.varied}", caption, draw_simulated(found, measured))
    pays = Bullets(tuple(payoff_lines(found)))
    return Section(SIMULATIONS[found.varied].what, (Text(words), plot, pays))


def _raw_tokens(found: Simulation) -> str:
    tokens = sorted({point.l2_tokens for point in found.line(RAW)})
    if len(tokens) == 1:
        return f"{tokens[0]:,} tokens"
    low, high = (three_digits(bound / 1e6) for bound in (tokens[0], tokens[-1]))
    return f"{low} to {high} million tokens"


def validated(found: Validation) -> Section:
    """Return the section of runs beside their simulation."""
    words = (
        "Each run of the engine was simulated too, with the requests that it had: percentage "
        f"points of hit rate that the simulation is above it. {len(found.off)} of "
        f"{len(found.runs)} runs differ by more than {found.tolerated:g}."
    )
    caption = (
        "Hit rate of each run: simulated against measured. On the line they are the same; between "
        f"the dashed ones they differ by up to {found.tolerated:g} points."
    )
    plot = Plot("validation", caption, draw_validation(found))
    blocks: list[Block] = [Text(words), plot, _table(found)]
    if found.off:
        blocks.append(Bullets(tuple(map(_line, found.off))))
    return Section("Simulation against the engine", tuple(blocks))


def _table(found: Validation) -> Table:
    groups: dict[str, list[float]] = {}
    for run in found.runs:
        groups.setdefault(run.configuration, []).append(run.difference)
    rows = []
    for name, points in groups.items():
        spread = Spread.of(points)
        bounds = (spread.median, spread.low, spread.high)
        rows.append((name, str(spread.runs), *(f"{bound:+.1f}" for bound in bounds)))
    return Table(("percentage points", "runs", "median", "least", "largest"), tuple(rows))


def _line(run: Compared) -> str:
    return f"{run.name}: {run.simulated:.1f} % simulated, {run.engine:.1f} % in the engine"
