"""Is everything under ``patches/`` as it should be? The whole of ``tools/check.py``.

Every rule is tried and every finding is listed. What needs no release is checked first and fast;
then each supported release is fetched into an empty cache, as on a machine that has never seen
it, and its patches are applied and written again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from patchstack.applying import Request, Result, apply_revision
from patchstack.base import open_store
from patchstack.check_environments import check_environments
from patchstack.check_history import check_history
from patchstack.check_series import check_folders, check_series
from patchstack.context import Context
from patchstack.documents import (
    Sites,
    check_guide,
    check_mentions,
    check_text,
    check_upstream,
    releases_table,
    upstream_page,
)
from patchstack.errors import ToolError
from patchstack.findings import Finding, first_difference
from patchstack.footprint import (
    EXISTING_BUDGET,
    NEW_BUDGET,
    Change,
    Footprint,
    changes,
    measure,
)
from patchstack.lock import LOCK
from patchstack.mail import format_mail
from patchstack.records import read_records
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.revisions import Revision, Revisions, load_revisions
from patchstack.seam import SEAM, find_sites, idle, read_hooks, unhooked
from patchstack.series import SERIES, PatchFile


@dataclass(frozen=True)
class Project:
    """What a check learns from the files alone.

    Parameters
    ----------
    revisions
        The supported releases.
    patches
        For each release, the patches that can be read.
    footprints
        How much each series changes, the oldest release first.
    changes
        How its new files differ from one release to the next.
    findings
        What is wrong.
    """

    revisions: Revisions
    patches: dict[str, tuple[PatchFile, ...]]
    footprints: tuple[Footprint, ...]
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]

    @property
    def table(self) -> str:
        """The table of releases for the documents."""
        return releases_table(self.revisions, self.footprints, self.changes)


@dataclass(frozen=True)
class Report:
    """What a check found.

    Parameters
    ----------
    project
        The footprints, for the reader.
    findings
        Everything that is wrong, by place.
    """

    project: Project
    findings: tuple[Finding, ...]

    def to_text(self) -> str:
        """Return the findings, one a line, and the footprints below them."""
        lines = [str(finding) for finding in self.findings]
        differs = {change.after: change for change in self.project.changes}
        for size in self.project.footprints:
            line = f"{size.revision}: {size.existing} of {EXISTING_BUDGET} lines in SGLang's files"
            line += f", {size.new} of {NEW_BUDGET} in new files"
            if change := differs.get(size.revision):
                line += f" (+{change.added} -{change.removed} against {change.before})"
            lines.append(line)
        count = len(self.findings)
        return "\n".join([*lines, f"{count} finding{'' if count == 1 else 's'}"])

    def to_json(self) -> str:
        """Return the report for a program to read."""
        budgets = {"existing": EXISTING_BUDGET, "new": NEW_BUDGET}
        sizes = [
            {key: getattr(size, key) for key in ("revision", "existing", "new")}
            for size in self.project.footprints
        ]
        fields = {
            "findings": [asdict(finding) for finding in self.findings],
            "budgets": budgets,
            "footprints": sizes,
            "changes": [asdict(change) for change in self.project.changes],
        }
        return json.dumps(fields, indent=2)


def check(context: Context, *, fast: bool, progress: Progress) -> Report:
    """Check a project.

    Parameters
    ----------
    context
        The project. Its cache is not used.
    fast
        Whether to leave out what needs the releases themselves.
    progress
        Where progress goes.
    """
    project = read_project(context)
    found = list(project.findings)
    found += check_guide(context, project.table)
    if not fast:
        found += _check_releases(context, project, progress)
    return Report(project, tuple(sorted(set(found))))


def read_project(context: Context) -> Project:
    """Read and check what needs no release."""
    revisions = load_revisions(context.revisions_file)
    found = list(check_folders(context, revisions.names))
    patches, sizes = {}, list[Footprint]()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Repository.create(Path(folder) / "scratch.git")
        for revision in revisions.in_order:
            wrong, series = check_series(context, scratch, revision)
            found += wrong
            patches[revision.name] = series
            try:
                sizes.append(measure(scratch, revision.name, series))
            except ToolError as error:
                place = f"patches/{revision.name}/{SERIES}"
                found.append(Finding(place, 1, "footprint", error.message))
        differences = tuple(changes(scratch, tuple(sizes)))
    for size in sizes:
        place = f"patches/{size.revision}/{SERIES}"
        found += [Finding(place, 1, "footprint", excess) for excess in size.excesses]
    slugs = {patch.slug for series in patches.values() for patch in series}
    found += _check_seam(context, slugs, tuple(sizes))
    found += _check_records(context)
    found += check_history(context, revisions)
    found += check_environments(context.root, revisions.names)
    found += check_text(context)
    found += check_mentions(context, revisions.names)
    return Project(revisions, patches, tuple(sizes), differences, tuple(found))


def _check_seam(
    context: Context, slugs: set[str], sizes: tuple[Footprint, ...]
) -> Iterator[Finding]:
    """Yield each file that a patch changes without a hook, and each patch that has only hooks."""
    try:
        hooks = read_hooks(context.patches)
    except ToolError as error:
        yield Finding(f"patches/{SEAM}", 1, "seam", error.message)
        return
    touched = {pair for size in sizes for pair in size.touched}
    for slug, path in unhooked(hooks, touched):
        what = f"{slug} changes {path}, and no hook of it is in that file"
        yield Finding(f"patches/{SEAM}", 1, "seam", what)
    for slug in idle(hooks, slugs):
        yield Finding(f"patches/{SEAM}", 1, "seam", f"no series has {slug}, which has hooks")


def _check_records(context: Context) -> Iterator[Finding]:
    """Yield the first recorded file that rebase could not use."""
    try:
        read_records(context.resolutions)
    except ToolError as error:
        yield Finding(f"patches/{context.resolutions.name}", 1, "resolutions", error.message)


def _check_releases(context: Context, project: Project, progress: Progress) -> Iterator[Finding]:
    try:
        hooks = read_hooks(context.patches)
    except ToolError:
        hooks = ()  # a finding already
    sites: Sites = {}
    for revision in reversed(project.revisions.in_order):
        with tempfile.TemporaryDirectory() as folder:
            empty = replace(context, cache=Path(folder) / "cache")
            request = Request(revision.name, Path(folder) / "tree")
            try:
                result = apply_revision(empty, request, progress)
            except ToolError as error:
                yield Finding(f"patches/{revision.name}/{LOCK}", 1, "apply", error.message)
                continue
            store = open_store(empty.repository)
            yield from _check_form(store, revision, result, project.patches[revision.name])
            sites[revision.name] = find_sites(store, revision, hooks)
    if hooks and len(sites) == len(project.revisions.names):
        yield from check_upstream(context, upstream_page(hooks, sites))


def _check_form(
    store: Repository, revision: Revision, result: Result, patches: tuple[PatchFile, ...]
) -> Iterator[Finding]:
    """Yield each patch that is not byte for byte what export writes, and what git objects to."""
    for patch, applied in zip(patches, result.stack.patches, strict=True):
        place = f"patches/{revision.name}/{patch.name}"
        found, written = patch.data, format_mail(store, applied.commit)
        if found != written:
            at = first_difference(found.split(b"\n"), written.split(b"\n"))
            yield Finding(place, at, "form", "is not what tools/export.py writes from here on")
        said = store.ask("diff-tree", "--check", f"{applied.commit}^", applied.commit).out
        for line in said.decode("utf-8", "replace").splitlines():
            if not line.startswith("+"):
                yield Finding(place, 1, "whitespace", line)
