"""A host pool for tests: rows of units in a tensor, and movers that are torch's index copies."""

from __future__ import annotations

import torch

from hiqcache.staging import Move, StagedTransfer

POISON = 0xEE


class HostArena:
    """A half for K and one for V, each ``[layers, rows, mover_row_bytes]`` of poison.

    Parameters
    ----------
    transfer : StagedTransfer
        Whose staging buffers are the other end.
    pages : int
        Pages that the arena holds.
    runs : bool
        Whether a mover reads the index of each page's first row only and takes the others to
        follow it, as SGLang's page movers do.
    """

    def __init__(self, transfer: StagedTransfer, pages: int, runs: bool = False) -> None:
        layers, unit = transfer.codec.geometry.layers, transfer.codec.unit
        shape = (2, layers, pages * unit.rows_per_half, unit.mover_row_bytes)
        self.rows = torch.full(shape, POISON, dtype=torch.uint8)
        self._transfer = transfer
        self._runs = runs
        self._rows_per_half = unit.rows_per_half

    @property
    def units(self) -> torch.Tensor:
        """A copy of all units, ``[layers, pages, unit_bytes]``."""
        return torch.cat(list(self._halves()), -1)

    def write(self, pages: torch.Tensor, units: torch.Tensor) -> None:
        """Put units ``[layers, pages, unit_bytes]`` in these pages."""
        for half, part in zip(self._halves(), units.chunk(2, -1), strict=True):
            half[:, pages] = part

    def _halves(self) -> torch.Tensor:
        return self.rows.unflatten(2, (-1, self._rows_per_half)).flatten(-2)

    def _moved(self, rows: torch.Tensor) -> torch.Tensor:
        if not self._runs:
            return rows
        return (rows[:: self._rows_per_half, None] + torch.arange(self._rows_per_half)).flatten()

    def store(self, host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
        """Move every layer from the backup buffer; a :data:`Move`."""
        hosts, staged_rows = self._moved(host_rows), self._moved(staging_rows)
        for half, staged in zip(self.rows, self._transfer.backup_halves, strict=True):
            half[:, hosts] = staged[:, staged_rows]

    def fetch(self, layer: int) -> Move:
        """Return the move of one layer into the load buffer."""

        def move(host_rows: torch.Tensor, staging_rows: torch.Tensor) -> None:
            hosts, staged_rows = self._moved(host_rows), self._moved(staging_rows)
            for half, staged in zip(self.rows, self._transfer.load_halves, strict=True):
                staged[layer, staged_rows] = half[layer, hosts]

        return move
