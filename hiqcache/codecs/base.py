"""The contract between a codec and what moves its records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch

from hiqcache.geometry import KVGeometry


class KVCodec(ABC):
    """Turns KV rows of one geometry into fixed-size records and back.

    A row is one token's K (or V) of one layer, ``[kv_heads, head_dim]`` BF16. A record is
    ``record_bytes`` bytes. Fixed size is what turns compression into capacity: a slot of the host
    pool is reserved in full, however few bytes a variable-length code would fill.

    ``encode`` and ``decode`` run on the caller's current stream, write into the caller's memory,
    take every temporary from the workspace and never synchronise. A configuration that a codec
    cannot serve is refused by its constructor; a transfer never discovers one.
    """

    #: Short name; the value of ``--hicache-l2-codec``.
    id: ClassVar[str]
    #: Names the bytes of a record, with a version. Bytes under one tag decode forever.
    format_tag: ClassVar[str]
    #: Whether its records must be smaller than the rows; false for a control.
    saves_bytes: ClassVar[bool] = True

    def __init__(self, geometry: KVGeometry) -> None:
        self.geometry = geometry

    @property
    @abstractmethod
    def record_bytes(self) -> int:
        """Bytes of one record, padding included."""

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes on the host: all layers, K and V."""
        return 2 * self.geometry.layers * self.record_bytes

    @abstractmethod
    def workspace(self, rows: int, device: torch.device | str) -> Any:
        """Temporaries for calls of up to ``rows`` rows; one for each stream that calls."""

    @abstractmethod
    def encode(self, rows: torch.Tensor, records: torch.Tensor, workspace: Any) -> None:
        """Encode ``rows`` into ``records``, padding included.

        Parameters
        ----------
        rows : torch.Tensor
            BF16, ``[..., kv_heads, head_dim]``.
        records : torch.Tensor
            uint8, ``[..., record_bytes]``, each record contiguous. Every byte is written.
        workspace
            What :meth:`workspace` returned, for at least as many rows.
        """

    @abstractmethod
    def decode(self, records: torch.Tensor, rows: torch.Tensor, workspace: Any) -> None:
        """Decode ``records`` into ``rows``; shapes as in :meth:`encode`."""
