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

from hiqcache.codecs.base import BlockFormat, KVCodec
from hiqcache.kernels import slot_path_class
from hiqcache.slots import SlotPath

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
    keys: SlotPath
    values: SlotPath  # the same one, where K and V are alike
    host_rows: dict[str, torch.Tensor]  # [pages, rows_per_half] int64, by type of device
    staging_rows: dict[str, torch.Tensor]  # the same; row of a half, as constants

    @classmethod
    def allocate(
        cls, codec: KVCodec, layers: int, pages: int, devices: Sequence[torch.device]
    ) -> _Lane:
        unit, device = codec.unit, devices[-1]
        # What is behind the blocks stays zero.
        units = torch.zeros((layers, pages, unit.unit_bytes), dtype=torch.uint8, device=device)
        keys, values = _paths(codec, layers, pages, device)
        return cls(
            staged=units.view(layers, -1, unit.mover_row_bytes),
            units=units,
            keys=keys,
            values=values,
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
    def pages(self) -> int:
        """Pages of a chunk."""
        return self.units.shape[1]

    def buffers(self) -> list[torch.Tensor]:
        """Its memory on the device, each tensor once."""
        owned = [self.units, *self.keys.tensors(), *self.values.tensors()]
        return list({id(tensor): tensor for tensor in owned}.values())

    @property
    def nbytes(self) -> int:
        """Device bytes of it all."""
        return sum(buffer.nbytes for buffer in self.buffers())


def _paths(
    codec: KVCodec, layers: int, pages: int, device: torch.device
) -> tuple[SlotPath, SlotPath]:
    """K's and V's path."""

    def path(form: BlockFormat) -> SlotPath:
        return slot_path_class(form, device)(form, layers, pages, device)

    keys = path(codec.keys)
    return keys, keys if codec.alike else path(codec.values)


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
        return self._backup.pages * self.codec.geometry.page_size

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
        """Device bytes of the staging buffers, and of what encodes and decodes them."""
        return self._backup.nbytes + self._load.nbytes

    @property
    def kernels(self) -> str:
        """What encodes and decodes, of K and of V where these differ."""
        names = (self._load.keys.name, self._load.values.name)
        return " and ".join(dict.fromkeys(names))

    def summary(self) -> str:
        """One line for a server's log."""
        g, c = self.codec.geometry, self.codec
        return (
            f"{c.id}, {c.bytes_per_token} B/token ({g.bytes_per_token} raw, "
            f"{g.bytes_per_token / c.bytes_per_token:.3f}x), pages of {g.page_size} in "
            f"2 x {c.unit.rows_per_half} rows of {c.unit.mover_row_bytes} B, "
            f"{self.nbytes / 2**20:.1f} MiB of staging, {self.kernels} kernels"
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
        """Gather and encode the rows of a chunk."""
        lane, pages = self._backup, slots.shape[0] // self.codec.geometry.page_size
        key_blocks, value_blocks, _ = self.codec.parts(lane.units[:, :pages])
        lane.keys.encode(keys, slots, key_blocks)
        lane.values.encode(values, slots, value_blocks)

    def _decode(self, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor) -> None:
        """Decode a chunk of a layer and scatter its rows."""
        lane, pages = self._load, slots.shape[0] // self.codec.geometry.page_size
        key_blocks, value_blocks, _ = self.codec.parts(lane.units[0, :pages])
        lane.keys.decode(key_blocks, keys, slots)
        lane.values.decode(value_blocks, values, slots)

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
        step = lane.pages * page
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
