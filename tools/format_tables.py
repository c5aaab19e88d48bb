#!/usr/bin/env python3
"""Print what each format takes and loses: the tables and drawings of docs/formats.md.

Losses are measured on drawn numbers from fixed seeds: Gaussian K, V and queries, the keys also with
a constant offset in a few channels, as the models have it whose keys have a bias (Qwen2.5).

Exit codes: 0 done, 1 the document lacks its markers, 2 usage.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from patchstack.command import INSTALL_TORCH, Parser, run
from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    import torch

    from hiqcache.codecs.base import KVCodec
    from hiqcache.geometry import KVGeometry

EXAMPLE = """\
examples:
  tools/format_tables.py
  tools/format_tables.py --write      after a format changed
"""
DOCUMENT = Path(__file__).parents[1] / "docs" / "formats.md"

TOKENS, KV_HEADS, HEAD_DIM, QUERIES, PAGE = 1024, 2, 128, 64, 16
#: Offset in standard deviations, and channels that have it.
OUTLIERS = ((0, 0), (20, 1), (20, 2), (20, 4), (40, 1), (40, 2), (40, 4))
HEAD_DIMS = (64, 80, 96, 112, 128, 192, 256)
BACKUPS = 8


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("format_tables.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--write", action="store_true", help="write them into docs/formats.md")
    return options


# --- what is measured --------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """Rows of K and V and queries.

    Parameters
    ----------
    keys, values : torch.Tensor
        BF16 ``[tokens, heads, dim]``.
    queries : torch.Tensor
        float64 ``[heads, queries, dim]``.
    """

    keys: torch.Tensor
    values: torch.Tensor
    queries: torch.Tensor

    @classmethod
    def of(cls, offset: int, channels: int, dim: int = HEAD_DIM) -> Draw:
        """Draw standard normal numbers, and add ``offset`` of either sign to K's ``channels``."""
        import torch

        generator = torch.Generator().manual_seed(1000 * offset + channels)
        keys, values = torch.randn((2, TOKENS, KV_HEADS, dim), generator=generator)
        queries = torch.randn((KV_HEADS, QUERIES, dim), generator=generator).double()
        chosen = torch.randperm(dim, generator=generator)[:channels]
        keys[..., chosen] += offset * torch.tensor([1.0, -1.0]).repeat(dim)[:channels]
        return cls(keys.bfloat16(), values.bfloat16(), queries)

    def attention(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Logarithms of the weights, and the output, of each query over all tokens."""
        import torch

        products = torch.einsum("hqd,thd->hqt", self.queries, keys.double())
        weights = (products / math.sqrt(self.queries.shape[-1])).log_softmax(-1)
        return weights, torch.einsum("hqt,thd->hqd", weights.exp(), values.double())


@dataclass(frozen=True)
class Loss:
    """What a round trip does to keys and to attention.

    Parameters
    ----------
    keys : float
        Root mean square error of K's values, whose standard deviation is 1.
    divergence : float
        Mean Kullback-Leibler divergence of the attention weights from those of the raw keys, nats.
    output : float
        Length of the error of attention's output over the length of the output.
    """

    keys: float
    divergence: float
    output: float


def codec_of(name: str, geometry: KVGeometry) -> KVCodec:
    """Build a codec, whether or not it saves anything."""
    from hiqcache.codecs import codec_class

    return codec_class(name)(geometry)


def encoded(codec: KVCodec, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Units of the rows of tokens."""
    import torch

    page = codec.geometry.page_size
    units = torch.empty((len(keys) // page, codec.unit.unit_bytes), dtype=torch.uint8)
    workspace = codec.workspace(len(units), "cpu")
    codec.encode(keys.unflatten(0, (-1, page)), values.unflatten(0, (-1, page)), units, workspace)
    return units


def decoded(codec: KVCodec, units: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of the tokens of units."""
    import torch

    keys, values = (
        torch.empty((len(units), *rows.shape), dtype=rows.dtype)
        for rows in (codec.geometry.keys, codec.geometry.values)
    )
    codec.decode(units, keys, values, codec.workspace(len(units), "cpu"))
    return keys.flatten(0, 1), values.flatten(0, 1)


@cache
def losses(offset: int, channels: int) -> dict[str, Loss]:
    """Measure every codec on the same draw."""
    from formats.catalogue import built_in
    from hiqcache.geometry import KVGeometry

    draw = Draw.of(offset, channels)
    weights, output = draw.attention(draw.keys, draw.values)
    found = {}
    for name in built_in():
        codec = codec_of(name, KVGeometry(1, KV_HEADS, HEAD_DIM, page_size=PAGE))
        keys, values = decoded(codec, encoded(codec, draw.keys, draw.values))
        other_weights, other_output = draw.attention(keys, values)
        found[name] = Loss(
            (keys.double() - draw.keys.double()).square().mean().sqrt().item(),
            (weights.exp() * (weights - other_weights)).sum(-1).mean().item(),
            ((other_output - output).norm() / output.norm()).item(),
        )
    return found


@dataclass(frozen=True)
class Drift:
    """What backing up again does, after each restore.

    Parameters
    ----------
    changed : float
        Share of the bytes that the last backup does not have in common with the first.
    grown : float
        Error of K after the last over that after the first.
    """

    changed: float
    grown: float


def drift(name: str, offset: int, channels: int) -> Drift:
    """Back up and restore :data:`BACKUPS` times."""
    from hiqcache.geometry import KVGeometry

    draw = Draw.of(offset, channels)
    codec = codec_of(name, KVGeometry(1, KV_HEADS, HEAD_DIM, page_size=PAGE))
    first = encoded(codec, draw.keys, draw.values)
    last = first
    for _ in range(BACKUPS - 1):
        last = encoded(codec, *decoded(codec, last))
    errors = [
        (decoded(codec, units)[0].double() - draw.keys.double()).norm().item()
        for units in (first, last)
    ]
    return Drift((first != last).double().mean().item(), errors[1] / errors[0])


def key_error(name: str, dim: int, offset: int, channels: int) -> float:
    """Root mean square error of keys of heads of ``dim`` values."""
    from hiqcache.geometry import KVGeometry

    draw = Draw.of(offset, channels, dim)
    codec = codec_of(name, KVGeometry(1, KV_HEADS, dim, page_size=PAGE))
    keys, _ = decoded(codec, encoded(codec, draw.keys, draw.values))
    return (keys.double() - draw.keys.double()).square().mean().sqrt().item()


# --- how it is shown ---------------------------------------------------------------------------


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table, but for its first columns aligned to the right."""
    rule = ["---" if i < left else "---:" for i in range(len(headings))]
    lines = [headings, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def drawing(parts: Sequence[tuple[str, str, int]]) -> str:
    """Return parts of memory side by side, their first bytes above and what they are below."""
    offsets, boxes, notes, start = "", "", "", 0
    for name, note, size in parts:
        width = max(len(name), len(note), len(f"{start:,}")) + 2
        offsets += f"{start:<{width + 1},}"
        boxes += f"| {name:<{width - 1}}"
        notes += f"  {note:<{width - 1}}"
        start += size
    lines = (f"{offsets}{start:,}", f"{boxes}|", notes)
    return "\n".join(f"    {line}".rstrip() for line in lines)


def block_parts(codec: KVCodec, part: str) -> Iterator[tuple[str, str, int]]:
    """Yield payload, scales and padding of the block of K or of V."""
    from hiqcache.codecs.int4 import Int4Block

    block = codec.keys if part == "K" else codec.values
    layout, tokens = block.layout, block.rows.page_size
    kind = "2 x INT4" if isinstance(block, Int4Block) else "INT8"
    payload, strip = layout.payload_end, layout.used_bytes - layout.scale_offset
    of = "1 token" if tokens == 1 else f"{tokens} tokens"
    yield f"{payload:,} x {kind}", f"{part} of {of}", payload
    yield f"{strip // 2:,} x BF16", "their scales", strip
    if layout.block_bytes > layout.used_bytes:
        yield "zeros", "padding", layout.block_bytes - layout.used_bytes


def qwen3_8b(page_size: int, kv_heads: int = 8) -> KVGeometry:
    """Geometry that the sizes are of."""
    from hiqcache.geometry import KVGeometry

    return KVGeometry(36, kv_heads, 128, page_size=page_size)


#: Codecs of different sizes, and whose else theirs are.
SIZES = {"int8": "`int8`, `int8-hadamard`", "k8v4": "`k8v4`", "int4": "`int4`"}


def units_section() -> str:
    """Draw a unit of each format, for 8 heads of 128 values in pages of 16 and of 1."""
    drawings = []
    for names, name, page in (
        ("`int8` and `int8-hadamard`, pages of 16 tokens", "int8", 16),
        ("`int8` and `int8-hadamard`, pages of 1 token, each two records", "int8", 1),
        ("`int4`, pages of 16 tokens", "int4", 16),
        ("`k8v4`, pages of 16 tokens", "k8v4", 16),
    ):
        codec = codec_of(name, qwen3_8b(page))
        unit = codec.unit
        parts = [*block_parts(codec, "K"), *block_parts(codec, "V")]
        left = unit.unit_bytes - unit.key_bytes - unit.value_bytes
        parts += [("zeros", "padding", left)] if left else []
        halves = (
            f"Two halves of {unit.half_bytes:,} bytes; mover rows: "
            f"{unit.rows_per_half} x {unit.mover_row_bytes:,} bytes in each."
        )
        drawings.append(f"{names}:\n\n{drawing(parts)}\n\n{halves}")
    return "\n\n".join(drawings)


def sizes_section() -> str:
    """Bytes of a token of Qwen3-8B by page size, and ratios of ranks of fewer heads."""

    def rows(pages: Sequence[int], heads: int, shown: Callable[[KVCodec], str]) -> list[list[str]]:
        return [
            [names, f"{heads} x 128", *(shown(codec_of(name, qwen3_8b(p, heads))) for p in pages)]
            for name, names in SIZES.items()
        ]

    def ratio(codec: KVCodec) -> str:
        return f"{codec.geometry.bytes_per_token / codec.bytes_per_token:.3f}"

    pages = [*range(1, 9), 16, 64]
    whole = table(
        ["bytes per token", "heads", *map(str, pages)],
        rows(pages, 8, lambda codec: f"{codec.bytes_per_token:,}"),
        left=2,
    )
    pages = [1, 4, 8, 16, 32, 64]
    of_ranks = [row for heads in (8, 4, 2, 1) for row in rows(pages, heads, ratio)]
    ratios = table(["raw to encoded", "heads", *map(str, pages)], of_ranks, left=2)
    return f"{whole}\n\n{ratios}"


def losses_section() -> str:
    """Three measures of every codec under each kind of outlier."""
    from formats.catalogue import built_in

    measures: dict[str, Callable[[Loss], str]] = {
        "error of K, in its standard deviation": lambda loss: f"{loss.keys:.3f}",
        "divergence of the attention weights, nats": lambda loss: f"{loss.divergence:.1e}",
        "error of the attention output": lambda loss: f"{loss.output:.1%}",
    }
    tables = []
    for heading, shown in measures.items():
        rows = []
        for offset, channels in OUTLIERS:
            found = losses(offset, channels)
            cells = [shown(found[name]) for name in built_in()]
            rows.append([str(offset), str(channels), *cells])
        headings = ["offset", "channels", *(f"`{name}`" for name in built_in())]
        tables.append(f"{heading[0].upper()}{heading[1:]}:\n\n{table(headings, rows)}")
    return "\n\n".join(tables)


def drift_section() -> str:
    """What eight backups do, on plain keys and on the ones with the largest offset."""
    from formats.catalogue import built_in

    rows = []
    for name in built_in():
        found = [drift(name, *outliers) for outliers in (OUTLIERS[0], OUTLIERS[-1])]
        numbers = [number for d in found for number in (d.changed, d.grown - 1)]
        rows.append([f"`{name}`", *(f"{number:.1e}" if number else "0" for number in numbers)])
    headings = ["", "bytes", "error of K", "bytes, outliers", "error of K, outliers"]
    return table(headings, rows)


def heads_section() -> str:
    """How heads of each size are rotated and grouped, and what is lost of them."""
    from hiqcache.codecs.hadamard import HeadRotation
    from hiqcache.codecs.int4 import Int4Block

    rows = []
    for dim in HEAD_DIMS:
        rotation = HeadRotation(dim)
        block = Int4Block(replace(qwen3_8b(1), head_dim=dim, v_head_dim=dim).keys)
        errors = [key_error(name, dim, 20, 1) for name in ("int8", "int8-hadamard", "int4")]
        rows.append(
            [
                str(dim),
                f"{rotation.parts} x {rotation.order}",
                f"{block.groups} x {dim // block.groups}",
                *(f"{error:.3f}" for error in errors),
            ]
        )
    headings = ["head", "rotated as", "INT4 scales", "`int8`", "`int8-hadamard`", "`int4`"]
    return table(headings, rows)


SECTIONS: dict[str, Callable[[], str]] = {
    "units": units_section,
    "sizes": sizes_section,
    "losses": losses_section,
    "drift": drift_section,
    "heads": heads_section,
}


def section_pattern(name: str) -> re.Pattern[str]:
    """Match what lies between the markers of a section."""
    return re.compile(
        rf"(<!-- {name}: tools/format_tables\.py -->\n)(.*?)(<!-- end -->)", re.DOTALL
    )


def written(text: str) -> str:
    """Return a document with every section between its markers."""
    for name, section in SECTIONS.items():
        pattern = section_pattern(name)
        if len(pattern.findall(text)) != 1:
            raise ToolError(
                f"{DOCUMENT.name} does not have the markers of {name!r} once",
                "put <!-- NAME: tools/format_tables.py --> and <!-- end --> where it belongs",
                Exit.FINDINGS,
            )
        text = pattern.sub(rf"\g<1>\n{section()}\n\n\g<3>", text)
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = parser().parse_args(argv)
        if arguments.write:
            DOCUMENT.write_text(written(DOCUMENT.read_text("utf-8")), "utf-8")
        else:
            print("\n\n".join(section() for section in SECTIONS.values()))
        return Exit.DONE

    return run("format_tables.py", body, INSTALL_TORCH)


if __name__ == "__main__":
    sys.exit(main())
