"""The experiments, by name: which configurations serve which workloads, and with what L2.

The scale ``full`` is the one at which the effect of an INT8 L2 was first published, in tokens: an
L1 of 16,384, 32 prefixes of 2,048, four prompts of each, eight at a time, and an L2 of 8 GB for
Qwen3-8B, which is 2 GB for a model with a quarter of its layers. Lengths of questions and answers
were not published. Of questions of 32, 64 and 112 tokens that were simulated, 32 came nearest to
the published hit rates and was taken; answers have 4, since a CPU is slow to decode. ``small`` is
an eighth of all but the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evidence.record import NO_L2, RAW, Workload
from serving.l2 import WRITE_BACK, WRITE_THROUGH

FORMATS = ("int8", "int8-hadamard", "k8v4", "int4")


@dataclass(frozen=True)
class Scale:
    """How large everything is.

    Parameters
    ----------
    l1_tokens, page_size
        The device cache.
    l2_tokens
        Tokens that the raw L2 holds. All L2s have its bytes, or its tokens.
    workload
        What is served where nothing else is said.
    repeats
        How often.
    """

    l1_tokens: int
    page_size: int
    l2_tokens: int
    workload: Workload
    repeats: int


FULL = Scale(16_384, 1, 54_254, Workload(32, 4, 2048, 32, 4, 8, 1), 5)
SMALL = Scale(2_048, 1, 6_782, Workload(32, 4, 256, 4, 4, 8, 1), 3)
SCALES = {"full": FULL, "small": SMALL}


def turns(configurations: Sequence[str], repeats: int) -> Iterator[tuple[str, int]]:
    """Yield configurations and repetitions, from 0, in the order in which they are served.

    Every other repetition is in the opposite order, so that two configurations follow each other
    both ways, and two repetitions later another one begins.
    """
    for repeat in range(repeats):
        turn, backwards = divmod(repeat, 2)
        start = turn % len(configurations)
        order = [*configurations[start:], *configurations[:start]]
        for name in reversed(order) if backwards else order:
            yield name, repeat


@dataclass(frozen=True)
class Visit:
    """One server, and the workloads that it serves one after another, each with empty caches."""

    configuration: str
    repeat: int
    workloads: tuple[Workload, ...]


@dataclass(frozen=True)
class Case:
    """An experiment.

    Parameters
    ----------
    about
        What it answers, in a line.
    sizing
        What the L2s have in common: ``bytes`` or ``tokens`` (those that the bytes hold raw).
    configurations
        Which servers.
    write_policy
        SGLang's ``--hicache-write-policy``.
    """

    about: str
    sizing: str
    configurations: tuple[str, ...]
    write_policy: str = WRITE_THROUGH

    def workloads(self, scale: Scale) -> tuple[Workload, ...]:
        """What each server serves."""
        return (scale.workload,)

    def visits(self, scale: Scale) -> Iterator[Visit]:
        """Yield the servers in the order in which they are started, by :func:`turns`.

        A repetition's workload is the same for all.
        """
        for name, repeat in turns(self.configurations, scale.repeats):
            workloads = (replace(w, seed=w.seed + repeat) for w in self.workloads(scale))
            yield Visit(name, repeat, tuple(workloads))


@dataclass(frozen=True)
class Sweep(Case):
    """An experiment over one field of the workload.

    Parameters
    ----------
    field
        Which.
    factors
        Its values, as multiples of the scale's.
    """

    field: str = "groups"
    factors: Sequence[float] = ()

    def workloads(self, scale: Scale) -> tuple[Workload, ...]:
        """One for each value."""
        base = getattr(scale.workload, self.field)
        return tuple(
            replace(scale.workload, **{self.field: max(1, round(factor * base))})
            for factor in self.factors
        )


#: A format of each size: int8-hadamard has the bytes of int8, and so its hits.
_SIZES = (RAW, "int8", "k8v4", "int4")
CASES: dict[str, Case] = {
    "equal-bytes": Case("more tokens in the same memory", "bytes", (NO_L2, RAW, "int8")),
    "formats": Case("every format in the same memory", "bytes", (RAW, *FORMATS)),
    "write-back": Case(
        "the same, written back on eviction", "bytes", (RAW, "int8"), WRITE_BACK
    ),
    "equal-tokens": Case("as many tokens in less memory", "tokens", (RAW, "int8")),
    "working-set": Sweep(
        "where more capacity pays", "bytes", _SIZES,
        # Prefixes of 0.5 to 4 times what the raw L2 holds.
        field="groups", factors=(0.4, 1.0, 1.6, 2.4, 3.3),
    ),
    "prefix-length": Sweep(
        "prefixes of other lengths", "bytes", (RAW, "int8"),
        field="prefix_tokens", factors=(0.25, 0.5, 1.0, 2.0),
    ),
    "concurrency": Sweep(
        "more and fewer requests at a time", "bytes", (RAW, "int8"),
        field="concurrency", factors=(0.125, 0.5, 1.0, 2.0),
    ),
}  # fmt: skip
