"""The contract between a codec and what moves its units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch

from hiqcache.codecs.layout import BlockLayout, UnitLayout
from hiqcache.geometry import KVGeometry, PageRows


@dataclass(frozen=True)
class Workspace:
    """Temporaries of one stream's calls; each field is a tensor ``[blocks, ...]``."""

    def shaped(self, leading: torch.Size) -> Self:
        """View as many blocks as ``leading`` has, in its shape."""
        return type(self)(
            *(b[: leading.numel()].view(*leading, *b.shape[1:]) for b in vars(self).values())
        )


class BlockFormat(ABC):
    """Turns K (or V) of one page and layer into a block of fixed size, and back.

    ``encode`` and ``decode`` run on the caller's current stream, write into the caller's memory,
    take every temporary from the workspace and never synchronise. What a format cannot serve is
    refused by its constructor; a transfer never discovers it.

    Parameters
    ----------
    rows : PageRows
        What a block is made of.
    """

    #: Where the parts of a block lie; the constructor sets it.
    layout: BlockLayout

    def __init__(self, rows: PageRows) -> None:
        self.rows = rows

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, padding included."""
        return self.layout.block_bytes

    @abstractmethod
    def workspace(self, blocks: int, device: torch.device | str) -> Workspace | None:
        """Temporaries for calls of up to ``blocks`` blocks; one for each stream that calls."""

    @abstractmethod
    def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: Any) -> None:
        """Encode ``rows`` into ``blocks``, padding included.

        Parameters
        ----------
        rows : torch.Tensor
            ``[..., page_size, heads, dim]`` of the device pool's dtype.
        blocks : torch.Tensor
            uint8, ``[..., block_bytes]``, each block contiguous. Every byte is written.
        workspace
            What :meth:`workspace` returned, for at least as many blocks.
        """

    @abstractmethod
    def decode(self, blocks: torch.Tensor, rows: torch.Tensor, workspace: Any) -> None:
        """Decode ``blocks`` into ``rows``; shapes as in :meth:`encode`."""


@dataclass(frozen=True)
class UnitWorkspace:
    """Temporaries of K's and of V's format."""

    keys: Workspace | None
    values: Workspace | None


class KVCodec:
    """A format for K and one for V: what a server keeps its host copies with.

    A unit is one page of one layer. Its size is fixed, which is what turns compression into
    capacity: a slot of the host pool is reserved in full, however few bytes a variable-length code
    would fill.

    Parameters
    ----------
    geometry : KVGeometry
        The KV cache.

    Raises
    ------
    ValueError
        For a geometry that a format cannot serve.
    """

    #: Short name; the value of ``--hicache-l2-codec``.
    id: ClassVar[str]
    #: Of the bytes. What was written under one version decodes under it forever.
    version: ClassVar[int] = 1
    key_format: ClassVar[type[BlockFormat]]
    value_format: ClassVar[type[BlockFormat]]
    #: Whether its units must be smaller than the rows; false for a control.
    saves_bytes: ClassVar[bool] = True

    def __init__(self, geometry: KVGeometry) -> None:
        self.geometry = geometry
        self.keys = self.key_format(geometry.keys)
        self.values = self.value_format(geometry.values)
        self.unit = UnitLayout(geometry.page_size, self.keys.block_bytes, self.values.block_bytes)

    @property
    def format_tag(self) -> str:
        """Names the bytes of a unit: the format, its version, and a page that is not a token."""
        pages = "" if self.geometry.page_size == 1 else f"-p{self.geometry.page_size}"
        return f"l2-{self.id}-v{self.version}{pages}"

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes on the host: all layers, K and V."""
        return self.geometry.layers * self.unit.unit_bytes // self.geometry.page_size

    @property
    def padding_bytes(self) -> int:
        """Bytes of a unit that hold nothing, since a mover copies whole groups."""
        used = self.keys.layout.used_bytes + self.values.layout.used_bytes
        return self.unit.unit_bytes - used

    @property
    def alike(self) -> bool:
        """Whether what serves K serves V."""
        return type(self.keys) is type(self.values) and self.keys.rows == self.values.rows

    def workspace(self, units: int, device: torch.device | str) -> UnitWorkspace:
        """Temporaries for calls of up to ``units`` units; one for each stream that calls."""
        keys = self.keys.workspace(units, device)
        return UnitWorkspace(keys, keys if self.alike else self.values.workspace(units, device))

    def encode(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        units: torch.Tensor,
        workspace: UnitWorkspace,
    ) -> None:
        """Encode pages of K and V.

        Parameters
        ----------
        keys, values : torch.Tensor
            ``[..., page_size, kv_heads, head_dim]`` and ``[..., page_size, kv_heads, v_head_dim]``
            of the geometry's dtype.
        units : torch.Tensor
            uint8, ``[..., unit_bytes]``, each unit contiguous. Every byte is written.
        workspace : UnitWorkspace
            What :meth:`workspace` returned, for at least as many units.
        """
        key_blocks, value_blocks, padding = self.parts(units)
        self.keys.encode(keys, key_blocks, workspace.keys)
        self.values.encode(values, value_blocks, workspace.values)
        padding.zero_()

    def decode(
        self,
        units: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        workspace: UnitWorkspace,
    ) -> None:
        """Decode units; shapes as in :meth:`encode`."""
        key_blocks, value_blocks, _ = self.parts(units)
        self.keys.decode(key_blocks, keys, workspace.keys)
        self.values.decode(value_blocks, values, workspace.values)

    def parts(self, units: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """View the blocks of K, those of V, and what is behind them, of ``[..., unit_bytes]``."""
        keys_end = self.unit.key_bytes
        values_end = keys_end + self.unit.value_bytes
        return units[..., :keys_end], units[..., keys_end:values_end], units[..., values_end:]
