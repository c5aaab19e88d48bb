"""Capacities as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from rich import box
from rich.table import Table

from formats.capacity import Capacity, Deployment, Refused
from serving.printing import Printer

_TOKEN_COLUMNS = ("a rank", "all ranks", "ratio", "padding")
_POOL_COLUMNS = ("budget", "tokens", "a rank", "all ranks")


def to_json(served: Deployment, results: Sequence[Capacity | Refused]) -> str:
    """Return everything as JSON."""
    document = {
        "model": served.name,
        **asdict(served.model),
        "tp": served.tp,
        "rank_kv_heads": served.rank.kv_heads,
        "page_size": served.page_size,
        "codecs": [asdict(result) for result in results],
    }
    return json.dumps(document, indent=2)


def print_table(served: Deployment, results: Sequence[Capacity | Refused]) -> None:
    """Print the bytes of a token, the pools of each budget, and what is refused."""
    printer = Printer()
    printer.print(heading_of(served))
    held = [result for result in results if isinstance(result, Capacity)]
    if held:
        printer.table(_table("bytes per token", _TOKEN_COLUMNS, map(_token, held)))
        pools = (row for result in held for row in _pools(result))
        printer.table(_table("tokens, GB taken", _POOL_COLUMNS, pools))
    for result in results:
        if isinstance(result, Refused):
            printer.print(f"refused: {result.refused}")


def _table(name: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(name, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def heading_of(served: Deployment) -> str:
    """Name the model, its ranks and its pages in one line."""
    rank = served.rank
    widths = dict.fromkeys((rank.keys.dim, rank.values.dim))  # one, where K and V are alike
    heads = f"{served.model.kv_heads} KV heads x {' and '.join(map(str, widths))}"
    shared = f", each on {served.copies} ranks" if served.copies > 1 else ""
    return (
        f"{served.name}: {rank.layers} layers, {heads}; TP {served.tp}, {rank.kv_heads} a rank"
        f"{shared}; pages of {served.page_size}"
    )


def _token(result: Capacity) -> tuple[str, ...]:
    return (
        result.codec,
        f"{result.bytes_per_token_rank:,}",
        f"{result.bytes_per_token_total:,}",
        f"{result.ratio:.3f}",
        f"{result.padding_per_token_rank:,.10g}",
    )


def _pools(result: Capacity) -> Iterator[tuple[str, ...]]:
    """Yield a row for each budget, the first with the codec's name."""
    for at, filled in enumerate(result.filled):
        yield (
            "" if at else result.codec,
            f"{filled.size_gb:g}",
            f"{filled.tokens:,}",
            f"{filled.gb_per_rank:.3f}",
            f"{filled.gb_total:.3f}",
        )
