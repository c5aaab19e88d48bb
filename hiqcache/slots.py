"""Between the slots of a KV cache and the blocks of a format: one operation each way.

Gathering rows and encoding them is one operation, and so is decoding them and scattering the rows,
so that a kernel can do either in one pass over the data. :class:`TorchSlots` composes them of the
format's own ``encode`` and ``decode``: the reference, and what runs where nothing faster does.
Which one runs is chosen by :func:`hiqcache.kernels.slot_path_class`; the bytes never depend on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch

from hiqcache.codecs.base import BlockFormat


class SlotPath(ABC):
    """One stream's way between KV slots and the blocks of a format, for K or for V.

    Calls are enqueued on the caller's current stream; they neither allocate nor synchronise. One
    path may serve K and V in turn, where their format and their rows are the same.

    Parameters
    ----------
    form : BlockFormat
        What a block is.
    layers, pages : int
        The most of a call. Everything that a call needs is allocated here.
    device : torch.device
        Where the KV cache lives.
    """

    #: What a server's log calls it.
    name: ClassVar[str]

    def __init__(self, form: BlockFormat, layers: int, pages: int, device: torch.device) -> None:
        self.form = form

    @abstractmethod
    def encode(
        self, caches: Sequence[torch.Tensor], slots: torch.Tensor, blocks: torch.Tensor
    ) -> None:
        """Gather and encode pages of all layers.

        Parameters
        ----------
        caches : sequence of torch.Tensor
            The KV cache of each layer, ``[slots, heads, dim]`` of the format's dtype. A row is
            contiguous; rows may lie further apart than they are long.
        slots : torch.Tensor
            int64, ``[pages * page_size]``, on the device; a page's one after another.
        blocks : torch.Tensor
            uint8, ``[layers, pages, block_bytes]``, each block contiguous. Every byte is written.
        """

    @abstractmethod
    def decode(self, blocks: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor) -> None:
        """Decode pages of one layer and scatter their rows.

        Parameters
        ----------
        blocks : torch.Tensor
            uint8, ``[pages, block_bytes]``, each block contiguous.
        cache, slots : torch.Tensor
            One layer's KV cache, and as in :meth:`encode`.
        """

    @abstractmethod
    def tensors(self) -> list[torch.Tensor]:
        """Device memory that is held for calls."""


class TorchSlots(SlotPath):
    """Torch operations: rows are gathered for the format's encoder, scattered after its decoder."""

    name = "torch"

    def __init__(self, form: BlockFormat, layers: int, pages: int, device: torch.device) -> None:
        super().__init__(form, layers, pages, device)
        shape = (layers, pages, *form.rows.shape)
        self._rows = torch.empty(shape, dtype=form.rows.dtype, device=device)
        self._workspace = form.workspace(layers * pages, device)

    def encode(
        self, caches: Sequence[torch.Tensor], slots: torch.Tensor, blocks: torch.Tensor
    ) -> None:
        rows = self._rows[:, : blocks.shape[1]]
        for layer_rows, cache in zip(rows, caches, strict=True):
            torch.index_select(cache, 0, slots, out=layer_rows.flatten(0, 1))
        self.form.encode(rows, blocks, self._workspace)

    def decode(self, blocks: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor) -> None:
        rows = self._rows[0, : blocks.shape[0]]
        self.form.decode(blocks, rows, self._workspace)
        cache.index_copy_(0, slots, rows.flatten(0, 1))

    def tensors(self) -> list[torch.Tensor]:
        temporaries = [] if self._workspace is None else [*vars(self._workspace).values()]
        return [self._rows, *temporaries]
