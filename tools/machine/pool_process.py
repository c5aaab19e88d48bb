"""Build SGLang's encoded host pool for a question, and answer a step a line, in JSON.

Run by :mod:`machine.pool`, with the question as its argument. The pool has fewer layers than the
model; everything else of it is the server's.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

# After what is installed, and a server imports: the library of this checkout.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from hiqcache.codecs import make_codec
from hiqcache.geometry import KVGeometry

#: Enough for several chunks of a transfer in both directions.
_LAYERS, _TOKENS = 2, 768


class Warnings(logging.Handler):
    """Keeps what SGLang warns of while it chooses its mover."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.kept.append(record.getMessage())


class Pools:
    """A device pool, and the host pool that SGLang chooses for it.

    Parameters
    ----------
    geometry : KVGeometry
        A rank's KV cache.
    device : str
        Where it is.
    """

    def __init__(self, geometry: KVGeometry, device: str) -> None:
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

        g = geometry
        self.geometry = g
        self.tokens = -(-_TOKENS // g.page_size) * g.page_size
        self.device = MHATokenToKVPool(
            self.tokens, g.page_size, g.dtype, g.kv_heads, g.head_dim, g.layers, device, False,
            v_head_dim=g.v_head_dim,
        )  # fmt: skip
        warnings = Warnings()
        logging.getLogger().addHandler(warnings)
        self.host = _host_pool(self.device)
        logging.getLogger().removeHandler(warnings)
        self.warnings = warnings.kept

    def mover(self) -> str:
        """Say which rows SGLang's own compiled mover copies."""
        unit = make_codec(_question()["codec"], self.geometry).unit
        if not self.host.can_use_jit:
            why = self.warnings[-1] if self.warnings else "SGLang does not say why"
            raise RuntimeError(f"no mover for rows of {unit.mover_row_bytes:,} bytes: {why}")
        return f"SGLang compiled its mover for rows of {unit.mover_row_bytes:,} bytes"

    def round_trip(self) -> str:
        """Back rows up, wipe them, load them, and compare with what the codec makes of them."""
        g, pool = self.geometry, self.device
        buffers = list(zip(pool.k_buffer, pool.v_buffer, strict=True))
        slots = torch.arange(g.page_size, g.page_size + self.tokens, device=pool.device)
        hosts = self.host.alloc(self.tokens).to(slots.device)
        rows = _rows(g, self.tokens)
        for pair, given in zip(buffers, rows, strict=True):
            for buffer, x in zip(pair, given, strict=True):
                buffer[slots] = x.to(buffer.device)
        self.host.backup_from_device_all_layer(pool, hosts, slots, "kernel")
        _wait(slots.device)
        for buffer in (b for pair in buffers for b in pair):
            buffer[slots] = 0
        for layer in range(g.layers):
            self.host.load_to_device_per_layer(pool, hosts, slots, layer, "kernel")
        _wait(slots.device)
        for layer, (pair, given) in enumerate(zip(buffers, rows, strict=True)):
            restored = tuple(buffer[slots].cpu() for buffer in pair)
            _compare(layer, restored, _through_codec(g, given))
        return (
            f"{self.tokens:,} tokens through a {type(self.host).__name__} on {pool.device} are "
            "what the codec makes of them"
        )


def _host_pool(device: Any) -> Any:
    """Construct the host pool as SGLang's assembler does; it takes other things before 0.5.23."""
    from sglang.srt.mem_cache.pool_host import mha

    more: dict[str, Any] = {}
    kv = device
    if "buffer_info" in inspect.signature(mha.MHATokenToKVPoolHost).parameters:
        kv = device.get_device_pool_infos()[0].buffer_info
        more = dict(
            device_capacity_tokens=device.size, start_layer=0, end_layer=device.layer_num - 1
        )
    return mha.get_mha_host_pool_cls(kv)(kv, 2.0, 0, device.page_size, "page_first", **more)


def _rows(g: KVGeometry, tokens: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """K and V of each layer, all different."""
    generator = torch.Generator().manual_seed(0)

    def draw(dim: int) -> torch.Tensor:
        return torch.randn((tokens, g.kv_heads, dim), generator=generator).to(g.dtype)

    return [(draw(g.keys.dim), draw(g.values.dim)) for _ in range(g.layers)]


def _through_codec(
    g: KVGeometry, rows: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the codec alone makes of K and V of a layer, on the CPU."""
    codec = make_codec(_question()["codec"], g)
    keys, values = (x.unflatten(0, (-1, g.page_size)) for x in rows)
    units = torch.empty((keys.shape[0], codec.unit.unit_bytes), dtype=torch.uint8)
    workspace = codec.workspace(keys.shape[0], "cpu")
    codec.encode(keys, values, units, workspace)
    restored = torch.empty_like(keys), torch.empty_like(values)
    codec.decode(units, *restored, workspace)
    return restored[0].flatten(0, 1), restored[1].flatten(0, 1)


def _compare(
    layer: int, found: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]
) -> None:
    for name, here, wanted in zip("KV", found, expected, strict=True):
        wrong = int((here.view(torch.int16) != wanted.view(torch.int16)).sum())
        if wrong:
            told = f"{wrong:,} of {here.numel():,} values of {name} in layer {layer}"
            raise RuntimeError(f"{told} are not what the codec makes of them")


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _question() -> dict[str, Any]:
    return json.loads(sys.argv[1])


@contextmanager
def _pools() -> Iterator[Pools]:
    """Build what the question asks for, under the server arguments that choose it."""
    from sglang.srt.runtime_context import get_context

    q = _question()
    arguments = dict(
        device=q["device"], enable_hierarchical_cache=True, hicache_ratio=2.0, hicache_size=0,
        hicache_mem_layout="page_first", hicache_io_backend="kernel",
        hicache_write_policy="write_through", hicache_l2_codec=q["codec"],
        page_size=q["page_size"],
    )  # fmt: skip
    layers = min(q["layers"], _LAYERS)
    geometry = KVGeometry(layers, q["kv_heads"], q["head_dim"], q["v_head_dim"], q["page_size"])
    with get_context().override_server_args(**arguments):
        pools = Pools(geometry, q["device"])
        try:
            yield pools
        finally:
            pools.host.destroy()


def main() -> None:
    """Answer the question."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what SGLang and its compilers print is no answer
    with _pools() as pools:
        steps: dict[str, Callable[[], str]] = {
            "mover": pools.mover,
            "round trip": pools.round_trip,
        }
        for step in _question()["steps"]:
            try:
                answer = {"said": steps[step]()}
            except Exception as error:  # whatever SGLang raises is the answer
                answer = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps({"step": step, **answer}), file=answers, flush=True)


if __name__ == "__main__":
    main()
