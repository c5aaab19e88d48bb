"""One of several ranks on a host, with SGLang's cache over its share of the KV heads.

Run as a program by :mod:`tests.integration.test_ranks`::

    python -m tests.integration.ranks --rank 0 --world 2 --store FILE --codec int8 --out FILE
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist

from .radix import Setup, radix
from .storm import Storm

KV_HEADS, STEPS = 8, 120


def main() -> None:
    """Use the cache as the other ranks do, and write what became of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--rank", "--world"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--store", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--codec", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{args.store}", rank=args.rank, world_size=args.world
    )
    setup = Setup(
        args.codec,
        policy="write_back",
        layers=2,
        kv_heads=KV_HEADS // args.world,
        head_dim=64,
        v_head_dim=64,
        device_tokens=320,
        ratio=2.5,
    )
    with radix(setup, dist.group.WORLD) as r:
        storm = Storm(r, seed=1)
        for _ in range(STEPS):
            storm.step()
            storm.model.check()
        mine = torch.tensor([r.host.page_num, r.host.size, r.host.size_per_token])
        ranks = [torch.empty_like(mine) for _ in range(args.world)]
        dist.all_gather(ranks, mine)
        result = {
            "ranks": [rank.tolist() for rank in ranks],
            "arena": r.host.kv_buffer.nbytes,
            "moved": storm.model.moved,
            "taken": sorted(storm.model.taken),
        }
    args.out.write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
