"""SGLang's counters of what moved between the device and the host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from prometheus_client.parser import text_string_to_metric_families

_SAMPLES = {
    "backup_tokens": "sglang:hicache_backup_tokens_total",
    "backup_bytes": "sglang:hicache_backup_bytes_total",
    "load_back_tokens": "sglang:load_back_tokens_total",
    "load_back_bytes": "sglang:load_back_bytes_total",
}
_L2_CAPACITY = "sglang:hicache_host_total_tokens"


@dataclass(frozen=True)
class TransferCounters:
    """Tokens and bytes that went to L2 (backup) and came back (load-back)."""

    backup_tokens: int = 0
    backup_bytes: int = 0
    load_back_tokens: int = 0
    load_back_bytes: int = 0

    def since(self, before: TransferCounters) -> TransferCounters:
        """Return how far each counter went on from ``before``."""
        return TransferCounters(
            **{f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self)}
        )

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes that a backed-up token took, if any was."""
        return self.backup_bytes / self.backup_tokens if self.backup_tokens else None


def parse_counters(text: str) -> TransferCounters:
    """Read a server's ``/metrics``.

    Parameters
    ----------
    text
        Prometheus' text format. SGLang shows a counter only once it has counted, and with labels
        for each process; an absent counter is zero.
    """
    totals: dict[str, float] = {}
    for name, value in _samples(text):
        totals[name] = totals.get(name, 0.0) + value
    return TransferCounters(**{field: int(totals.get(s, 0)) for field, s in _SAMPLES.items()})


def l2_capacity(text: str) -> int | None:
    """Return how many tokens a server's L2 holds, if its ``/metrics`` say so."""
    # Processes that share a model's heads hold the same tokens, so theirs are not added.
    return max((int(value) for name, value in _samples(text) if name == _L2_CAPACITY), default=None)


#: Labels that tell samples of one metric apart. The others name the process and the model.
_TELLING = ("reason", "cache_source")


@dataclass(frozen=True)
class Snapshot:
    """All of a server's counters and gauges, summed over its processes.

    Parameters
    ----------
    counters, gauges
        By name, with the labels that tell them apart. A histogram gives its sum and its count.
    """

    counters: dict[str, float]
    gauges: dict[str, float]

    def counted_since(self, before: Snapshot) -> dict[str, float]:
        """Return how far each counter went on."""
        return {
            name: value - before.counters.get(name, 0.0)
            for name, value in sorted(self.counters.items())
        }


def snapshot(text: str) -> Snapshot:
    """Read everything in a server's ``/metrics`` but the buckets of its histograms.

    A value that is not a number says that there is none.
    """
    found: dict[str, dict[str, float]] = {"counter": {}, "gauge": {}}
    for family in text_string_to_metric_families(text):
        kind = found["gauge" if family.type == "gauge" else "counter"]
        for sample in family.samples:
            if "le" not in sample.labels and not math.isnan(sample.value):
                name = _told_apart(sample.name, sample.labels)
                kind[name] = kind.get(name, 0.0) + sample.value
    return Snapshot(found["counter"], found["gauge"])


def _told_apart(name: str, labels: Mapping[str, str]) -> str:
    telling = [f'{label}="{labels[label]}"' for label in _TELLING if label in labels]
    return f"{name}{{{','.join(telling)}}}" if telling else name


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.value
