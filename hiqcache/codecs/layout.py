"""Where the bytes of a page lie: blocks of rows and their scales, in units that SGLang moves.

A **block** is K, or V, of one page in one layer::

    | payload row | ... | payload row | scales | ... | scales | zeros |
      token 0             token P - 1   token 0        token P - 1

A page keeps its scales together, so only the end of a block is padded, and pages of 8 tokens of 8
heads of 128 values need no padding. With one token to a page a block is a *record*.

A **unit** is the block of K and the block of V::

    | block of K | block of V | zeros |

SGLang's host pools have a half for K and one for V. A unit is cut in the middle, wherever that
falls, and each half is moved as rows of one size, as long as its register mover likes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import torch

#: SGLang's register mover copies a row in groups of 128 bytes and refuses any other
#: (``pick_group_bytes`` in ``kvcacheio/hicache.cuh``). One format serves every device and mover.
MOVER_ALIGNMENT = 128

#: The register mover keeps a row in registers; longer ones spill.
LONGEST_MOVER_ROW = 2048


def round_up(value: int, multiple: int) -> int:
    """Smallest multiple that is not below ``value``."""
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class BlockLayout:
    """Where the parts of a block lie, in bytes.

    Parameters
    ----------
    page_size : int
        Tokens.
    payload_bytes : int
        Payload of one token.
    scales : int
        Scales of one token.
    scale_dtype : torch.dtype
        Their type.
    """

    page_size: int
    payload_bytes: int
    scales: int
    scale_dtype: torch.dtype = torch.bfloat16

    @property
    def payload_end(self) -> int:
        """First byte after the payload."""
        return self.page_size * self.payload_bytes

    @property
    def scale_offset(self) -> int:
        """First byte of the scales, on their own alignment."""
        return round_up(self.payload_end, self.scale_dtype.itemsize)

    @property
    def used_bytes(self) -> int:
        """Payload and scales, without the padding."""
        return self.scale_offset + self.page_size * self.scales * self.scale_dtype.itemsize

    @property
    def block_bytes(self) -> int:
        """The whole block."""
        return round_up(self.used_bytes, MOVER_ALIGNMENT)

    def payload(self, blocks: torch.Tensor) -> torch.Tensor:
        """View ``[..., page_size, payload_bytes]`` uint8 of ``[..., block_bytes]``."""
        return blocks[..., : self.payload_end].unflatten(-1, (self.page_size, self.payload_bytes))

    def scale_strip(self, blocks: torch.Tensor) -> torch.Tensor:
        """View ``[..., page_size, scales]`` of ``[..., block_bytes]`` bytes."""
        strip = blocks[..., self.scale_offset : self.used_bytes].view(self.scale_dtype)
        return strip.unflatten(-1, (self.page_size, self.scales))

    def zero_padding(self, blocks: torch.Tensor) -> None:
        """Write the bytes that hold nothing."""
        blocks[..., self.payload_end : self.scale_offset].zero_()
        blocks[..., self.used_bytes :].zero_()


@dataclass(frozen=True)
class UnitLayout:
    """How the blocks of a page are cut into the rows that SGLang's movers copy.

    Parameters
    ----------
    page_size : int
        Tokens.
    key_bytes, value_bytes : int
        The blocks of K and V.
    """

    page_size: int
    key_bytes: int
    value_bytes: int

    @property
    def unit_bytes(self) -> int:
        """Both blocks, in two halves of whole groups, and whole bytes for each token."""
        used = self.key_bytes + self.value_bytes
        return round_up(used, lcm(2 * MOVER_ALIGNMENT, self.page_size))

    @property
    def half_bytes(self) -> int:
        """What lies in one half of a host pool."""
        return self.unit_bytes // 2

    @property
    def mover_row_bytes(self) -> int:
        """The longest row of whole groups, up to :data:`LONGEST_MOVER_ROW`, that cuts a half."""
        groups = self.half_bytes // MOVER_ALIGNMENT
        longest = LONGEST_MOVER_ROW // MOVER_ALIGNMENT
        return MOVER_ALIGNMENT * next(n for n in range(longest, 0, -1) if groups % n == 0)

    @property
    def rows_per_half(self) -> int:
        """Mover rows of one page in each half of a host pool."""
        return self.half_bytes // self.mover_row_bytes
