"""From a revision's name to its patched tree: the whole of ``tools/apply.py``."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from patchstack.base import base_point, has_base, import_base, open_store
from patchstack.build import Stack, build_stack
from patchstack.context import Context
from patchstack.lock import check_files, check_stack, read_lock
from patchstack.publish import inspect_target, is_current, publish, refuse_commits
from patchstack.report import Progress
from patchstack.revisions import PinnedWheel, Revision, load_revisions
from patchstack.series import has_series, read_series
from patchstack.upstream import fetch_wheel, fitting_wheel


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Parameters
    ----------
    revision
        A revision's name, or ``pin``.
    target
        Where the tree goes; None for the usual place.
    offline
        Whether to use the cache alone.
    """

    revision: str
    target: Path | None = None
    offline: bool = False


@dataclass(frozen=True)
class Result:
    """What came of it."""

    revision: Revision
    source: PinnedWheel
    stack: Stack
    path: Path

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
        }
        return json.dumps(fields, indent=2)


def apply_revision(context: Context, request: Request, progress: Progress) -> Result:
    """Make the patched tree of a revision, or find that it is there already."""
    revision = load_revisions(context.revisions_file).get(request.revision)
    target = (request.target or context.target(revision.name)).resolve()
    source = fitting_wheel(revision) or revision.wheels[0]
    tree = inspect_target(target, revision.name)
    with _alone(context):
        store = open_store(context.repository)
        stack = _build(context, revision, source, request, progress)
        if tree is not None and is_current(tree, stack):
            progress.say(f"{target} is up to date")
        else:
            if tree is not None:
                refuse_commits(tree, stack, store, revision.name)
            publish(store, stack, target)
    return Result(revision, source, stack, target)


def _build(
    context: Context,
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
    store = open_store(context.repository)
    if not has_base(store, revision):
        wheel = fetch_wheel(context, revision, source, offline=request.offline, progress=progress)
        progress.say(f"importing the files of {wheel.name}")
        import_base(store, revision, wheel)
    stack = build_stack(store, base, patches, progress)
    check_stack(folder, locked, stack)
    return stack


@contextmanager
def _alone(context: Context) -> Iterator[None]:
    """Let no second run of the tools work in the same cache meanwhile."""
    context.cache.mkdir(parents=True, exist_ok=True)
    with (context.cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
