"""From a revision's name to its patched tree: the whole of ``tools/apply.py``."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from patchstack.base import base_point
from patchstack.build import Stack, build_stack
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.files import resolved
from patchstack.ground import Ground, Source, Wanted
from patchstack.lock import check_changes, check_files, check_stack, read_lock
from patchstack.publish import inspect_target, is_current, publish, refuse_commits
from patchstack.report import Progress
from patchstack.revisions import Revision, load_revisions
from patchstack.series import PatchFile, has_series, read_series
from patchstack.source_wheel import PinnedSource
from patchstack.swap import claimed
from patchstack.wheel import patched_files, write_wheels


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
    source
        Where the release comes from.
    """

    revision: str
    target: Path | None = None
    wheels: Path | None = None
    offline: bool = False
    source: Source = field(default_factory=PinnedSource)


@dataclass(frozen=True)
class Result:
    """What came of it.

    Parameters
    ----------
    revision
        The release.
    ground
        What it stands on.
    stack
        The base, the patches and the head as commits.
    path
        The patched tree.
    wheels
        The patched release and hiqcache, if wheels were asked for.
    """

    revision: Revision
    ground: Ground
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
            "source": self.ground.about,
            "lock": self.ground.lock,
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
    folder = context.series_dir(revision.name)
    target = resolved(request.target or context.target(revision.name))
    if request.wheels is not None:
        _refuse_unpatched(folder, revision)
        _refuse_inside(resolved(request.wheels), target)
    places = (target, folder, context.repository, context.wheels / revision.wheels[0].name)
    with claimed(*places, progress=progress):
        tree = inspect_target(target, revision.name)
        patches, locked = _read(folder, revision, progress)
        if not patches and tree is not None and tree.recorded != tree.base:
            raise ToolError(
                f"{context.show(folder)} is missing, and {target} is a patched tree",
                f"git checkout -- {context.show(folder)}, or remove {target}",
                Exit.UPSTREAM,
            )
        needs_wheel = request.wheels is not None
        wanted = Wanted(revision, patches, needs_wheel, request.offline, progress)
        with request.source.ground(context, wanted) as ground:
            if needs_wheel and ground.wheel is None:
                raise ToolError(
                    f"a source of kind {ground.about['kind']} has nothing compiled for a wheel",
                    "leave --source out, name a wheel, or leave --wheel out",
                    Exit.USAGE,
                )
            stack = build_stack(ground.repository, ground.base, patches, progress)
            (check_stack if ground.exact else check_changes)(folder, locked, stack)
            if tree is not None and not is_current(tree, stack):
                refuse_commits(tree, target, stack, ground.repository, revision.name)
            wheels = _write_wheels(context, request, revision, ground, stack, progress)
            if not ground.exact:
                progress.say("ids differ from lock.toml's: the base is not the pinned commit")
            if tree is not None and is_current(tree, stack):
                progress.say(f"{target} is up to date")
            else:
                publish(ground.repository, stack, target, revision.name)
    return Result(revision, ground, stack, target, wheels)


def _refuse_unpatched(folder: Path, revision: Revision) -> None:
    if not has_series(folder):
        raise ToolError(
            f"{revision.name} has no patches yet, so there is no patched wheel",
            f"run tools/export.py --rev {revision.name} first, or leave --wheel out",
            Exit.USAGE,
        )


def _refuse_inside(wheels: Path, target: Path) -> None:
    """Refuse a place for wheels that goes when the tree is put in its place."""
    if wheels.is_relative_to(target):
        raise ToolError(
            f"{wheels} is inside {target}, which is replaced",
            "name a folder beside it with --wheel DIR",
            Exit.USAGE,
        )


def _read(
    folder: Path, revision: Revision, progress: Progress
) -> tuple[tuple[PatchFile, ...], Stack]:
    """Return the patches and what the lock says of them, which must agree."""
    base = base_point(revision)
    if not has_series(folder):
        progress.say(f"{revision.name} has no patches yet: this is the release as it is")
        return (), Stack(base, (), base)
    patches, locked = read_series(folder), read_lock(folder)
    check_files(folder, locked, base, patches)
    return patches, locked


def _write_wheels(
    context: Context,
    request: Request,
    revision: Revision,
    ground: Ground,
    stack: Stack,
    progress: Progress,
) -> tuple[Path, ...]:
    if request.wheels is None or ground.wheel is None:
        return ()
    files = patched_files(ground.repository, stack)
    progress.say(f"writing the wheels of {revision.patched_version} and hiqcache")
    dist = resolved(request.wheels)
    return write_wheels(context.root, revision, ground.wheel, files, dist, progress)


def alone(context: Context, progress: Progress) -> AbstractContextManager[None]:
    """Let no second run of the tools work on the same patches, or in the same cache, meanwhile."""
    return claimed(context.revisions_file, context.repository, progress=progress)
