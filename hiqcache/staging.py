"""Both directions of a transfer: encode, move, decode, through persistent device buffers.

Host units and the KV cache never meet directly. A backup encodes a chunk of every layer into one
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

import torch

from hiqcache.codecs.base import KVCodec, UnitWorkspace

logger = logging.getLogger(__name__)

#: Tokens of one chunk of a backup. All its layers are encoded together, so that a backup takes few
#: launches; the chunk bounds the memory for it (:attr:`StagedTransfer.nbytes`). A load is layer by
#: layer, so the same memory decodes as many tokens more as there are layers.
CHUNK_TOKENS = 128
#: On a CPU, tokens of a backup's chunk and of a load's: its temporaries should stay in cache, and
#: be large enough for a second thread to be worth its wake-up.
CPU_CHUNK_TOKENS = (64, 512)

#: ``move(host_rows, staging_rows)`` copies those rows of both halves of the host pool from or to
#: those rows of a staging buffer's halves, on the current stream.
Move = Callable[[torch.Tensor, torch.Tensor], None]


@dataclass(frozen=True)
class _Lane:
    """What one direction owns."""

    staged: torch.Tensor  # [layers, pages * 2 * rows_per_half, mover_row_bytes] uint8
    units: torch.Tensor  # the same memory, [layers, pages, unit_bytes]
    keys: torch.Tensor  # [layers, tokens, kv_heads, head_dim]
    values: torch.Tensor  # [layers, tokens, kv_heads, v_head_dim]
    workspace: UnitWorkspace
    host_rows: dict[str, torch.Tensor]  # [pages, rows_per_half] int64, by type of device
    staging_rows: dict[str, torch.Tensor]  # the same; row of a half, as constants

    @classmethod
    def allocate(
        cls, codec: KVCodec, layers: int, pages: int, devices: Sequence[torch.device]
    ) -> _Lane:
        g, unit, device = codec.geometry, codec.unit, devices[-1]
        tokens = pages * g.page_size
        units = torch.empty((layers, pages, unit.unit_bytes), dtype=torch.uint8, device=device)

        def rows(heads: int, dim: int) -> torch.Tensor:
            return torch.empty((layers, tokens, heads, dim), dtype=g.dtype, device=device)

        return cls(
            staged=units.view(layers, -1, unit.mover_row_bytes),
            units=units,
            keys=rows(g.keys.heads, g.keys.dim),
            values=rows(g.values.heads, g.values.dim),
            workspace=codec.workspace(layers * pages, device),
            host_rows={
                d.type: torch.empty((pages, unit.rows_per_half), dtype=torch.int64, device=d)
                for d in devices
            },
            staging_rows={
                d.type: 2 * unit.rows_per_half * torch.arange(pages, device=d).unsqueeze(1)
                + torch.arange(unit.rows_per_half, device=d)
                for d in devices
            },
        )

    def halves(self, rows_per_half: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What a mover takes for K and for V: a row of the second lies half a unit behind."""
        return self.staged[:, :-rows_per_half], self.staged[:, rows_per_half:]

    @property
    def nbytes(self) -> int:
        """Device bytes of it all."""
        buffers = [*self.workspace.tensors(), self.units, self.keys, self.values]
        return sum(buffer.nbytes for buffer in buffers)


class StagedTransfer:
    """Moves KV rows of one device pool to encoded host units and back.

    Parameters
    ----------
    codec : KVCodec
        Fixes the geometry and the unit.
    device : torch.device
        Where the KV cache and the staging buffers live.
    chunk_tokens : int, optional
        Tokens moved at a time in either direction, rounded up to pages. By default chosen by the
        device and the direction.
    """

    def __init__(
        self, codec: KVCodec, device: torch.device, chunk_tokens: int | None = None
    ) -> None:
        g = codec.geometry
        if chunk_tokens:
            chunks = chunk_tokens, chunk_tokens
        else:
            on_a_cpu = device.type == "cpu"
            chunks = CPU_CHUNK_TOKENS if on_a_cpu else (CHUNK_TOKENS, CHUNK_TOKENS * g.layers)
        backup_pages, load_pages = (-(-tokens // g.page_size) for tokens in chunks)
        self.codec = codec
        self._device = device
        # SGLang's direct backend hands indices over on the host, its kernels on the device.
        devices = [torch.device("cpu"), device]
        # A backup encodes all layers of a chunk; a load decodes one, before the next is fetched.
        self._backup = _Lane.allocate(codec, g.layers, backup_pages, devices)
        self._load = _Lane.allocate(codec, 1, load_pages, devices)
        logger.info("L2 codec %s", self.summary())

    @property
    def chunk_tokens(self) -> int:
        """Tokens of one chunk of a backup."""
        return self._backup.keys.shape[1]

    @property
    def backup_halves(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K's and V's ``[layers, rows, mover_row_bytes]`` uint8 that ``store`` reads."""
        return self._backup.halves(self.codec.unit.rows_per_half)

    @property
    def load_halves(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Shaped like ``backup_halves``, for ``fetch`` to write; all layers are one memory."""
        layers = self.codec.geometry.layers
        k, v = self._load.halves(self.codec.unit.rows_per_half)
        return k.expand(layers, -1, -1), v.expand(layers, -1, -1)

    @property
    def nbytes(self) -> int:
        """Device bytes of the staging buffers, the gathered rows and the codec's temporaries."""
        return self._backup.nbytes + self._load.nbytes

    def summary(self) -> str:
        """One line for a server's log."""
        g, c = self.codec.geometry, self.codec
        return (
            f"{c.id}, {c.bytes_per_token} B/token ({g.bytes_per_token} raw, "
            f"{g.bytes_per_token / c.bytes_per_token:.3f}x), pages of {g.page_size} in "
            f"2 x {c.unit.rows_per_half} rows of {c.unit.mover_row_bytes} B, "
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
        """Encode whole pages of all layers and store their units.

        Parameters
        ----------
        keys, values : sequence of torch.Tensor
            The KV cache, ``[slots, kv_heads, head_dim]`` (``v_head_dim``) for each layer.
        device_indices, host_indices : torch.Tensor
            int64, the slots of each token, a page's one after another; either may live on the
            device or the host.
        store : callable
            Copies rows of ``backup_halves``, all layers, to the host pool; see :data:`Move`.

        Raises
        ------
        ValueError
            For a part of a page.
        """
        chunks = self._chunks(self._backup, device_indices, host_indices)
        for slots, host_rows, staging_rows in chunks:
            self._encode(keys, values, slots)
            store(host_rows, staging_rows)

    def load(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        device_indices: torch.Tensor,
        host_indices: torch.Tensor,
        fetch: Move,
    ) -> None:
        """Fetch one layer's units of whole pages and decode them into the KV cache.

        Parameters
        ----------
        keys, values : torch.Tensor
            The layer's KV cache.
        device_indices, host_indices : torch.Tensor
            As in :meth:`backup`.
        fetch : callable
            Copies that layer of the host pool to rows of ``load_halves``.

        Raises
        ------
        ValueError
            For a part of a page.
        """
        for slots, host_rows, staging_rows in self._chunks(
            self._load, device_indices, host_indices
        ):
            fetch(host_rows, staging_rows)
            self._decode(keys, values, slots)

    def _encode(
        self, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor], slots: torch.Tensor
    ) -> None:
        """Gather the rows of a chunk and encode them."""
        lane, count = self._backup, slots.shape[0]
        for rows, cache in ((lane.keys, keys), (lane.values, values)):
            for layer_rows, layer in zip(rows[:, :count], cache, strict=True):
                torch.index_select(layer, 0, slots, out=layer_rows)
        self.codec.encode(*self._pages(lane, count), lane.workspace)

    def _decode(self, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor) -> None:
        """Decode a chunk of a layer and scatter its rows."""
        lane, count = self._load, slots.shape[0]
        decoded_keys, decoded_values, units = self._pages(lane, count)
        self.codec.decode(units, decoded_keys, decoded_values, lane.workspace)
        keys.index_copy_(0, slots, lane.keys[0, :count])
        values.index_copy_(0, slots, lane.values[0, :count])

    def _pages(self, lane: _Lane, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """K and V of a lane's first ``count`` tokens, by pages, and their units."""
        page = self.codec.geometry.page_size
        keys, values = (
            rows[:, :count].unflatten(1, (count // page, page)) for rows in (lane.keys, lane.values)
        )
        return keys, values, lane.units[:, : count // page]

    def _chunks(
        self, lane: _Lane, device_indices: torch.Tensor, host_indices: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Device slots, host rows and staging rows of one chunk after another."""
        page = self.codec.geometry.page_size
        if device_indices.shape[0] % page:
            raise ValueError(
                f"{device_indices.shape[0]} tokens are no whole pages of {page}; "
                "an encoded L2 moves whole pages"
            )
        # SGLang's direct backend hands over both on the host.
        slots = device_indices.to(self._device, torch.int64, non_blocking=True)
        # A mover takes both of its indices where it was given the device's: on the device, or on
        # the host for the direct backend. Host slots alone may stay on the host.
        staging_rows = lane.staging_rows[device_indices.device.type]
        step = lane.keys.shape[1]
        for start in range(0, slots.shape[0], step):
            chunk = slice(start, start + step)
            host_rows = self._host_rows(lane, host_indices[chunk])
            staged = staging_rows[: host_rows.shape[0]]
            yield slots[chunk], host_rows.flatten(), staged.flatten()

    def _host_rows(self, lane: _Lane, host_indices: torch.Tensor) -> torch.Tensor:
        """Rows of a half of the host pool that hold these slots' pages, ``[pages, rows]``."""
        page, rows_per_half = self.codec.geometry.page_size, self.codec.unit.rows_per_half
        kind = host_indices.device.type
        firsts = host_indices[::page]
        rows = lane.host_rows[kind][: firsts.shape[0]]
        torch.floor_divide(firsts.unsqueeze(1).expand_as(rows), page, out=rows)
        return rows.mul_(rows_per_half).add_(lane.staging_rows[kind][0])
