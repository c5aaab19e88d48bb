"""What was simulated, as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

from rich import box
from rich.table import Table

from evidence.record import NO_L2, RAW
from formats.capacity_output import heading_of
from serving.printing import Printer
from simulator.sizes import Pools
from simulator.sweep import UNITS, WORTH, Payoff, Scene, Sweep, payoffs
from simulator.validation import TOLERATED, Compared

#: Says values of what is varied.
_SAID = {
    "working-set": "{} times the raw L2",
    "budget": "{} GB per rank",
    "prefix": "prefixes of {} tokens",
    "concurrency": "{} requests at a time",
}


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for at, heading in enumerate(headings):
        table.add_column(heading, justify="right" if at else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def print_sweep(scene: Scene, pools: Pools, found: Sweep, details: bool) -> None:
    """Print the hit rates, where extra tokens pay, and in detail what came from where."""
    printer = Printer()
    printer.print(heading_of(pools.served))
    printer.print(scene_line(scene, found.varied))
    printer.print(f"hit rate, % of the prompts' tokens; first column: {UNITS[found.varied]}")
    printer.table(_rates(found))
    if details:
        printer.table(_sources(found))
        printer.table(_moved(found))
    for line in payoff_lines(found):
        printer.print(line)
    for reason in pools.refused:
        printer.print(f"refused: {reason}")


def scene_line(scene: Scene, varied: str) -> str:
    """Name in one line what a sweep does not vary."""
    w, server = scene.workload, scene.server
    order = "uniform" if scene.zipf is None else f"zipf {scene.zipf:g}"
    groups = f"{w.groups} groups x {w.prompts_per_group}"
    if varied == "working-set":
        groups = f"groups of {w.prompts_per_group}"
    elif varied == "budget":
        groups = f"{w.working_set_tokens / 1e6:.3g} million tokens of prefixes, {groups}"
    elif varied == "prefix":
        groups = f"{w.working_set_tokens:,} tokens of prefixes, groups of {w.prompts_per_group}"
    parts = {
        "groups": f"{groups} prompts, {order}",
        "prefix": f"prefixes of {w.prefix_tokens:,}",
        "rest": f"questions of {w.question_tokens:,}, answers of {w.output_tokens:,} tokens",
        "concurrency": f"{w.concurrency} at a time",
        "L1": f"L1 of {server.l1_tokens:,} tokens",
        "budget": f"L2 of {scene.size_gb:g} GB",
        "policy": server.write_policy,
        "repeats": f"shuffles: {scene.repeats}",
    }
    return "; ".join(part for name, part in parts.items() if name != varied)


def _rates(found: Sweep) -> Table:
    rows = []
    for at, (value, bound) in enumerate(zip(found.values, found.ceilings, strict=True)):
        rates = [f"{found.line(name)[at].hit_rate:.1f}" for name in found.formats]
        rows.append([f"{value:,g}", *rates, f"{bound:.1f}"])
    return _table([found.varied, *found.formats, "ceiling"], rows)


def _sources(found: Sweep) -> Table:
    headings = (found.varied, "format", "L2 tokens", "hit rate, %", "of L1", "of L2")
    rows = [
        (
            f"{p.value:,g}",
            p.format,
            f"{p.l2_tokens:,}",
            f"{p.lowest:.1f} to {p.highest:.1f}",
            f"{p.device_rate:.1f}",
            f"{p.host_rate:.1f}",
        )
        for p in found.points
    ]
    return _table(headings, rows)


def _moved(found: Sweep) -> Table:
    headings = (found.varied, "tokens", "restored", "backed up", "out of L1", "out of L2")
    rows = []
    for p in found.points:
        moved = (p.restored_tokens, p.backed_up_tokens, p.l1_evicted_tokens, p.l2_evicted_tokens)
        rows.append((f"{p.value:,g}", p.format, *(f"{tokens:,.0f}" for tokens in moved)))
    return _table(headings, rows)


def payoff_lines(found: Sweep) -> Iterator[str]:
    """Say where extra tokens pay and where no longer; formats whose L2s are alike share a line."""
    told = {payoff.format: payoff for payoff in payoffs(found)}
    for names in found.alike:
        if names[0] in told:
            yield f"{', '.join(names)}: {_payoff(told[names[0]], found)}"


def _payoff(payoff: Payoff, found: Sweep) -> str:
    return (
        f"at most {payoff.most:.1f} points above {RAW}, {_at((payoff.most_at,), found)}; "
        f"{WORTH:g} point or more {_at(payoff.pays_at, found)}; within {WORTH:g} point of all that "
        f"could be hit {_at(payoff.full_at, found)}"
    )


def _at(chosen: Sequence[float], found: Sweep) -> str:
    """Name values of a sweep, those in a row by their ends."""
    if not chosen:
        return "nowhere"
    spans = []
    for is_chosen, row in groupby(sorted(found.values), lambda value: value in chosen):
        if is_chosen:
            values = list(row)
            ends = dict.fromkeys((values[0], values[-1]))
            spans.append(" to ".join(f"{end:,g}" for end in ends))
    return "at " + _SAID[found.varied].format(" and ".join(spans))


def sweep_json(scene: Scene, pools: Pools, found: Sweep) -> str:
    """Return everything as JSON."""
    document = {
        "model": pools.served.name,
        "tp": pools.served.tp,
        "scene": asdict(scene),
        "formats": [name for name in pools.formats if name != NO_L2],
        "refused": pools.refused,
        **asdict(found),
        "payoffs": [asdict(payoff) for payoff in payoffs(found)],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def print_validation(found: Sequence[Compared], unusable: int) -> None:
    """Print each run beside its simulation."""
    headings = ("run", "L2", "simulated, %", "engine, %", "points", "restored", "by the engine")
    rows = [
        (
            c.name,
            c.configuration,
            f"{c.simulated:.2f}",
            f"{c.engine:.2f}",
            f"{c.difference:+.2f}{'' if c.agrees else ' !'}",
            f"{c.simulated_restored:,}",
            f"{c.engine_restored:,}",
        )
        for c in found
    ]
    printer = Printer()
    printer.table(_table(headings, rows))
    off = sum(not c.agrees for c in found)
    for name in dict.fromkeys(c.configuration for c in found):
        off_by = [c.difference for c in found if c.configuration == name]
        printer.print(f"{name}: {sum(off_by) / len(off_by):+.2f} points on average")
    printer.print(f"{off} of {len(found)} runs differ by more than {TOLERATED:g} points")
    if unusable:
        printer.print(f"{unusable} runs say of themselves that they cannot be used")


def validation_json(found: Sequence[Compared]) -> str:
    """Return every run beside its simulation as JSON."""
    runs = [{**asdict(c), "difference": c.difference, "agrees": c.agrees} for c in found]
    return json.dumps({"tolerated": TOLERATED, "runs": runs}, indent=2, allow_nan=False)
