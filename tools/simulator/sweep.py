"""A parameter varied, for each format: where more tokens in the same memory pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from evidence.record import NO_L2, RAW, Workload
from simulator.engine import simulate
from simulator.outcome import Outcome
from simulator.server import Server
from simulator.sizes import Pools
from simulator.trace import Ask, generated, prompt_tokens

#: What is varied, and in which unit.
UNITS = {
    "working-set": "prefixes, times the raw L2's tokens",
    "budget": "host memory, GB per rank",
    "prefix": "prefix, tokens",
    "concurrency": "requests at a time",
}

#: Points of hit rate that count as a gain.
WORTH = 1.0


@dataclass(frozen=True)
class Scene:
    """Everything that a sweep does not vary.

    Parameters
    ----------
    workload
        What is served.
    server
        Of it, all but the L2's tokens.
    size_gb
        The budget of the L2.
    zipf
        As in :func:`simulator.trace.group_order`.
    repeats
        Shuffles, from the workload's seed on.
    """

    workload: Workload
    server: Server
    size_gb: float
    zipf: float | None = None
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.size_gb <= 0 or self.repeats < 1:
            raise ValueError(f"{self.size_gb} GB, {self.repeats} repeats")

    def at(self, varied: str, value: float, raw_tokens: int) -> Scene:
        """Vary one parameter. A longer prefix leaves the tokens of all prefixes as they are."""
        w = self.workload
        if varied == "budget":
            return replace(self, size_gb=value)
        if varied in ("concurrency", "prefix") and value != int(value):
            raise ValueError(f"--at {value:g} for the {varied}: it is not a whole number")
        if varied == "concurrency":
            return replace(self, workload=replace(w, concurrency=int(value)))
        if varied == "prefix":
            groups = max(1, round(w.working_set_tokens / value))
            return replace(self, workload=replace(w, groups=groups, prefix_tokens=int(value)))
        groups = max(1, round(value * raw_tokens / w.prefix_tokens))
        return replace(self, workload=replace(w, groups=groups))

    def traces(self) -> list[tuple[Ask, ...]]:
        """One for each repeat."""
        seeds = range(self.workload.seed, self.workload.seed + self.repeats)
        return [generated(replace(self.workload, seed=seed), self.zipf) for seed in seeds]


@dataclass(frozen=True)
class Point:
    """What a format makes of one value; means of the repeats.

    Parameters
    ----------
    value
        Of what is varied.
    format
        ``none``, ``raw`` or a codec.
    l2_tokens
        What its L2 holds.
    hit_rate, lowest, highest
        Percent of the prompts' tokens that were not computed: mean and range.
    device_rate, host_rate
        Of the mean, what L1 had and what L2 gave back.
    restored_tokens, backed_up_tokens, l1_evicted_tokens, l2_evicted_tokens
        As in :class:`simulator.outcome.Outcome`.
    """

    value: float
    format: str
    l2_tokens: int
    hit_rate: float
    lowest: float
    highest: float
    device_rate: float
    host_rate: float
    restored_tokens: float
    backed_up_tokens: float
    l1_evicted_tokens: float
    l2_evicted_tokens: float


@dataclass(frozen=True)
class Sweep:
    """All points, and the ceiling of each value.

    Parameters
    ----------
    varied
        A key of :data:`UNITS`.
    values
        Of it, in order.
    ceilings
        For each value, percent of the prompts' tokens that were sent before.
    points
        For each value, one of each format.
    """

    varied: str
    values: tuple[float, ...]
    ceilings: tuple[float, ...]
    points: tuple[Point, ...]

    @property
    def formats(self) -> list[str]:
        """Formats, each once."""
        return list(dict.fromkeys(point.format for point in self.points))

    @property
    def alike(self) -> list[tuple[str, ...]]:
        """Formats, those together whose L2s hold the same tokens at every value."""
        by_tokens: dict[tuple[int, ...], tuple[str, ...]] = {}
        for name in self.formats:
            tokens = tuple(point.l2_tokens for point in self.line(name))
            by_tokens[tokens] = (*by_tokens.get(tokens, ()), name)
        return list(by_tokens.values())

    def line(self, name: str) -> list[Point]:
        """The points of a format."""
        return [point for point in self.points if point.format == name]

    def gains(self, name: str) -> list[float]:
        """Points of hit rate that a format has over ``raw``, for each value."""
        pairs = zip(self.line(name), self.line(RAW), strict=True)
        return [mine.hit_rate - raw.hit_rate for mine, raw in pairs]


def ceiling(trace: Sequence[Ask], page_size: int) -> float:
    """Percent of the prompts' tokens that a cache of any size could spare."""
    longest: dict[int, int] = {}
    spared = 0
    for ask in trace:
        spared += min(longest.get(ask.group, 0), ask.prefix) // page_size * page_size
        longest[ask.group] = max(longest.get(ask.group, 0), ask.prefix)
    return 100 * spared / prompt_tokens(trace)


def sweep(
    scene: Scene,
    pools: Pools,
    varied: str,
    values: Sequence[float],
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Sweep:
    """Simulate each format at each value.

    Parameters
    ----------
    scene
        What is not varied.
    pools
        Formats.
    varied, values
        What is, and to what.
    told
        Called with the points that are done, and with all.
    """
    ceilings, points = [], []
    total = len(values) * len(pools.formats)
    for value in values:
        there = scene.at(varied, value, pools.tokens(RAW, scene.size_gb))
        traces = there.traces()
        bounds = [ceiling(trace, there.server.page_size) for trace in traces]
        ceilings.append(sum(bounds) / len(bounds))
        for point in _points(there, pools, value, traces):
            points.append(point)
            told(len(points), total)
    return Sweep(varied, tuple(values), tuple(ceilings), tuple(points))


def _points(
    scene: Scene, pools: Pools, value: float, traces: Sequence[Sequence[Ask]]
) -> Iterator[Point]:
    """Yield a point of each format; formats of the same bytes are simulated once."""
    known: dict[int, list[Outcome]] = {}
    for name in pools.formats:
        tokens = pools.tokens(name, scene.size_gb)
        if tokens not in known:
            server = replace(scene.server, l2_tokens=tokens)
            concurrency = scene.workload.concurrency
            known[tokens] = [simulate(server, trace, concurrency) for trace in traces]
        yield _point(value, name, tokens, known[tokens])


def _point(value: float, name: str, tokens: int, outcomes: Sequence[Outcome]) -> Point:
    def mean(of: Callable[[Outcome], float]) -> float:
        return sum(of(outcome) for outcome in outcomes) / len(outcomes)

    rates = [100 * outcome.hit_rate for outcome in outcomes]
    return Point(
        value,
        name,
        tokens,
        hit_rate=sum(rates) / len(rates),
        lowest=min(rates),
        highest=max(rates),
        device_rate=mean(lambda o: 100 * o.device_tokens / o.prompt_tokens),
        host_rate=mean(lambda o: 100 * o.host_tokens / o.prompt_tokens),
        restored_tokens=mean(lambda o: o.restored_tokens),
        backed_up_tokens=mean(lambda o: o.backed_up_tokens),
        l1_evicted_tokens=mean(lambda o: o.l1_evicted_tokens),
        l2_evicted_tokens=mean(lambda o: o.l2_evicted_tokens),
    )


@dataclass(frozen=True)
class Payoff:
    """Where a format's extra tokens pay.

    Parameters
    ----------
    format
        A codec.
    most, most_at
        Its largest gain over ``raw`` in points of hit rate, and the value it has it at.
    pays_at, full_at
        Values at which it gains :data:`WORTH`, and at which it is that near the ceiling.
    """

    format: str
    most: float
    most_at: float
    pays_at: tuple[float, ...]
    full_at: tuple[float, ...]


def payoffs(found: Sweep) -> list[Payoff]:
    """Where each codec's extra tokens pay, and where there is nothing left to gain."""
    result = []
    for name in found.formats:
        if name in (NO_L2, RAW):
            continue
        gains = found.gains(name)
        most = max(gains)
        pays = [v for v, gain in zip(found.values, gains, strict=True) if gain >= WORTH]
        near = zip(found.line(name), found.ceilings, strict=True)
        full = [point.value for point, bound in near if bound - point.hit_rate <= WORTH]
        most_at = found.values[gains.index(most)]
        result.append(Payoff(name, most, most_at, tuple(pays), tuple(full)))
    return result
