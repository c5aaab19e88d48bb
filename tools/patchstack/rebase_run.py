"""One series on its way to one release: what is moved, how, and the tree in which it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchstack.base import base_point, open_store
from patchstack.build import Stack, build_stack
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.interpreter import prepared, require_interpreter
from patchstack.lock import check_files, check_stack, read_lock
from patchstack.moving import Move, Plan
from patchstack.publish import BASE_REF
from patchstack.rebase_report import Report, make_report
from patchstack.records import Record, Records, read_records
from patchstack.release import discover_release, named_version
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.revisions import PIN, Revision, load_revisions
from patchstack.series import has_series, read_series
from patchstack.smoke import Gate
from patchstack.source_wheel import ensure_base
from patchstack.upstream import fetch_wheel, fitting_wheel

OLD_REF = "refs/hiqcache/old"


@dataclass(frozen=True)
class Options:
    """How to work.

    Parameters
    ----------
    python
        The interpreter of the smoke gate, or None.
    resolutions
        Whether recorded resolutions are used.
    smoke
        Whether patches are run at all; that they compile is checked in any case.
    offline
        Whether to use the cache alone.
    edit
        The slugs of patches that the user wants to see to even if they merge.
    """

    python: Path | None = None
    resolutions: bool = True
    smoke: bool = True
    offline: bool = False
    edit: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.python is not None:
            require_interpreter(self.python)


@dataclass(frozen=True)
class Run:
    """One series on its way to one release.

    Parameters
    ----------
    context, options, progress
        Every path, how to work, and where progress goes.
    origin, target
        The old release and the new one.
    pinned
        Whether ``revisions.toml`` has the new one.
    old
        The series on the old one.
    """

    context: Context
    options: Options
    progress: Progress
    origin: Revision
    target: Revision
    pinned: bool
    old: Stack

    def plan(self, learned: tuple[Record, ...] = ()) -> Plan:
        """Return what is moved, with what was recorded earlier and meanwhile."""
        known = Records.of()
        if self.options.resolutions:
            known = Records.of(*read_records(self.context.resolutions), *learned)
        base, names = base_point(self.target).commit, (self.origin.name, self.target.name)
        return Plan(self.old, base, *names, known, self.options.edit)

    @contextmanager
    def gate(self, tree: Repository) -> Iterator[Gate]:
        """Give what every moved patch must pass."""
        base = base_point(self.target).commit
        if self.options.python is None or not self.options.smoke:
            yield Gate(tree, base)
            return
        source = fitting_wheel(self.target) or self.target.wheels[0]
        offline, progress = self.options.offline, self.progress
        wheel = fetch_wheel(self.context, self.target, source, offline=offline, progress=progress)
        library = self.context.root / "hiqcache"
        with prepared(self.options.python, library, wheel) as interpreter:
            yield Gate(tree, base, interpreter)

    def report(self, tree: Repository, moves: tuple[Move, ...], *, dry_run: bool) -> Report:
        """Return the report of what became of the patches so far."""
        given = (tree, self.plan(), self.target, moves)
        return make_report(*given, pinned=self.pinned, dry_run=dry_run)


def prepare(
    context: Context,
    origin: str,
    onto: str,
    options: Options,
    progress: Progress,
    *,
    dry_run: bool,
) -> Run:
    """Find both releases and the series, and refuse what cannot be moved."""
    revisions = load_revisions(context.revisions_file)
    old = revisions.get(origin)
    name = onto if onto in (PIN, *revisions.names) else f"v{named_version(onto)}"
    refused = name in dict(revisions.refused) and not dry_run
    pinned = name in (PIN, *revisions.names)
    if pinned or refused:
        new = revisions.get(name)
    else:
        version = named_version(onto)
        new = discover_release(context, version, old, offline=options.offline, progress=progress)
    if new.name == old.name:
        raise ToolError(f"{old.name} is where the series is", "name another --onto", Exit.USAGE)
    folder = context.series_dir(old.name)
    if not has_series(folder) or not (patches := read_series(folder)):
        hint = f"run tools/export.py --rev {old.name} first"
        raise ToolError(f"{old.name} has no patches to move", hint, Exit.USAGE)
    locked = read_lock(folder)
    check_files(folder, locked, base_point(old), patches)
    slugs = [patch.slug for patch in patches]
    for slug in options.edit:
        if slug not in slugs:
            what = f"--edit {slug}: {old.name} has no such patch"
            raise ToolError(what, f"name one of {', '.join(slugs)}", Exit.USAGE)
    return Run(context, options, progress, old, new, pinned, locked)


def fill_tree(run: Run, tree: Repository) -> None:
    """Put both releases and the old series into ``tree``, and prove that it is what is locked."""
    context, store = run.context, open_store(run.context.repository)
    for revision in (run.origin, run.target):
        source = fitting_wheel(revision) or revision.wheels[0]
        offline, progress = run.options.offline, run.progress
        ensure_base(context, store, revision, source, offline=offline, progress=progress)
    bases = [base_point(revision) for revision in (run.origin, run.target)]
    store.copy_history([base.commit for base in bases], tree)
    folder = context.series_dir(run.origin.name)
    stack = build_stack(tree, bases[0], read_series(folder), Progress(quiet=True))
    check_stack(folder, run.old, stack)
    _name(run, tree)


def copy_tree(run: Run, users: Repository, tree: Repository, commits: list[str]) -> None:
    """Put what the user's tree holds of both series into ``tree``."""
    bases = [run.old.head.commit, base_point(run.target).commit]
    users.copy_history([*bases, *commits], tree)
    _name(run, tree)


def _name(run: Run, tree: Repository) -> None:
    """Name both ends, for a user who looks around."""
    tree.run("update-ref", OLD_REF, run.old.head.commit)
    tree.run("update-ref", BASE_REF, base_point(run.target).commit)
