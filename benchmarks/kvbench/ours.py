"""HiQCache's codecs as formats: the one place where the benchmarks call them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from hiqcache.codecs import KVCodec, codec_class, make_codec
from hiqcache.codecs.base import UnitWorkspace
from hiqcache.geometry import KVGeometry
from kvbench.formats import Format

#: Tokens of a page, and of a chunk of a transfer on a CPU.
PAGE = 64


def allocated_bits(name: str, kv_heads: int, head_dim: int, page: int) -> float:
    """Return the bits for each value that a codec allocates, by the tokens of a page."""
    codec = make_codec(name, KVGeometry(1, kv_heads, head_dim, page_size=page))
    return 8 * codec.unit.unit_bytes / (2 * page * kv_heads * head_dim)


@dataclass(frozen=True)
class _Buffers:
    """What a transfer owns: a call works in it, and the next call again."""

    codec: KVCodec
    units: torch.Tensor  # [layers, pages, unit_bytes] uint8
    keys: torch.Tensor  # [layers, pages, PAGE, heads, dim]
    values: torch.Tensor  # the same
    workspace: UnitWorkspace

    @classmethod
    @cache
    def of(cls, name: str, shape: torch.Size) -> _Buffers:
        """Return those of a codec for ``[layers, tokens, heads, dim]``."""
        layers, tokens, heads, dim = shape
        codec = make_codec(name, KVGeometry(layers, heads, dim, page_size=PAGE))
        pages = (layers, tokens // PAGE)
        return cls(
            codec,
            units=torch.empty(*pages, codec.unit.unit_bytes, dtype=torch.uint8),
            keys=torch.empty(*pages, PAGE, heads, dim, dtype=torch.bfloat16),
            values=torch.empty(*pages, PAGE, heads, dim, dtype=torch.bfloat16),
            workspace=codec.workspace(layers, "cpu"),
        )


class Ours(Format):
    """A codec of the library, on a page of all layers at a time.

    Parameters
    ----------
    name
        The codec.
    """

    kind = "ours"

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = f"{name} {codec_class(name).version}"

    def encode(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Size]:
        own = _Buffers.of(self.name, keys.shape)
        paged_keys, paged_values = (part.unflatten(1, (-1, PAGE)) for part in (keys, values))
        for page in range(own.units.shape[1]):
            given = paged_keys[:, page], paged_values[:, page]
            own.codec.encode(*given, own.units[:, page], own.workspace)
        return own.units, keys.shape

    def decode(self, held: tuple[torch.Tensor, torch.Size]) -> tuple[torch.Tensor, torch.Tensor]:
        units, shape = held
        own = _Buffers.of(self.name, shape)
        for page in range(units.shape[1]):
            wanted = own.keys[:, page], own.values[:, page]
            own.codec.decode(units[:, page], *wanted, own.workspace)
        return own.keys.view(shape), own.values.view(shape)
