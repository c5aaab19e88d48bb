"""The revision, packages and machine behind a run."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from patchstack.context import Context
from serving.environment import this_environment


def provenance() -> dict[str, Any]:
    """Return what tells one run's code and machine from another's."""
    context = Context.default()
    return {
        **_checkout(context.root),
        **_series(context),
        **asdict(this_environment()),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "machine": platform.machine(),
    }


def _checkout(root: Path) -> dict[str, Any]:
    """Which commit of this project it is, and whether files differ from it."""
    import git

    with suppress(git.InvalidGitRepositoryError):  # an archive without its history
        repository = git.Repo(root)
        return {
            "commit": repository.head.commit.hexsha,
            "changed": repository.is_dirty(untracked_files=False),
        }
    return {"commit": None, "changed": None}


def _series(context: Context) -> dict[str, Any]:
    """The pinned release's wheel for this interpreter, and what the patches make of it."""
    from packaging.tags import sys_tags

    from patchstack.lock import read_lock
    from patchstack.revisions import load_revisions

    revisions = load_revisions(context.revisions_file)
    revision = revisions.get(revisions.pin)
    here = frozenset(sys_tags())
    wheels = {wheel.name: wheel.sha256 for wheel in revision.wheels if wheel.tags & here}
    head = read_lock(context.series_dir(revision.name)).head
    return {"revision": revision.name, "patched_tree": head.tree, "wheels": wheels}
