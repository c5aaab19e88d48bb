"""What the formats of the library are held to, by the figures of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvbench.catalogue import PLAIN
from kvbench.results import Result, dominators
from kvbench.statistics import ratio

NVFP4 = "NVFP4 pages (emulated)"
#: A format, what it is compared with, and how much of that one's KL it may have.
AT_MOST = (
    ("int8-hadamard", "int8", 0.4),
    ("int4", NVFP4, 0.5),
    ("k8v4", "int4", 0.2),
)
#: A format, and one of more bits whose KL it is to be below.
BELOW = (("int8-hadamard", "gguf q8_0"), ("int4", "gguf q4_0"))


@dataclass(frozen=True)
class Goal:
    """One goal, and what came of it."""

    text: str
    found: str
    met: bool


def goals(results: Sequence[Result]) -> list[Goal]:
    """Judge a run of all formats."""
    by_name = {result.name: result for result in results}
    return [
        *(_at_most(by_name, *given) for given in AT_MOST),
        *(_below(by_name, *given) for given in BELOW),
        *(_not_dominated(result, results) for result in results if _must_not_be_dominated(result)),
    ]


def _must_not_be_dominated(result: Result) -> bool:
    return result.kind == "ours" and result.name != PLAIN


def _share(result: Result, other: Result) -> tuple[float, str]:
    share = ratio(result.divergence, other.divergence)
    return share.estimate, f"{share.estimate:.3f} of it ({share.low:.3f} to {share.high:.3f})"


def _at_most(by_name: Mapping[str, Result], name: str, other: str, limit: float) -> Goal:
    share, found = _share(by_name[name], by_name[other])
    return Goal(f"{name}: at most {limit} of the KL of {other}", found, share <= limit)


def _below(by_name: Mapping[str, Result], name: str, other: str) -> Goal:
    ours, theirs = by_name[name], by_name[other]
    share, found = _share(ours, theirs)
    return Goal(
        f"{name}: below the KL of {other} at fewer bits",
        f"{found} at {ours.bits:.2f} against {theirs.bits:.2f} bits",
        share < 1.0 and ours.bits < theirs.bits,
    )


def _not_dominated(result: Result, results: Sequence[Result]) -> Goal:
    others = [other for other in results if other.kind != "ours"]
    found = dominators(result, others)
    return Goal(f"{result.name}: dominated by no peer", ", ".join(found) or "by none", not found)
