"""The identity codec: a record is the BF16 row itself.

It is the control of every comparison: what a raw record restores must equal, bit for bit, what
was backed up. It saves nothing and is no choice of the server flag.
"""

from __future__ import annotations

import torch

from hiqcache.codecs.base import KVCodec


class RawCodec(KVCodec):
    """Records that are the rows' own bytes."""

    id = "raw"
    format_tag = "l2-raw-v1"
    saves_bytes = False

    @property
    def record_bytes(self) -> int:
        return self.geometry.row_bytes

    def workspace(self, rows: int, device: torch.device | str) -> None:
        return None

    def encode(self, rows: torch.Tensor, records: torch.Tensor, workspace: None) -> None:
        records.view(self.geometry.dtype).copy_(rows.flatten(-2))

    def decode(self, records: torch.Tensor, rows: torch.Tensor, workspace: None) -> None:
        rows.flatten(-2).copy_(records.view(self.geometry.dtype))
