#!/usr/bin/env python3
"""How fast each format of KV encodes and decodes on this CPU: ours and other projects'.

Speed is BF16 bytes in (or out) per second. A machine's own speed is in the same table, a copy of
the same bytes by as many threads, and every format is also given as its share of that. The rows are
run in turn, round after round, and the median counts: what disturbs one falls on all.

The figures tell of this machine and this moment. Nothing is judged by them.

Exit codes: 0 done, 2 usage.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from patchstack.command import Parser, run  # noqa: E402
from patchstack.errors import Exit, ToolError  # noqa: E402
from patchstack.report import Progress  # noqa: E402
from serving.delivery import refuse_unwritable, write_file  # noqa: E402

if TYPE_CHECKING:
    import torch

    from kvbench.formats import Format

#: KV heads and head dimension of Qwen3-8B, and some of its layers.
LAYERS, HEADS, DIM = 8, 8, 128
COPY = "copy"
MOST_TOKENS, MOST_THREADS = 2**17, 1024
EXAMPLE = """\
examples:
  benchmarks/codec_speed.py                      every format
  benchmarks/codec_speed.py --ours --threads 8   the library's own, on more cores
"""


@dataclass
class Row:
    """One row: what is run, and how long each run took.

    Parameters
    ----------
    name, kind
        As in the table.
    encode, decode
        What is timed; the second works on what the first returned.
    """

    name: str
    kind: str
    encode: Callable[[], object]
    decode: Callable[[object], object]
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"encode": [], "decode": []})

    def time(self) -> None:
        """Run it once."""
        start = time.perf_counter()
        held = self.encode()
        middle = time.perf_counter()
        self.decode(held)
        self.seconds["encode"].append(middle - start)
        self.seconds["decode"].append(time.perf_counter() - middle)

    def median(self, direction: str) -> float:
        """Return the median seconds."""
        return statistics.median(self.seconds[direction])


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("codec_speed.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--tokens", type=int, default=1024, help=f"of {LAYERS} layers (1024)")
    options.add_argument("--repeats", type=int, default=5, help="rounds (5)")
    options.add_argument("--threads", type=int, default=2, help="of torch (2)")
    options.add_argument("--ours", action="store_true", help="only the library's own codecs")
    options.add_argument("--json", type=Path, metavar="FILE", help="write every time there too")
    return options


def checked(given: Namespace) -> Namespace:
    """Refuse numbers that nothing can be measured with."""
    for name in ("repeats", "threads"):
        if getattr(given, name) < 1:
            raise ToolError(f"--{name} must be 1 or more", "see --help", Exit.USAGE)
    if given.tokens < 64 or given.tokens % 64:
        raise ToolError("--tokens must be a multiple of 64, a page", "see --help", Exit.USAGE)
    if given.tokens > MOST_TOKENS:
        hint = "that many take gigabytes already"
        raise ToolError(f"--tokens must be {MOST_TOKENS:,} or fewer", hint, Exit.USAGE)
    if given.threads > MOST_THREADS:
        hint = "give as many as there are cores"
        raise ToolError(f"--threads must be {MOST_THREADS:,} or fewer", hint, Exit.USAGE)
    refuse_unwritable("--json", given.json)
    return given


def kv(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values; the former with the few large channels that real ones have."""
    import torch

    generator = torch.Generator().manual_seed(0)
    shape = (LAYERS, tokens, HEADS, DIM)
    keys = torch.randn(shape, generator=generator)
    keys[..., :4] *= 8
    return keys.bfloat16(), torch.randn(shape, generator=generator).bfloat16()


def copy_row(keys: torch.Tensor, values: torch.Tensor) -> Row:
    """Return the row of the machine: the bytes copied there and back."""
    import torch

    source = torch.stack([keys, values])
    target = torch.empty_like(source)
    return Row(COPY, "machine", lambda: target.copy_(source), lambda _: source.copy_(target))


def format_row(form: Format, keys: torch.Tensor, values: torch.Tensor) -> Row:
    """Return a format's row."""
    return Row(form.name, form.kind, lambda: form.encode(keys, values), form.decode)


def measure(given: Namespace, progress: Progress) -> list[Row]:
    """Time every row in turn, after a round that is not counted."""
    import torch

    from kvbench import catalogue

    torch.set_num_threads(given.threads)
    tensors = kv(given.tokens)
    formats = catalogue.ours() if given.ours else [*catalogue.ours(), *catalogue.others()]
    rows = [copy_row(*tensors), *(format_row(form, *tensors) for form in formats)]
    for turn in range(given.repeats + 1):
        for row in rows:
            row.time()
        progress.say(f"round {turn} of {given.repeats}")
    for row in rows:
        for seconds in row.seconds.values():
            del seconds[0]  # compilers and caches
    return rows


def table(rows: Sequence[Row], size: int) -> str:
    """Return the table of the rows; ``size`` is the bytes that each works on."""
    machine = rows[0]
    lines = [f"{'format':<20} {'kind':<8} {'encode':>15} {'decode':>15}   GB/s, share of a copy"]
    for row in rows:
        figures = " ".join(
            f"{size / row.median(way) / 1e9:8.3f} {machine.median(way) / row.median(way):6.3f}"
            for way in row.seconds
        )
        lines.append(f"{row.name:<20} {row.kind:<8} {figures}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""

    def body() -> int:
        given = checked(parser().parse_args(argv))
        size = 2 * 2 * LAYERS * given.tokens * HEADS * DIM
        rows = measure(given, Progress())
        print(f"{size / 2**20:.0f} MiB of BF16, {given.threads} threads, {given.repeats} rounds")
        print(table(rows, size))
        if given.json:
            found = [{"name": row.name, "kind": row.kind, "seconds": row.seconds} for row in rows]
            write_file(given.json, json.dumps({"bytes": size, "rows": found}, indent=1))
        return Exit.DONE

    # Spinning threads of a library that waits would take the cores from the one that is timed.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return run("codec_speed.py", body, "tox -e codec-speed, which has it")


if __name__ == "__main__":
    sys.exit(main())
