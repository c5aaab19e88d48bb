"""SIGKILL at every step: the next run heals, and nothing of the user's is ever half written.

Complaint row 35.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from script_world import no_leavings
from stack_world import (
    NAME,
    PYTHON,
    World,
    copy_tree,
    git,
    series_files,
    snapshot,
)
from stopping import each_kill, killed_at
from upstream_world import Upstream

from patchstack.context import Context


def put_back(saved: Path, place: Path) -> None:
    """Make ``place`` what was saved, exactly."""
    shutil.rmtree(place, ignore_errors=True)
    copy_tree(saved, place)


def files_of(tree: Path) -> dict[str, bytes]:
    """Return the files of a tree."""
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for path in sorted(tree.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


def whole(target: Path, *allowed: dict[str, bytes]) -> None:
    """Assert that a place holds one of the allowed trees, or that one waits beside it."""
    if target.exists():
        assert files_of(target) in allowed
    else:
        for old in target.parent.glob(f".{target.name}.hiqcache-*/old"):
            assert files_of(old) in allowed


@pytest.mark.slow
def test_apply_over_an_older_tree(world: World, tmp_path: Path) -> None:
    tree = world.applied()
    new, head = files_of(tree), git(tree, "rev-parse", "HEAD")
    git(tree, "checkout", "--quiet", "--detach", "HEAD~1")
    git(tree, "update-ref", "refs/hiqcache/head", "HEAD")
    old, series = files_of(tree), snapshot(world.context.patches)
    saved = tmp_path / "saved"
    shutil.copytree(tree, saved, symlinks=True)
    windows = 0
    for _ in each_kill(tmp_path, world.apply, lambda: put_back(saved, tree)):
        assert snapshot(world.context.patches) == series
        whole(tree, old, new)
        windows += not tree.exists()
        outcome = world.apply()
        assert outcome.code == 0, outcome.err
        assert files_of(tree) == new
        assert git(tree, "rev-parse", "HEAD") == head
        assert git(tree, "status", "--porcelain") == ""
        no_leavings(world)
    assert windows > 0, "never killed between the two renames"


@pytest.mark.slow
def test_apply_with_nothing_there(fresh: World, patched_template: object, tmp_path: Path) -> None:
    """From the index to the tree, with an empty cache each time."""
    copy_tree(patched_template.folder / "project", fresh.root)  # type: ignore[attr-defined]
    series = snapshot(fresh.context.patches)

    def nothing() -> None:
        shutil.rmtree(fresh.root / "build", ignore_errors=True)
        shutil.rmtree(fresh.context.cache, ignore_errors=True)

    for _ in each_kill(tmp_path, fresh.apply, nothing):
        assert snapshot(fresh.context.patches) == series
        if fresh.target.exists():
            assert git(fresh.target, "status", "--porcelain") == "", "never seen half done"
        outcome = fresh.apply()
        assert outcome.code == 0, outcome.err
        assert git(fresh.target, "rev-list", "--count", "HEAD") == "4"
        no_leavings(fresh)


@pytest.mark.slow
def test_export(world: World, tmp_path: Path) -> None:
    tree = world.applied()
    (tree / PYTHON / "srt/engine.py").write_bytes(b"amended\n")
    git(tree, "commit", "--quiet", "--all", "--amend", "--no-edit")
    saved, mine = tmp_path / "saved", snapshot(tree)
    shutil.copytree(world.context.patches, saved)
    old = series_files(world.series)
    new = world.exported()
    windows = 0
    for _ in each_kill(tmp_path, world.export, lambda: put_back(saved, world.context.patches)):
        whole(world.series, old, new)
        windows += not world.series.exists()
        assert snapshot(tree) == mine
        assert world.exported() == new
        no_leavings(world)
        history = (world.context.patches / "history.toml").read_text()
        assert history.count("[[rewrites]]") == 1
    assert windows > 0, "never killed between the two renames"


@pytest.mark.slow
def test_apply_from_a_tag_and_record_it(world: World, reachable: Upstream, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    shutil.copytree(world.context.patches, saved)
    before = series_files(world.series)

    def work() -> None:
        world.apply("--source", "git", "--record")

    def nothing() -> None:
        shutil.rmtree(world.root / "build", ignore_errors=True)
        shutil.rmtree(world.context.cache, ignore_errors=True)
        put_back(saved, world.context.patches)

    for _ in each_kill(tmp_path, work, nothing):
        if world.series.exists():
            found = series_files(world.series)
            assert {name for name in found if found[name] != before[name]} <= {"lock.toml"}
        outcome = world.apply("--source", "git", "--record")
        assert outcome.code == 0, outcome.err
        assert git(world.target, "rev-list", "--count", "HEAD") == "4"
        assert reachable.tagged in (world.series / "lock.toml").read_text()
        no_leavings(world)


def test_between_the_renames_another_tool_brings_it_back(world: World, tmp_path: Path) -> None:
    """The old tree is there again for whichever tool runs next, not for apply alone."""
    tree = world.applied()
    old = files_of(tree)
    git(tree, "update-ref", "refs/hiqcache/head", "HEAD~1")
    git(tree, "checkout", "--quiet", "--detach", "HEAD~1")
    git(tree, "checkout", "--quiet", "--detach", "HEAD@{1}")
    git(tree, "update-ref", "refs/hiqcache/head", "HEAD")
    aside = tree.parent / f".{NAME}.hiqcache-abcd1234"
    aside.mkdir()
    tree.rename(aside / "old")
    outcome = world.export()
    assert outcome.code == 0, outcome.err
    assert f"brought {tree} back" in outcome.err
    assert files_of(tree) == old
    no_leavings(world)


def test_a_user_sees_the_series_come_back(world: World) -> None:
    before = series_files(world.series)
    aside = world.series.parent / f".{NAME}.hiqcache-abcd1234"
    aside.mkdir()
    world.series.rename(aside / "old")
    outcome = world.apply()
    assert outcome.code == 0, outcome.err
    assert f"brought {world.series} back" in outcome.err
    assert series_files(world.series) == before
    assert "no patches yet" not in outcome.err


@pytest.mark.parametrize(
    "name",
    ["refs/hiqcache/base/v9.9.9.lock", "refs/hiqcache/import.lock", "HEAD.lock", "config.lock",
     "objects/pack/tmp_pack_abc123", "objects/12/tmp_obj_abc123"],
)  # fmt: skip
def test_what_a_killed_git_left_in_the_cache(world: World, name: str) -> None:
    """Git refuses its own stale locks; in the cache, which we hold, nobody else's can be there."""
    store = world.context.repository
    git(store, "update-ref", "-d", f"refs/hiqcache/base/{NAME}")  # so that it is written again
    (store / name).parent.mkdir(exist_ok=True, parents=True)
    (store / name).write_bytes(b"")
    outcome = world.apply()
    assert outcome.code == 0, outcome.err
    assert not (store / name).exists()


def test_a_lock_in_the_users_tree_stays(world: World) -> None:
    """The control of the test above (complaint row 27: never delete a lock of somebody's)."""
    lock = world.applied() / ".git" / "index.lock"
    lock.write_bytes(b"")
    world.refused(world.apply(), 3, "index.lock (unfinished)")
    assert lock.exists()


def test_the_kills_are_real(world: World, tmp_path: Path) -> None:
    """The control: a step that does not exist kills nothing, and the first one kills early."""
    assert not killed_at(10**6, tmp_path, world.apply)
    assert world.target.exists()
    shutil.rmtree(world.target)
    assert killed_at(0, tmp_path, world.apply)
    assert not world.target.exists()


def test_contexts_share_nothing_but_what_they_name(world: World, tmp_path: Path) -> None:
    """Two checkouts with one cache: a killed run of one does not hold up the other."""
    other = tmp_path / "other"
    copy_tree(world.root, other)
    context = Context(other, other / "patches", world.context.cache)
    neighbour = World(other, world.index, context, world.capture, world.before_each_run)
    assert killed_at(20, tmp_path, world.apply)
    assert neighbour.apply().code == 0
