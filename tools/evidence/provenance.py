"""The revision, packages and machine behind a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from serving.environment import this_environment

#: What two runs that are compared have in common. A commit may differ in what it says elsewhere.
_CODE = ("patched_tree", "sglang", "library", "torch", "device", "processor")


def same_code(found: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what has to be equal for two runs to be of one measurement."""
    return tuple(found.get(name) for name in _CODE)


def provenance() -> dict[str, Any]:
    """Return what tells one run's code and machine from another's.

    Raises
    ------
    ToolError
        If what is installed is not the pinned release, patched.
    """
    context = Context.default()
    return {
        **_checkout(context.root),
        **_series(context),
        "library": _library(),
        **asdict(this_environment()),
        **_device(),
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


def _library() -> str:
    """A digest of the installed runtime library's code."""
    import hiqcache

    root = Path(hiqcache.__file__).parent
    digest = sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _series(context: Context) -> dict[str, Any]:
    """The pinned release's wheel for this interpreter, and what the patches make of it."""
    from packaging.tags import sys_tags

    from patchstack.lock import read_lock
    from patchstack.revisions import load_revisions

    revisions = load_revisions(context.revisions_file)
    revision = revisions.get(revisions.pin)
    if (installed := version("sglang")) != revision.patched_version:
        raise ToolError(
            f"SGLang {installed} is installed, not {revision.patched_version}",
            "run tox -e reproduce, or install the wheels of tools/apply.py --rev pin --wheel",
            Exit.USAGE,
        )
    here = frozenset(sys_tags())
    wheels = {wheel.name: wheel.sha256 for wheel in revision.wheels if wheel.tags & here}
    head = read_lock(context.series_dir(revision.name)).head
    return {"revision": revision.name, "patched_tree": head.tree, "wheels": wheels}


def _device() -> dict[str, Any]:
    """What serves: a GPU with its driver, or the CPU."""
    from machine.devices import read_torch
    from machine.driver import read_driver

    torch, driver = read_torch(), read_driver()
    names = ", ".join(device.name for device in torch.devices)
    return {"device": names or "cpu", "cuda": torch.cuda, "driver": driver and driver.version}
