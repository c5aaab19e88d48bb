"""A folder is replaced whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from stack_world import snapshot

from patchstack.swap import replace_folder


def fill_well(path: Path) -> None:
    path.mkdir()
    (path / "new").write_text("new\n")


def fill_and_fail(path: Path) -> None:
    fill_well(path)
    raise OSError("the disk is full")


def fill_nothing(path: Path) -> None:
    """Leave nothing to rename, so that the last step fails after the old folder moved."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "parent" / "place"
    folder.mkdir(parents=True)
    (folder / "old").write_text("old\n")
    return folder


def test_the_new_folder_takes_the_place(place: Path) -> None:
    replace_folder(place, fill_well)
    assert [path.name for path in place.iterdir()] == ["new"]
    assert list(place.parent.iterdir()) == [place]


def test_parents_are_made(tmp_path: Path) -> None:
    replace_folder(tmp_path / "a" / "b", fill_well)
    assert (tmp_path / "a" / "b" / "new").read_text() == "new\n"


@pytest.mark.parametrize("fill", [fill_and_fail, fill_nothing])
def test_a_failure_leaves_the_old_folder(place: Path, fill: object) -> None:
    before = snapshot(place)
    with pytest.raises(OSError):
        replace_folder(place, fill)  # type: ignore[arg-type]
    assert snapshot(place) == before
    assert list(place.parent.iterdir()) == [place], "a temporary folder was left"
