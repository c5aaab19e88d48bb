"""Both directions of a transfer: encode, move, decode, through persistent device buffers.

Host records and the KV cache never meet directly. A backup encodes a chunk of every layer into one
staging buffer and lets a mover store it; a load lets the mover fetch one layer's chunk into the
other buffer, decodes it and scatters the rows. What a mover is differs (SGLang's kernels on CUDA,
index copies on a CPU); everything else is this code on every device.

Nothing here synchronises or switches streams. All work of one direction is enqueued on the
caller's current stream before the call returns, so a buffer's reuse by the next chunk or layer is
ordered behind its last use; the two directions, which SGLang runs on two streams, share nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hiqcache.codecs.base import KVCodec

logger = logging.getLogger(__name__)

#: Tokens of one chunk. On a CPU a chunk's temporaries should stay in cache; on a GPU a chunk
#: should be large against a kernel launch. At 8 heads x 128, 36 layers and 1024 tokens the backup
#: buffer is 81 MiB, the load buffer 2.3 MiB.
CHUNK_TOKENS = {"cpu": 256}
DEFAULT_CHUNK_TOKENS = 1024


#: ``move(host_indices, staging_rows)`` copies records between those slots of the host pool and
#: those rows of a staging buffer, on the current stream.
Move = Callable[[torch.Tensor, torch.Tensor], None]


@dataclass(frozen=True)
class _Direction:
    """What one direction owns: its staging buffer and its temporaries."""

    records: torch.Tensor  # [2, layers, tokens, record_bytes] uint8; K, then V
    rows: torch.Tensor  # [tokens, kv_heads, head_dim] bfloat16
    workspace: Any

    @classmethod
    def allocate(cls, codec: KVCodec, layers: int, tokens: int, device: torch.device) -> _Direction:
        g = codec.geometry
        return cls(
            # Zeros: a mover may copy a whole page of a chunk that ends inside one.
            torch.zeros((2, layers, tokens, codec.record_bytes), dtype=torch.uint8, device=device),
            torch.empty((tokens, g.kv_heads, g.head_dim), dtype=g.dtype, device=device),
            codec.workspace(tokens, device),
        )


class StagedTransfer:
    """Moves KV rows of one device pool to encoded host records and back.

    Parameters
    ----------
    codec : KVCodec
        Fixes the geometry and the record.
    device : torch.device
        Where the KV cache and the staging buffers live.
    page_size : int
        Tokens per page; a chunk is whole pages.
    chunk_tokens : int, optional
        Tokens moved at a time, rounded up to pages. By default chosen by the device.
    """

    def __init__(
        self,
        codec: KVCodec,
        device: torch.device,
        page_size: int = 1,
        chunk_tokens: int | None = None,
    ) -> None:
        wanted = chunk_tokens or CHUNK_TOKENS.get(device.type, DEFAULT_CHUNK_TOKENS)
        self.codec = codec
        self.chunk_tokens = -(-wanted // page_size) * page_size
        self._device = device
        layers = codec.geometry.layers
        self._backup = _Direction.allocate(codec, layers, self.chunk_tokens, device)
        # One layer: a load decodes it before the next layer is fetched.
        self._load = _Direction.allocate(codec, 1, self.chunk_tokens, device)
        self._row_indices = {
            d.type: torch.arange(self.chunk_tokens, dtype=torch.int64, device=d)
            for d in (torch.device("cpu"), device)
        }
        logger.info("L2 codec %s", self.summary())

    @property
    def backup_records(self) -> torch.Tensor:
        """``[2, layers, chunk_tokens, record_bytes]`` uint8 that ``store`` reads."""
        return self._backup.records

    @property
    def load_records(self) -> torch.Tensor:
        """Shaped like ``backup_records``, for ``fetch`` to write; all layers are one memory."""
        return self._load.records.expand(-1, self.codec.geometry.layers, -1, -1)

    @property
    def nbytes(self) -> int:
        """Device bytes of the two staging buffers."""
        return self._backup.records.nbytes + self._load.records.nbytes

    def summary(self) -> str:
        """One line for a server's log."""
        g, c = self.codec.geometry, self.codec
        return (
            f"{c.id}, {c.bytes_per_token} B/token ({g.bytes_per_token} raw, "
            f"{g.bytes_per_token / c.bytes_per_token:.3f}x), records of {c.record_bytes} B, "
            f"{self.nbytes / 2**20:.1f} MiB of staging"
        )

    def backup(
        self,
        keys: Sequence[torch.Tensor],
        values: Sequence[torch.Tensor],
        device_indices: torch.Tensor,
        host_indices: torch.Tensor,
        store: Move,
    ) -> None:
        """Encode the tokens of all layers and store their records.

        Parameters
        ----------
        keys, values : sequence of torch.Tensor
            The KV cache, a BF16 ``[slots, kv_heads, head_dim]`` for each layer.
        device_indices, host_indices : torch.Tensor
            int64, the slots of each token; either may live on the device or the host.
        store : callable
            Copies rows of ``backup_records``, all layers, to host slots; see :data:`Move`.
        """
        lane = self._backup
        for slots, hosts, staging_rows in self._chunks(device_indices, host_indices):
            count = slots.shape[0]
            for component, cache in enumerate((keys, values)):
                for layer, slots_of_layer in enumerate(cache):
                    rows = lane.rows[:count]
                    torch.index_select(slots_of_layer, 0, slots, out=rows)
                    self.codec.encode(rows, lane.records[component, layer, :count], lane.workspace)
            store(hosts, staging_rows)

    def load(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        device_indices: torch.Tensor,
        host_indices: torch.Tensor,
        fetch: Move,
    ) -> None:
        """Fetch one layer's records of the tokens and decode them into the KV cache.

        Parameters
        ----------
        keys, values : torch.Tensor
            The layer's KV cache, BF16 ``[slots, kv_heads, head_dim]``.
        device_indices, host_indices : torch.Tensor
            As in :meth:`backup`.
        fetch : callable
            Copies that layer of host slots to rows of ``load_records``.
        """
        lane = self._load
        for slots, hosts, staging_rows in self._chunks(device_indices, host_indices):
            count = slots.shape[0]
            fetch(hosts, staging_rows)
            for component, cache in enumerate((keys, values)):
                rows = lane.rows[:count]
                self.codec.decode(lane.records[component, 0, :count], rows, lane.workspace)
                cache.index_copy_(0, slots, rows)

    def _chunks(
        self, device_indices: torch.Tensor, host_indices: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Device slots, host slots and staging rows of one chunk after another."""
        # SGLang's direct backend hands over both on the host.
        slots = device_indices.to(self._device, torch.int64, non_blocking=True)
        staging_rows = self._row_indices[host_indices.device.type]
        for start in range(0, slots.shape[0], self.chunk_tokens):
            chunk = slice(start, start + self.chunk_tokens)
            hosts = host_indices[chunk]
            yield slots[chunk], hosts, staging_rows[: hosts.shape[0]]
