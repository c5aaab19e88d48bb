"""The generated parts of the documents, written: the whole of ``tools/write_docs.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from patchstack.applying import alone
from patchstack.base import open_store
from patchstack.checking import read_project
from patchstack.context import Context
from patchstack.documents import COMPATIBILITY, GUIDE, UPSTREAM, Sites, upstream_page, with_table
from patchstack.files import read_text
from patchstack.report import Progress
from patchstack.revisions import Revisions
from patchstack.seam import Hook, find_sites, read_hooks
from patchstack.source_wheel import ensure_base
from patchstack.swap import replace_file
from patchstack.upstream import fitting_wheel


def write_documents(context: Context, offline: bool, progress: Progress) -> Iterator[Path]:
    """Write what is out of date, and yield the path of each document that changed."""
    project = read_project(context)
    hooks = read_hooks(context.patches)
    guide, upstream = context.root / GUIDE, context.root / UPSTREAM
    sites = _sites(context, project.revisions, hooks, offline, progress)
    texts = {
        guide: with_table(read_text(guide), project.table),
        upstream: upstream_page(hooks, sites),
    }
    page = context.root / COMPATIBILITY
    if page.is_file() and (text := _compatibility(project.revisions, progress)):
        texts[page] = text
    for path, text in texts.items():
        if not path.is_file() or path.read_text("utf-8", "replace") != text:
            replace_file(path, text.encode())
            yield path


def _compatibility(revisions: Revisions, progress: Progress) -> str | None:
    """Return ``docs/compatibility.md``, or None where torch, which the codecs need, is not."""
    try:
        from formats.compatibility import compatibility_page
    except ModuleNotFoundError as error:
        progress.say(f"{COMPATIBILITY} stays as it is: {error.name} is not installed")
        return None
    return compatibility_page(revisions)


def _sites(
    context: Context,
    revisions: Revisions,
    hooks: tuple[Hook, ...],
    offline: bool,
    progress: Progress,
) -> Sites:
    """Return where the hooks are in each release, the newest first."""
    found: Sites = {}
    with alone(context, progress):
        store = open_store(context.repository)
        for revision in reversed(revisions.in_order):
            source = fitting_wheel(revision) or revision.wheels[0]
            ensure_base(context, store, revision, source, offline=offline, progress=progress)
            found[revision.name] = find_sites(store, revision, hooks)
    return found
