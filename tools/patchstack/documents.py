"""The parts of the documents that are written by a program, and the check that they are current.

``docs/patches.md`` lists the supported releases between two markers. ``docs/upstream.md`` is
written as a whole, and so is ``docs/compatibility.md``, by the package ``formats``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.findings import Finding, first_difference
from patchstack.footprint import Change, Footprint
from patchstack.revisions import Revisions
from patchstack.seam import Hook, Site

GUIDE = "docs/patches.md"
UPSTREAM = "docs/upstream.md"
COMPATIBILITY = "docs/compatibility.md"
BEGIN = "<!-- releases: written by tools/write_docs.py -->"
END = "<!-- end of releases -->"

_COMMAND = "run tools/write_docs.py"
_MENTION = re.compile(r"--rev[ =](v[0-9][0-9a-z.]*[0-9a-z])")
_ABSENT = "-"
_HEAD = """\
# SGLang's side of the seam

The functions and lines of SGLang that the patches hook, in each supported release, with line
numbers in the release's own files (below `python/sglang/`). `patches/seam.toml` lists them; where
they are is read from the pinned sources by `tools/write_docs.py`, which wrote this page, and
`tools/check.py` refuses a page that does not fit them. A dash means that a release does
not have it.
"""

Sites = dict[str, dict[Hook, Site | None]]


def releases_table(
    revisions: Revisions, footprints: Iterable[Footprint], changes: Iterable[Change]
) -> str:
    """Return the table of the supported and of the refused releases."""
    measured = {footprint.revision: footprint for footprint in footprints}
    differs = {change.after: change for change in changes}
    lines = [
        "| release | patched version | lines in SGLang's files | lines in new files | "
        "new files, against the release before |",
        "|---|---|---:|---:|---|",
    ]
    for revision in reversed(revisions.in_order):
        size, change = measured.get(revision.name), differs.get(revision.name)
        name = f"`{revision.name}`{' (pin)' if revision.name == revisions.pin else ''}"
        existing, new = (size.existing, size.new) if size else (_ABSENT, _ABSENT)
        against = f"+{change.added} -{change.removed}" if change else _ABSENT
        lines.append(f"| {name} | `{revision.patched_version}` | {existing} | {new} | {against} |")
    for name, why in revisions.refused:
        lines.append(f"| `{name}` | refused: {why} | | | |")
    return "\n".join(lines) + "\n"


def upstream_page(hooks: tuple[Hook, ...], sites: Sites) -> str:
    """Return the whole of ``docs/upstream.md``.

    Parameters
    ----------
    hooks
        The places.
    sites
        For each release, the newest first, where each place is.
    """
    parts = [_HEAD]
    for slug, group in groupby(hooks, key=lambda hook: hook.patch):
        own = list(group)
        parts.append(f"## `{slug}`\n\n{_lines_table(own, sites)}")
        parts += [_signatures(hook, sites) for hook in own if not hook.line]
    return "\n".join(parts)


def with_table(text: str, table: str) -> str:
    """Return a document with the table between its markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ToolError(
            f"{GUIDE} does not have the lines {BEGIN} and {END}, once each",
            "put them where the table belongs",
            Exit.FINDINGS,
        )
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table}{END}{rest.split(END)[1]}"


def check_guide(context: Context, table: str) -> Iterator[Finding]:
    """Yield where ``docs/patches.md`` does not name exactly the supported releases."""
    path = context.root / GUIDE
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    try:
        if with_table(text, table) != text:
            line = text[: text.index(BEGIN)].count("\n") + 1
            yield Finding(GUIDE, line, "docs", f"the table of releases is out of date; {_COMMAND}")
    except ToolError as error:
        yield Finding(GUIDE, 1, "docs", error.message)


def check_text(context: Context) -> Iterator[Finding]:
    """Yield each file that people and programs read which is not UTF-8."""
    root = context.root
    for path in (root / "README.md", root / "tox.ini", *sorted((root / "docs").glob("*.md"))):
        data = path.read_bytes() if path.is_file() else b""
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            yield Finding(context.show(path), line, "text", "is not UTF-8")


def check_mentions(context: Context, names: tuple[str, ...]) -> Iterator[Finding]:
    """Yield each command in a document that names a release which is not supported."""
    documents = [context.root / "README.md", *sorted((context.root / "docs").glob("*.md"))]
    for path in documents:
        lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
        for number, line in enumerate(lines, 1):
            for name in _MENTION.findall(line):
                if name not in names:
                    what = f"--rev {name} is not a supported release"
                    yield Finding(context.show(path), number, "docs", what)


def check_upstream(context: Context, page: str) -> Iterator[Finding]:
    """Yield where ``docs/upstream.md`` does not fit the pinned sources."""
    path = context.root / UPSTREAM
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    wanted = page.splitlines()
    if lines != wanted:
        at = first_difference(lines, wanted)
        yield Finding(UPSTREAM, at, "docs", f"does not fit the pinned sources; {_COMMAND}")


def _lines_table(hooks: list[Hook], sites: Sites) -> str:
    lines = [
        f"| place | use | {' | '.join(sites)} |",
        f"|---|---|{'---:|' * len(sites)}",
    ]
    for hook in hooks:
        found = [sites[name][hook] for name in sites]
        numbers = " | ".join(str(site.line) if site else _ABSENT for site in found)
        inside = f", line `{hook.line}…`" if hook.line else ""
        symbol = f" `{hook.symbol}`" if hook.symbol else ""
        place = f"`{hook.file}`{symbol}{inside}"
        lines.append(f"| {place} | {hook.use} | {numbers} |")
    return "\n".join(lines) + "\n"


def _signatures(hook: Hook, sites: Sites) -> str:
    """Return how a symbol is called, once for each run of releases that agree."""
    known = [(name, found[hook]) for name, found in sites.items()]
    parts = [f"`{hook.symbol}`:\n"]
    for signature, group in groupby(known, key=lambda item: item[1] and item[1].signature):
        names = [name for name, _ in group]
        span = names[0] if len(names) == 1 else f"{names[-1]} to {names[0]}"
        parts.append(f"- {span}: {f'`{signature}`' if signature else 'not there'}")
    return "\n".join(parts) + "\n"
