"""A host pool for tests: records in a tensor, and movers that are torch's index copies."""

from __future__ import annotations

import torch

from hiqcache.staging import Move, StagedTransfer

POISON = 0xEE


class HostArena:
    """``[2, layers, slots, record_bytes]`` of poison, moved a token or a whole page at a time.

    Parameters
    ----------
    transfer : StagedTransfer
        Whose staging buffers are the other end.
    slots : int
        Tokens that the arena holds.
    pages_of : int
        Tokens that are moved together. More than one reads only the first slot of each page, as
        SGLang's page movers do, so it needs whole pages of slots.
    """

    def __init__(self, transfer: StagedTransfer, slots: int, pages_of: int = 1) -> None:
        codec = transfer.codec
        shape = (2, codec.geometry.layers, slots, codec.record_bytes)
        self.records = torch.full(shape, POISON, dtype=torch.uint8)
        self._transfer = transfer
        self._pages_of = pages_of

    def _paged(self, records: torch.Tensor) -> torch.Tensor:
        return records.unflatten(2, (-1, self._pages_of))

    def _pages(self, rows: torch.Tensor) -> torch.Tensor:
        return rows[:: self._pages_of] // self._pages_of

    def store(self, hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
        """Move every layer from the backup buffer; a :data:`Move`."""
        staged = self._paged(self._transfer.backup_records)[:, :, self._pages(staging_rows)]
        self._paged(self.records)[:, :, self._pages(hosts)] = staged

    def fetch(self, layer: int) -> Move:
        """Return the move of one layer into the load buffer."""

        def move(hosts: torch.Tensor, staging_rows: torch.Tensor) -> None:
            stored = self._paged(self.records)[:, layer, self._pages(hosts)]
            self._paged(self._transfer.load_records)[:, layer, self._pages(staging_rows)] = stored

        return move
