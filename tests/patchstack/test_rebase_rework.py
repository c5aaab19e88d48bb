"""What a user does to a patch beyond its conflicts: recorded whole, and done again for the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from rebase_world import FILES, LATER, NEXT, RebaseWorld, details, statuses, text
from stack_world import NAME, PYTHON, git, series_files

TEXT = f"{PYTHON}/srt/text.txt"
ARGS = f"{PYTHON}/srt/args.py"
NEW = f"{PYTHON}/srt/new.py"
UPSTREAM = {"sglang/srt/text.txt": text({30: "line 30, upstream\n", 50: "line 50, upstream\n"})}
BOTH = text({30: "line 30, both\n", 50: "line 50, upstream\n"})
BEYOND = text({1: "line 1, by hand\n", 30: "line 30, both\n", 50: "line 50, upstream\n"})
START = ("--from", NAME, "--onto", NEXT)
EDIT = ("--edit", "text")
RECORDED = f"text-{NAME}-{NEXT}.patch"


@pytest.fixture
def stopped(moving: RebaseWorld) -> RebaseWorld:
    """Return a world in which the third patch is in conflict."""
    moving.release(UPSTREAM)
    moving.refused(moving.rebase(*START), 3, FILES[2])
    return moving


def recorded(world: RebaseWorld) -> list[str]:
    return sorted(path.name for path in world.context.resolutions.glob("*"))


def moved_again(world: RebaseWorld) -> dict[str, bytes]:
    """Move the series once more, which must go by itself, and return what became of it."""
    before = world.moved()
    report = world.move("--replace")
    assert RECORDED in details(report, "text")
    assert world.moved() == before
    return series_files(world.context.resolutions)


@pytest.mark.parametrize(
    "files",
    [
        {TEXT: BEYOND},
        {TEXT: BOTH, ARGS: b"OPTIONS = []\n"},
        {TEXT: text({30: "latin é\n"}).replace(b"\xc3\xa9", b"\xe9")},
        {TEXT: None},
    ],
    ids=["beyond the conflict", "another file", "not text", "deleted"],
)
def test_more_than_the_conflict(stopped: RebaseWorld, files: dict[str, bytes | None]) -> None:
    stopped.resolve(files)
    report = stopped.go_on("--continue")
    assert details(report, "text").startswith(f"conflict in {TEXT}; by hand, and recorded")
    kept = series_files(stopped.context.resolutions)
    assert list(kept) == [RECORDED]
    assert moved_again(stopped) == kept
    stopped.move("--replace", "--no-resolutions", code=3)


def test_a_conflict_about_a_whole_file(moving: RebaseWorld) -> None:
    """Upstream deleted what the patch changes, and the user takes that."""
    moving.release({"sglang/srt/text.txt": None})
    moving.move(code=3)
    moving.resolve({TEXT: None})
    moving.go_on("--continue")
    assert recorded(moving) == [RECORDED]
    moved_again(moving)


def test_a_patch_that_merges_and_has_to_change(moving: RebaseWorld) -> None:
    moving.release()
    outcome = moving.rebase(*START, *EDIT)
    moving.refused(outcome, 3, FILES[2], "merges, but you want to edit it", "--continue")
    moving.resolve({NEW: b"NEW = 2\n"})
    report = moving.go_on("--continue")
    assert statuses(report)["text"] == "changed"
    assert details(report, "text") == "by hand, and recorded"
    assert (moving.tree_of() / "srt" / "new.py").read_bytes() == b"NEW = 2\n"
    moved_again(moving)


def test_a_patch_that_needs_no_change(moving: RebaseWorld) -> None:
    """The control of the test above: there is nothing to record."""
    moving.release()
    moving.move(*EDIT, code=3)
    report = moving.go_on("--continue")
    assert statuses(report)["text"] == "unchanged"
    assert details(report, "text") == "taken as it merged"
    assert recorded(moving) == []


def test_each_named_patch_stops(moving: RebaseWorld) -> None:
    moving.release()
    moving.move("--edit", "flag", *EDIT, code=3)
    assert moving.waiting.name == "0001-flag"
    moving.go_on("--continue", code=3)
    assert moving.waiting.name == "0003-text"
    moving.go_on("--continue")
    assert list(moving.moved())[:3] == list(FILES)


def test_a_patch_that_there_is_not(moving: RebaseWorld) -> None:
    moving.release()
    line = moving.refused(moving.rebase(*START, "--edit", "texts"), 2, "--edit texts", NAME)
    assert "flag, block, text" in line


def test_an_earlier_merge_is_another(moving: RebaseWorld) -> None:
    """What was done to another merge is not done; and the user hears that there was something."""
    test_a_patch_that_merges_and_has_to_change(moving)
    change_new_file(moving)
    report = moving.look(code=1)
    (check,) = (check for check in report["patches"][2]["checks"] if check["name"] == "recorded")
    assert check["detail"] == f"{RECORDED} was for another merge"
    line = moving.refused(moving.rebase(*START, "--replace"), 3, FILES[2], RECORDED)
    assert "was for another merge" in line
    moving.resolve({NEW: b"NEW = 3\n"})
    moving.go_on("--continue")
    assert b"+NEW = 3" in series_files(moving.context.resolutions)[RECORDED]
    moved_again(moving)


def test_another_release_may_need_another_change(moving: RebaseWorld) -> None:
    """Though the merge gives the same file there."""
    test_a_patch_that_merges_and_has_to_change(moving)
    moving.release({}, LATER)
    assert statuses(moving.move(onto=LATER))["text"] == "unchanged"


def change_new_file(world: RebaseWorld) -> None:
    """Let the series on the old release add its file with another content."""
    tree: Path = world.applied_revision(NAME)
    (tree / NEW).write_bytes(b"NEW = None\n")
    git(tree, "commit", "--quiet", "--all", "--amend", "--no-edit")
    assert world.export().code == 0
