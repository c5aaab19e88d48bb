"""What host memory holds: bytes of a token and tokens of a budget, raw and with each codec.

Tokens are counted by SGLang's rule (:mod:`hiqcache.capacity`): whole pages, and one page more than
the budget holds. SGLang gives every rank the same budget and, since its heads are as many, the
same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from formats.models import Model
from hiqcache.capacity import GIGABYTE, tokens_for_size
from hiqcache.codecs import make_codec
from hiqcache.geometry import KVGeometry

#: A pool without a codec, as ``--hicache-l2-codec`` calls it, and as measurements do.
RAW = "none"
RAW_NAMES = (RAW, "raw")


@dataclass(frozen=True)
class Deployment:
    """A model as it is served.

    Parameters
    ----------
    name : str
        What the user calls the model.
    model : Model
        Its attention.
    tp : int
        Ranks.
    page_size : int
        Tokens per page.

    Raises
    ------
    ValueError
        For heads that do not divide among the ranks, or no positive page size.
    """

    name: str
    model: Model
    tp: int
    page_size: int

    def __post_init__(self) -> None:
        self.rank  # noqa: B018 - refuses what cannot be served

    @property
    def rank(self) -> KVGeometry:
        """The KV cache of one rank."""
        return self.model.geometry(self.page_size, self.tp)

    @property
    def copies(self) -> int:
        """Ranks that keep the same KV head."""
        return max(1, self.tp // self.model.kv_heads)


@dataclass(frozen=True)
class Filled:
    """A host pool of one size, on every rank.

    Parameters
    ----------
    size_gb : float
        Budget of a rank, in decimal gigabytes.
    tokens : int
        Tokens of the pool.
    gb_per_rank, gb_total : float
        What the pool takes: one page more than the budget holds.
    """

    size_gb: float
    tokens: int
    gb_per_rank: float
    gb_total: float


@dataclass(frozen=True)
class Capacity:
    """What one codec makes of host memory.

    Parameters
    ----------
    codec : str
        Its name, or one of :data:`RAW_NAMES`.
    bytes_per_token_rank, bytes_per_token_total : int
        On one rank, and on all.
    ratio : float
        Raw bytes to those.
    padding_per_token_rank : float
        Of a rank's bytes, those that hold nothing.
    filled : tuple of Filled
        For each budget.
    """

    codec: str
    bytes_per_token_rank: int
    bytes_per_token_total: int
    ratio: float
    padding_per_token_rank: float
    filled: tuple[Filled, ...]


@dataclass(frozen=True)
class Refused:
    """A codec that does not serve the deployment, and why."""

    codec: str
    refused: str


def capacity(served: Deployment, codec: str, sizes_gb: Sequence[float]) -> Capacity | Refused:
    """Return what ``codec`` makes of these budgets."""
    raw = served.rank.bytes_per_token
    if codec in RAW_NAMES:
        return _capacity(served, codec, raw, 0.0, sizes_gb)
    try:
        made = make_codec(codec, served.rank)
    except ValueError as error:
        return Refused(codec, str(error))
    padding = served.rank.layers * made.padding_bytes / served.page_size
    return _capacity(served, codec, made.bytes_per_token, padding, sizes_gb)


def _capacity(
    served: Deployment, codec: str, held: int, padding: float, sizes_gb: Sequence[float]
) -> Capacity:
    filled = []
    for size in sizes_gb:
        tokens = tokens_for_size(size, held, served.page_size)
        rank = tokens * held / GIGABYTE
        filled.append(Filled(size, tokens, rank, rank * served.tp))
    ratio = served.rank.bytes_per_token / held
    return Capacity(codec, held, held * served.tp, ratio, padding, tuple(filled))
