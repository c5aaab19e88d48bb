"""The page that shows a run: the plot, the table, the goals, and what padding adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from formats.models import PRESETS
from kvbench.catalogue import OURS
from kvbench.ours import PAGE, allocated_bits
from kvbench.report import HEADER, Report

#: KV heads and head dimension of the model that is measured, and of the one that most figures of
#: this project are for.
HEADS = [(PRESETS[name].kv_heads, PRESETS[name].head_dim) for name in ("smollm2-135m", "qwen3-8b")]
PAGES = (1, 8, 16, PAGE)

_TEXT = """\
# What each format costs in quality

Written by `tox -e rate-distortion`; not edited by hand. The model is SmolLM2-135M-Instruct,
computed in float32. Bits are allocated bytes for each value, scales included, in pages of {page}
tokens.

{method}

![bits for each value against KL]({plot})

{formats}

- **ours** are this library's codecs. `int8` may be dominated: it is there for bytes that stay the
  same when a page is encoded again ([formats.md](formats.md)).
- A **peer** is another project's own code, run here.
- **(emulated)** is a format's arithmetic, written for this benchmark
  (`benchmarks/kvbench/emulations.py`), of a project whose code does not run here.
- **KIVI axes** is how KIVI groups values that share a least value and a step: for K a channel over
  32 tokens, for V a head of one token. KIVI keeps recent tokens in full precision; here every token
  is quantised.
- **Dominated**: another format takes no more bits, to two digits, and has a lower KL: the whole
  interval of the ratio of the two KLs, over the same resamples, lies below 1.

## Goals

{goals}

## Bits by the page

Smaller pages leave some of a page's block to padding, the more the fewer KV heads there are.
Qwen3-8B has 8 of 128.

{pages}
"""


def page(report: Report, plot: str) -> str:
    """Return the Markdown page of a run.

    Parameters
    ----------
    report
        The run.
    plot
        Where its plot lies, from the page.
    """
    return _TEXT.format(
        page=PAGE,
        method=report.method,
        plot=plot,
        formats=_table(HEADER, map(_bold_ours, report.cells())),
        goals=_table(
            ("goal", "found", ""),
            [(goal.text, goal.found, "met" if goal.met else "missed") for goal in report.goals],
        ),
        pages=_pages(),
    )


def _pages() -> str:
    columns = [(heads, tokens) for heads in HEADS for tokens in PAGES]
    header = [f"{count} heads of {dim}, page {tokens}" for (count, dim), tokens in columns]
    rows = [
        [name, *(f"{allocated_bits(name, *heads, tokens):.3f}" for heads, tokens in columns)]
        for name in OURS
    ]
    return _table(["format", *header], rows)


def _bold_ours(row: Sequence[str]) -> list[str]:
    name, kind, *figures = row
    return [f"**{name}**" if kind == "ours" else name, kind, *figures]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
