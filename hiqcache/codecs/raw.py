"""The identity codec: a block is the rows themselves.

It is the control of every comparison: what a raw unit restores must equal, bit for bit, what was
backed up. It saves nothing and is no choice of the server flag.
"""

from __future__ import annotations

import torch

from hiqcache.codecs.base import BlockFormat, KVCodec
from hiqcache.codecs.layout import BlockLayout
from hiqcache.geometry import PageRows


class RawBlock(BlockFormat):
    """Blocks that are the rows' own bytes."""

    def __init__(self, rows: PageRows) -> None:
        super().__init__(rows)
        self.layout = BlockLayout(rows.page_size, rows.row_bytes, scales=0)

    def workspace(self, blocks: int, device: torch.device | str) -> None:
        return None

    def _stored(self, blocks: torch.Tensor) -> torch.Tensor:
        return self.layout.payload(blocks).view(self.rows.dtype)

    def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: None) -> None:
        self._stored(blocks).copy_(rows.flatten(-2))
        self.layout.zero_padding(blocks)

    def decode(self, blocks: torch.Tensor, rows: torch.Tensor, workspace: None) -> None:
        rows.flatten(-2).copy_(self._stored(blocks))


class RawCodec(KVCodec):
    """Units that are the rows' own bytes."""

    id = "raw"
    key_format = RawBlock
    value_format = RawBlock
    saves_bytes = False
