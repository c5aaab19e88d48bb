"""A comparison as a table, for people, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich import box
from rich.table import Table

from serving.environment import Environment
from serving.printing import Printer
from serving.quality.document import Document

_HEAD = """\
# Quality after a restore

The same prompts, their prefixes restored from a raw BF16 L2 and from each codec's L2, on SGLang's
own server. `tools/quality.py` wrote this page; its command, which also wrote the numbers of every
request beside it:

    {command}

"""


def _ratio(document: Document, codec: Document) -> str:
    raw, own = document["raw_bytes_per_token"], codec["bytes_per_token"]
    return f"{own:,.0f} ({raw / own:.2f}x)"


def _of_requests(count: str) -> Callable[[Document, Document], str]:
    return lambda document, codec: f"{codec[count]} of {document['requests']}"


def _share(name: str) -> Callable[[Document, Document], str]:
    def cell(_: Document, codec: Document) -> str:
        value, low, high = (100 * codec["figures"][name][part] for part in _PARTS)
        return f"{value:.1f}% [{low:.1f}, {high:.1f}]"

    return cell


def _difference(name: str) -> Callable[[Document, Document], str]:
    def cell(_: Document, codec: Document) -> str:
        value, low, high = (codec["figures"][name][part] for part in _PARTS)
        return f"{value:.3f} [{low:.3f}, {high:.3f}]"

    return cell


_PARTS = ("value", "low", "high")
_ROWS: dict[str, Callable[[Document, Document], str]] = {
    "L2 bytes per token (raw ÷ own)": _ratio,
    "requests restored from both L2s": _of_requests("restored"),
    "prefixes computed alike": _of_requests("computed_alike"),
    "same first token": _share("first_token"),
    "same 16 tokens": _share("tokens_16"),
    "same 32 tokens": _share("tokens_32"),
    "same token at its place": _share("per_token"),
    "|Δ logprob|, mean": _difference("mean"),
    "|Δ logprob|, 95th percentile": _difference("p95"),
    "|Δ logprob|, 99th percentile": _difference("p99"),
    "|Δ logprob|, largest": _difference("max"),
    "tokens whose logprobs are compared": lambda _, codec: f"{codec['positions']:,}",
}


def _cells(document: Document) -> list[list[str]]:
    """The table's rows, the heading first."""
    codecs: dict[str, Any] = document["codecs"]
    rows = [[head, *(cell(document, c) for c in codecs.values())] for head, cell in _ROWS.items()]
    return [["", *codecs], *rows]


def notes(document: Document) -> list[str]:
    """Return what must be known to read the table, a paragraph each."""
    intervals, environment = document["intervals"], document["environment"]
    told = [
        f"{document['model']}: {document['requests']} prompts from the Python language reference, "
        f"one at a time and greedily: {document['prefix_tokens']} tokens that are restored, then "
        f"{document['scored_tokens']} given ones that are scored, then "
        f"{document['generated_tokens']} generated ones.",
        "Restored: the server's own cached-token details of the request say that L2 gave the "
        "whole prefix and L1 nothing, in both runs; no other request is in the figures. Computed "
        "alike: the prefixes gave bitwise the same first answer in both runs, before anything was "
        "restored, so the servers differ in their L2 alone.",
        "|Δ logprob| is between the two restores, never against a prompt that was computed anew, "
        "over the scored tokens and the generated ones up to the first that differs. A token that "
        "differs makes all that follow it another text, so the same token at its place counts "
        "these too.",
        f"In brackets: {intervals['percent']} % intervals, from {intervals['resamples']:,} "
        f"resamples of whole requests. Where all n requests agree, or for the largest difference, "
        "a sample gives no limit on that side: with n agreeing requests, up to 3/n of others may "
        "still differ.",
    ]
    where = f"SGLang {document['sglang']} on {document['device']}."
    return [*told, Environment(**environment).sentence() + "." if environment else where]


def print_table(document: Document) -> None:
    """Print the table and its notes on standard output."""
    (_, *codecs), *rows = _cells(document)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for codec in codecs:
        table.add_column(codec, justify="right")
    for row in rows:
        table.add_row(*row)
    printer = Printer()
    printer.table(table)
    printer.print("\n".join(notes(document)))


def page(document: Document) -> str:
    """Return the page of the documentation."""
    (head, *rows) = _cells(document)
    # A bar would end the cell.
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    table = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1), *lines]
    body = ["\n".join(table), *notes(document)]
    return _HEAD.format(command=document["command"]) + "\n\n".join(body)
