"""What each format costs in quality, as the rate-distortion benchmark found it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reporting.loading import load

OURS = "ours"


@dataclass(frozen=True)
class Interval:
    """An estimate and its bounds."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Format:
    """One format: what it is, its bits for each value, and its KL in nats for each token."""

    name: str
    kind: str
    bits: float
    kl: Interval
    top1_percent: Interval

    def __post_init__(self) -> None:
        if not (self.bits > 0 and 0 < self.kl.low <= self.kl.estimate <= self.kl.high):
            raise ValueError(f"{self.name} has no bits, or no KL that could be drawn")


@dataclass(frozen=True)
class Distortion:
    """A run of the benchmark."""

    formats: tuple[Format, ...]
    packages: dict[str, str]
    prefix: int
    scored: int

    def __post_init__(self) -> None:
        if not self.formats:
            raise ValueError("it has no formats")


def load_distortion(file: Path) -> Distortion:
    """Read ``docs/rate-distortion.json``.

    Raises
    ------
    ToolError
        If it is another file.
    """
    return load(Distortion, file, "a run of the rate-distortion benchmark")
