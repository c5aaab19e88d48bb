"""What the simulator says of working sets, and how far it is from the engine."""

from __future__ import annotations

from reporting.content import Block, Bullets, Plot, Section, Table, Text
from reporting.hit_plot import draw_hits
from reporting.runs import Case, Results
from reporting.simulation import Compared, Simulation, Validation
from reporting.spread import Spread
from reporting.varied import WORKING_SET


def simulated(found: Simulation, results: Results) -> Section:
    """Return the section of a sweep, with what was measured of the same."""
    measured: list[Case] = [case for case in results.cases if found.is_of(case)]
    load, server = found.scene.workload, found.scene.server
    words = (
        f"Simulated, with the bytes of {found.model}: prefixes of {load.prefix_tokens:,} tokens, "
        f"{load.prompts_per_group} requests from each, {load.concurrency} at a time; L1 "
        f"{server.l1_tokens:,} tokens, raw L2 {found.l2_tokens:,} tokens; {server.write_policy}."
    )
    beside = "marks: measured" if measured else "nothing of the same sizes was measured"
    caption = f"Hit rate against working set. Lines: simulated; {beside}."
    plot = Plot("hit-rate-simulated", caption, draw_hits(measured, found.curves, WORKING_SET))
    return Section("Hit rate by working set, simulated", (Text(words), plot))


def validated(found: Validation) -> Section:
    """Return the section of runs beside their simulation."""
    words = (
        "Each run of the engine was simulated too, with the requests that it had: percentage "
        f"points of hit rate that the simulation is above it. {len(found.off)} of "
        f"{len(found.runs)} runs differ by more than {found.tolerated:g}."
    )
    blocks: list[Block] = [Text(words), _table(found)]
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
