"""Wheels, places and commits that are meant to do harm, or do it by mistake."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from stack_world import NAME, PYTHON, WHEEL, World, commit, git, message, snapshot


def rewritten(world: World, name: str, content: bytes, compression: int = 0) -> Path:
    """Return a copy of the release's wheel with one member more."""
    copy = world.root / "hostile" / WHEEL
    copy.parent.mkdir()
    shutil.copy(world.index / WHEEL, copy)
    with zipfile.ZipFile(copy, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), content, compression)
    return copy


@pytest.mark.parametrize("name", ["../../evil.py", "/abs/evil.py", "sglang/srt/../../evil.py"])
def test_a_member_that_would_be_installed_elsewhere_is_refused(world: World, name: str) -> None:
    wheel = rewritten(world, name, b"evil")
    before = snapshot(world.context.patches)
    outcome = world.apply("--source", str(wheel), "--wheel")
    assert outcome.code == 4 and outcome.err.splitlines()[-1].count("evil.py") == 1
    assert not list(world.context.dist.glob("*.whl"))
    assert snapshot(world.context.patches) == before


def test_a_wheel_that_unpacks_without_end_is_refused(world: World, monkeypatch) -> None:
    monkeypatch.setattr("patchstack.base._LARGEST_RELEASE", 1 << 20)
    wheel = rewritten(world, "sglang/zeros.bin", bytes(1 << 21), zipfile.ZIP_DEFLATED)
    world.refused(world.apply("--source", str(wheel)), 4, "unpacks to more than any release")


def test_a_wheel_with_damaged_content_is_refused(world: World) -> None:
    wheel = rewritten(world, "sglang/packed.py", os.urandom(4096) * 4, zipfile.ZIP_DEFLATED)
    data = bytearray(wheel.read_bytes())
    with zipfile.ZipFile(wheel) as archive:
        start = archive.getinfo("sglang/packed.py").header_offset
    data[start + 60 : start + 400] = bytes(340)
    wheel.write_bytes(data)
    world.refused(world.apply("--source", str(wheel)), 4, "is damaged")


@pytest.mark.parametrize("place", [".", "dist"])
def test_wheels_inside_the_tree_that_is_replaced_are_refused(world: World, place: str) -> None:
    wheels = world.target / place
    world.refused(world.apply("--wheel", str(wheels)), 2, "--wheel")
    assert not world.target.exists()


def test_a_missing_series_does_not_replace_a_patched_tree(world: World) -> None:
    world.applied()
    before = snapshot(world.target)
    shutil.move(world.series, world.root / "gone")
    world.refused(world.apply(), 4, f"patches/{NAME} is missing", "git checkout")
    assert snapshot(world.target) == before


def test_a_nested_repository_is_refused_by_export(world: World) -> None:
    tree = world.applied()
    inner = tree / PYTHON / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    commit(inner, "inner", {"file.py": b"1\n"})
    commit(tree, message("nested"), {})
    before = snapshot(world.context.patches)
    world.refused(world.export(), 1, "adds a repository", "inner")
    assert snapshot(world.context.patches) == before
