"""The files of a report: written, or compared with what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from patchstack.errors import Exit, ToolError
from reporting.content import Document
from reporting.drawing import to_svg
from reporting.html_page import to_html
from reporting.markdown_page import to_markdown
from serving.delivery import write_file

_SVG = re.compile(r"<svg [^>]*?data-drawn=\"(\w+)\".*?</svg>", re.DOTALL)


def make_files(document: Document, html: Path | None, page: Path | None) -> dict[Path, str]:
    """Return what each file is to contain.

    Parameters
    ----------
    document
        What they say.
    html
        The HTML page, if one is asked for.
    page
        The Markdown page, if one is asked for; its drawings lie in a folder of its name.
    """
    made: dict[Path, str] = {}
    if html:
        made[html] = to_html(document)
    if page:
        made[page] = to_markdown(document, page.stem)
        for plot in document.plots:
            made[_folder(page) / f"{plot.name}.svg"] = to_svg(plot).rstrip("\n")
    return made


def _folder(page: Path) -> Path:
    return page.with_name(page.stem)


def refuse_folder(page: Path | None) -> None:
    """Refuse a page whose drawings would have no place."""
    if not page:
        return
    if not page.suffix:
        raise ToolError(f"--page {page} has no ending", f"try {page}.md", Exit.USAGE)
    if _folder(page).exists() and not _folder(page).is_dir():
        what = f"{_folder(page)} is in the place of the folder for the drawings"
        raise ToolError(what, "name another page", Exit.USAGE)


def write_files(files: Mapping[Path, str]) -> None:
    """Write each, whole; drawings before the page that shows them, and none that it does not."""
    for file in reversed(list(files)):
        if file.suffix == ".svg":
            file.parent.mkdir(exist_ok=True)
        write_file(file, files[file])
    for folder in {file.parent for file in files if file.suffix == ".svg"}:
        for file in set(folder.glob("*.svg")) - files.keys():
            if _SVG.search(file.read_text(encoding="utf-8", errors="replace")):
                file.unlink()  # a drawing of an earlier page


def stale(files: Mapping[Path, str], page: Path | None) -> Iterator[str]:
    """Yield a line for each file that is not what it would be now.

    A drawing is compared by what it shows, since each release of matplotlib draws in its own way.
    """
    for file, text in files.items():
        if not file.is_file():
            yield f"{file} is missing"
        elif _essence(file.read_text(encoding="utf-8", errors="replace")) != _essence(text + "\n"):
            yield f"{file} is not what the results say"
    if page:
        for file in sorted(_folder(page).glob("*.svg")):
            if file not in files:
                yield f"{file} is shown no more"


def _essence(text: str) -> str:
    return _SVG.sub(r"drawn \1", text)
