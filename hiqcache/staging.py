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

#: Tokens of one chunk. All layers of a chunk are encoded together, so that a backup takes few
#: launches; the chunk bounds the memory for it (:attr:`StagedTransfer.nbytes`; 79 MiB at 8 heads x
#: 128 and 36 layers). On a CPU the temporaries of a chunk should stay in cache.
CHUNK_TOKENS = {"cpu": 64}
DEFAULT_CHUNK_TOKENS = 256

#: ``move(host_indices, staging_rows)`` copies records between those slots of the host pool and
#: those rows of a staging buffer, on the current stream.
Move = Callable[[torch.Tensor, torch.Tensor], None]


@dataclass(frozen=True)
class _Direction:
    """What one direction owns: its staging buffer and its temporaries."""

    records: torch.Tensor  # [2, layers, tokens, record_bytes] uint8; K, then V
    rows: torch.Tensor  # [layers or components, tokens, kv_heads, head_dim] bfloat16
    workspace: Any

    @classmethod
    def allocate(
        cls, codec: KVCodec, layers: int, together: int, tokens: int, device: torch.device
    ) -> _Direction:
        g = codec.geometry
        return cls(
            # Zeros: a mover may copy a whole page of a chunk that ends inside one.
            torch.zeros((2, layers, tokens, codec.record_bytes), dtype=torch.uint8, device=device),
            torch.empty((together, tokens, g.kv_heads, g.head_dim), dtype=g.dtype, device=device),
            codec.workspace(together * tokens, device),
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
        # A backup encodes K, then V, of all layers; a load decodes K and V of one layer, before
        # the next layer is fetched.
        self._backup = _Direction.allocate(codec, layers, layers, self.chunk_tokens, device)
        self._load = _Direction.allocate(codec, 1, 2, self.chunk_tokens, device)
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
        """Device bytes of the staging buffers, the gathered rows and the codec's temporaries."""
        lanes = (self._backup, self._load)
        buffers = [
            b for lane in lanes for b in (lane.records, lane.rows, *_tensors(lane.workspace))
        ]
        return sum(buffer.nbytes for buffer in buffers)

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
            rows = lane.rows[:, :count]
            for component, cache in enumerate((keys, values)):
                for layer_rows, layer in zip(rows, cache, strict=True):
                    torch.index_select(layer, 0, slots, out=layer_rows)
                self.codec.encode(rows, lane.records[component, :, :count], lane.workspace)
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
            rows = lane.rows[:, :count]
            self.codec.decode(lane.records[:, 0, :count], rows, lane.workspace)
            keys.index_copy_(0, slots, rows[0])
            values.index_copy_(0, slots, rows[1])

    def _chunks(
        self, device_indices: torch.Tensor, host_indices: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Device slots, host slots and staging rows of one chunk after another."""
        # SGLang's direct backend hands over both on the host.
        slots = device_indices.to(self._device, torch.int64, non_blocking=True)
        # A mover takes both of its indices where it was given the device's: on the device, or on
        # the host for the direct backend. Host slots alone may stay on the host.
        staging_rows = self._row_indices[device_indices.device.type]
        for start in range(0, slots.shape[0], self.chunk_tokens):
            chunk = slice(start, start + self.chunk_tokens)
            hosts = host_indices[chunk]
            yield slots[chunk], hosts, staging_rows[: hosts.shape[0]]


def _tensors(workspace: Any) -> list[torch.Tensor]:
    """The tensors of a workspace; a codec may need none."""
    return [] if workspace is None else list(vars(workspace).values())
