"""The real release, from the real index: the pins hold on every platform."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from stack_world import git, series_files

from patchstack.applying import Request, apply_revision
from patchstack.base import base_point, has_base, import_base, open_store
from patchstack.context import ROOT, Context
from patchstack.exporting import export_revision
from patchstack.lock import read_lock
from patchstack.report import Progress
from patchstack.revisions import Revision, load_revisions
from patchstack.upstream import fetch_wheel, fitting_wheel

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("isolated")]
PROGRESS = Progress(quiet=True)


@pytest.fixture(scope="session")
def pinned() -> Revision:
    revisions = load_revisions(ROOT / "patches" / "revisions.toml")
    return revisions.get("pin")


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """Return the project with a cache of this session."""
    return Context(ROOT, ROOT / "patches", tmp_path_factory.mktemp("cache"))


def test_every_platform_has_the_pinned_tree(
    context: Context, pinned: Revision, tmp_path: Path
) -> None:
    """Two wheels that share neither interpreter nor processor make the same base commit."""
    for wheel in (pinned.wheels[0], pinned.wheels[-1]):
        file = fetch_wheel(context, pinned, wheel, offline=False, progress=PROGRESS)
        store = open_store(tmp_path / f"{wheel.name}.git")
        assert not has_base(store, pinned)
        import_base(store, pinned, file)  # refuses another tree
        assert has_base(store, pinned)
    assert pinned.wheels[0].tags.isdisjoint(pinned.wheels[-1].tags)


def test_the_pin_applies(context: Context, pinned: Revision, tmp_path: Path) -> None:
    request = Request("pin", target=tmp_path / "tree")
    result = apply_revision(context, request, PROGRESS)
    assert result.stack.base == base_point(pinned)
    assert git(tmp_path / "tree", "status", "--porcelain") == ""
    assert git(tmp_path / "tree", "rev-parse", "HEAD") == result.stack.head.commit
    assert (tmp_path / "tree" / "python" / "sglang" / "srt").is_dir()
    again = apply_revision(context, Request("pin", tmp_path / "tree", offline=True), PROGRESS)
    assert again == result


def test_the_series_is_in_the_exported_form(
    context: Context, pinned: Revision, tmp_path: Path
) -> None:
    """Exporting what the series makes gives the series, byte for byte."""
    apply_revision(context, Request("pin", target=tmp_path / "tree"), PROGRESS)
    patches = tmp_path / "patches"
    patches.mkdir()
    shutil.copy(context.revisions_file, patches)
    other = Context(ROOT, patches, context.cache)
    folder = export_revision(other, "pin", tmp_path / "tree", PROGRESS)
    assert series_files(folder) == series_files(context.series_dir(pinned.name))


def test_the_wheel_for_this_interpreter(context: Context, pinned: Revision) -> None:
    wheel = fitting_wheel(pinned)
    if wheel is None:
        pytest.skip("no wheel of the pin fits this interpreter")
    assert fetch_wheel(context, pinned, wheel, offline=False, progress=PROGRESS).is_file()


def test_a_converting_clone_applies_every_revision(context: Context, tmp_path: Path) -> None:
    """What a user whose git converts line ends gets from a clone of this project."""
    if not (ROOT / ".git").exists():
        pytest.skip("the project is not a repository here")
    options = ("--config", "core.autocrlf=true", "--config", "core.eol=crlf")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run(
        ["git", "clone", "--quiet", *options, str(ROOT), str(tmp_path / "clone")],
        env={**clean, "GIT_CONFIG_GLOBAL": os.devnull}, check=True,
    )  # fmt: skip
    assert b"\r\n" in (tmp_path / "clone" / "README.md").read_bytes(), "the clone does convert"
    there = Context(tmp_path / "clone", tmp_path / "clone" / "patches", context.cache)
    for revision in load_revisions(there.revisions_file).supported:
        request = Request(revision.name, tmp_path / revision.name)
        result = apply_revision(there, request, PROGRESS)
        assert result.ground.exact
        assert result.stack == read_lock(context.series_dir(revision.name))
