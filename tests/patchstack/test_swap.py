"""A folder is replaced whole or not at all, and what a killed run left is put right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from stack_world import snapshot

from patchstack.report import Progress
from patchstack.swap import claimed, replace_file, replace_folder


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


# --- what a killed run leaves ------------------------------------------------------------------


def left(place: Path, *names: str) -> Path:
    """Leave beside ``place`` what a run that was killed there leaves."""
    folder = place.parent / f".{place.name}.hiqcache-abcd1234"
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text(f"{name}\n")
    return folder


def test_killed_between_the_renames_the_old_folder_comes_back(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    folder = left(place, "new")
    place.rename(folder / "old")
    with claimed(place, progress=Progress()):
        assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert list(place.parent.iterdir()) == [place]
    assert f"brought {place} back" in capsys.readouterr().err


@pytest.mark.parametrize("names", [(), ("new",), ("new", "old"), ("old",), ("gone",)], ids=str)
def test_killed_before_or_after_them_the_folder_stays(place: Path, names: tuple[str, ...]) -> None:
    before = snapshot(place)
    left(place, *names).mkdir(exist_ok=True)
    with claimed(place, progress=Progress()):
        assert snapshot(place) == before
    assert list(place.parent.iterdir()) == [place]


def test_a_folder_half_removed_does_not_come_back(place: Path) -> None:
    shutil.rmtree(place)
    left(place, "gone")
    with claimed(place, progress=Progress()):
        assert not place.exists()


def test_what_is_not_ours_stays(place: Path) -> None:
    parent = place.parent
    for name in (
        ".place",
        ".place.swp",
        ".place.abcd1234",
        ".place.hiqcache-",
        "place.hiqcache-ab",
    ):
        (parent / name).mkdir()
    (parent / ".place.hiqcache-abcd1234").write_text("a file\n")
    (parent / ".place.hiqcache-abcd5678").symlink_to(place)
    before = snapshot(parent)
    with claimed(place, progress=Progress()):
        pass
    assert snapshot(parent) == before


def test_a_file_is_replaced_and_its_leavings_are_removed(tmp_path: Path) -> None:
    place = tmp_path / "file"
    left(place, "new")
    with claimed(place, progress=Progress()):
        replace_file(place, b"one\n")
        replace_file(place, b"two\n")
    assert place.read_bytes() == b"two\n"
    assert list(tmp_path.iterdir()) == [place]


def test_a_claim_of_nothing_leaves_nothing(tmp_path: Path) -> None:
    with claimed(tmp_path / "a" / "b" / "c", progress=Progress()):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_claim_in_a_claim_does_not_wait_for_itself(place: Path) -> None:
    other = place.parent / "other"
    same = place / ".." / "place"
    with claimed(place, progress=Progress()), claimed(other, same, progress=Progress()):
        replace_folder(other, fill_well)
    assert (other / "new").exists()
