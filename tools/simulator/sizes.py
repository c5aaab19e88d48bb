"""Tokens of host memory, with each format: what the host pool of SGLang would be started with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evidence.record import NO_L2, RAW
from formats.capacity import Deployment, Refused, capacity


@dataclass(frozen=True)
class Pools:
    """Formats of one model, and what keeps others out.

    Parameters
    ----------
    served
        The model.
    formats
        ``none``, ``raw`` and codecs that serve it.
    refused
        Why others do not.
    """

    served: Deployment
    formats: tuple[str, ...]
    refused: tuple[str, ...]

    def tokens(self, name: str, size_gb: float) -> int:
        """What a budget per rank holds, and 0 without an L2."""
        if name == NO_L2:
            return 0
        found = capacity(self.served, name, [size_gb])
        if isinstance(found, Refused):
            raise ValueError(found.refused)
        return found.filled[0].tokens


def pools(served: Deployment, names: Iterable[str]) -> Pools:
    """Sort out which formats serve a model."""
    kept, refused = [NO_L2, RAW], []
    for name in names:
        found = capacity(served, name, [])
        if isinstance(found, Refused):
            refused.append(found.refused)
        elif name not in kept:
            kept.append(name)
    return Pools(served, tuple(kept), tuple(refused))
