"""A page as one HTML file that asks for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from reporting.content import Block, Bullets, Command, Document, Heading, Plot, Section, Table, Text
from reporting.drawing import to_svg

_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<h1>$title</h1>
<p>Written by tools/report.py; not edited by hand.</p>
<nav aria-label="Sections"><ul>
$contents
</ul></nav>
$sections
</body>
</html>""")


def to_html(document: Document) -> str:
    """Return the page."""
    numbered = list(enumerate(document.sections, start=1))
    return _PAGE.substitute(
        title=escape(document.title),
        style=Path(__file__).with_name("page.css").read_text(encoding="utf-8"),
        contents="\n".join(
            f'<li><a href="#section-{at}">{escape(section.title)}</a></li>'
            for at, section in numbered
        ),
        sections="\n".join(_section(section, at) for at, section in numbered),
    )


def _section(section: Section, at: int) -> str:
    blocks = "\n".join(_WRITERS[type(block)](block) for block in section.blocks)
    heading = f'<h2 id="section-{at}">{escape(section.title)}</h2>'
    return f"<section>\n{heading}\n{blocks}\n</section>"


def _bullets(bullets: Bullets) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in bullets.items) + "\n</ul>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "\n".join(_row(table, row) for row in table.rows)
    kind = ' class="facts"' if table.header[1:] == ("",) else ""
    return f"<table{kind}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _row(table: Table, row: tuple[str, ...]) -> str:
    cells = "".join(
        f'<td data-column="{escape(name)}"><span>{escape(cell)}</span></td>'
        for name, cell in zip(table.header[1:], row[1:], strict=True)
    )
    return f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>'


def _plot(plot: Plot) -> str:
    caption = f"<figcaption>{escape(plot.caption)}</figcaption>"
    return f"<figure>\n{to_svg(plot)}{caption}\n</figure>"


_WRITERS: Mapping[type[Block], Callable[[Any], str]] = {
    Heading: lambda block: f"<h3>{escape(block.words)}</h3>",
    Text: lambda block: f"<p>{escape(block.words)}</p>",
    Command: lambda block: f"<pre><code>{escape(block.line)}</code></pre>",
    Bullets: _bullets,
    Table: _table,
    Plot: _plot,
}
