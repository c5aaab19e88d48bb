"""A project of two small releases that breaks no rule of ``tools/check.py``.

Everything in it comes from the tools: the series from export, the documents from write_docs.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import apply
import export
import pytest
import write_docs
from stack_world import (
    DIST_INFO,
    PYTHON,
    SOURCES,
    commit,
    message,
    tree_id,
    write_project,
    write_wheel,
)

from patchstack.context import Context
from patchstack.documents import BEGIN, END

OLD, NEW = "v9.9.8", "v9.9.9"
# From one release to the next a line comes in above the patched one.
RELEASES = {
    OLD: {**SOURCES},
    NEW: {**SOURCES, "sglang/srt/engine.py": b"import os\n\n\ndef start():\n    return 1\n"},
}
ENGINE, EXTRA = f"{PYTHON}/srt/engine.py", f"{PYTHON}/srt/extra.py"
SEAM = """\
[[hooks]]
patch = "edit-engine"
file = "srt/engine.py"
symbol = "start"
line = "return 1"
use = "edited"

[[hooks]]
patch = "add-extra"
file = "srt/engine.py"
symbol = "start"
use = "called"

[[hooks]]
patch = "add-extra"
file = "srt/no_such_file.py"
symbol = "start"
use = "not in this release"
"""
TOX = """\
[tox]
env_list = unit, integration-v9_9_8

[testenv]
commands = python -c ''

[testenv:integration-v{9_9_8,9_9_9}]
"""


def series(tree: Path, release: str) -> None:
    """Commit two patches on top of a release: an edit, and a new file with another edit."""
    source = RELEASES[release]["sglang/srt/engine.py"].replace(b"return 1", b"return 2")
    commit(tree, message("edit-engine"), {ENGINE: source}, when=1)
    extra = f"RELEASE = {release!r}\n\n\ndef more():\n    return 3\n".encode()
    changed = source + b"\n\nfrom sglang.srt.extra import more  # noqa: E402, F401\n"
    commit(tree, message("add-extra"), {EXTRA: extra, ENGINE: changed}, when=2)


def dist_info(release: str) -> dict[str, bytes]:
    """Return the metadata files of a release."""
    old, new = b"9.9.9", release[1:].encode()
    return {
        name.replace("9.9.9", release[1:]): content.replace(old, new)
        for name, content in DIST_INFO.items()
    }


def write_release(folder: Path, release: str, sources: dict[str, bytes]) -> str:
    """Put the wheel of a release on the index and return its table of ``revisions.toml``."""
    version = release[1:]
    path = folder / "index" / f"sglang-{version}-py3-none-any.whl"
    wheel = write_wheel(path, {**sources, **dist_info(release)}, version)
    place = folder / f"tree-of-{release}"
    place.mkdir()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return (
        f'[revisions."{release}"]\nversion = "{version}"\ndate = 2026-10-30T00:00:00Z\n'
        f'build = 1\ntree = "{tree_id(place, sources)}"\n'
        f'[revisions."{release}".wheels]\n"{wheel.name}" = "{digest}"\n'
    )


def write_clean_project(folder: Path) -> None:
    """Write the index, the project and a cache that holds both releases into ``folder``."""
    root = folder / "project"
    (folder / "index").mkdir()
    write_project(root)
    (root / "patches").mkdir()
    tables = "\n".join(write_release(folder, *release) for release in RELEASES.items())
    refused = '[refused]\n"v9.9.7" = "its engine cannot start"\n'
    text = f'pin = "{NEW}"\n\n{refused}\n{tables}'
    (root / "patches" / "revisions.toml").write_text(text)
    (root / "patches" / "seam.toml").write_text(SEAM)
    (root / "tox.ini").write_text(TOX)
    (root / "docs").mkdir()
    (root / "docs" / "patches.md").write_text(f"# Patches\n\n{BEGIN}\n{END}\n\nThe end.\n")
    context = Context(root, root / "patches", folder / "cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder / "index"))
        for release in RELEASES:
            tree = folder / release
            assert apply.main(["--rev", release, "--target", str(tree)], context) == 0
            series(tree, release)
            assert export.main(["--rev", release, "--tree", str(tree)], context) == 0
        assert write_docs.main(["--offline"], context) == 0
