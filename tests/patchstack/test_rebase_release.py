"""A release that ``revisions.toml`` does not pin yet."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest
from rebase_world import LATER, NEXT, RELEASE, RebaseWorld, statuses, text, write_release
from stack_world import NAME, snapshot

from patchstack.base import base_point
from patchstack.errors import Exit, ToolError
from patchstack.release import named_version, pin_release, revision_table
from patchstack.revisions import Revision, load_revisions

WHEEL = "sglang-9.9.10-py3-none-any.whl"
CHANGED = {"sglang/srt/text.txt": text({}, above=3)}


def pinned(world: RebaseWorld, name: str) -> Revision:
    return load_revisions(world.context.revisions_file).get(name)


@pytest.mark.parametrize("onto", ["9.9.10", "v9.9.10"])
def test_a_new_release(moving: RebaseWorld, onto: str) -> None:
    """Its pin is written together with its series, and is what apply then uses."""
    moving.release(CHANGED, pinned=False)
    outcome = moving.rebase("--from", "pin", "--onto", onto)
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{moving.context.series_dir(NEXT)}\n"
    revision = pinned(moving, NEXT)
    digest = hashlib.sha256((moving.index / WHEEL).read_bytes()).hexdigest()
    assert [(wheel.name, wheel.sha256) for wheel in revision.wheels] == [(WHEEL, digest)]
    assert (revision.version, revision.build) == ("9.9.10", 1)
    assert f"{revision.date:%Y-%m-%d %H:%M}" == "2026-10-30 00:00"
    assert load_revisions(moving.context.revisions_file).pin == NAME
    assert (moving.tree_of() / "srt" / "text.txt").read_bytes().startswith(b"above 0\n")
    # The user is told what was trusted.
    for word in (WHEEL, digest, revision.tree, base_point(revision).commit, "was not pinned"):
        assert word in outcome.err


def test_the_pin_is_the_one_that_a_person_would_write(moving: RebaseWorld) -> None:
    """The control: pinned beforehand, by git's own count of the files, it is the same."""
    moving.release(CHANGED, pinned=False)
    moving.move()
    assert pinned(moving, NEXT).tree == moving.tree_id_of(CHANGED)


def test_the_file_keeps_its_form(moving: RebaseWorld) -> None:
    """Newest first, comments and all; what was there does not change."""
    file = moving.context.revisions_file
    file.write_text("# A comment.\n" + file.read_text() + "# The end.\n")
    before = file.read_text()
    moving.release({}, pinned=False)
    moving.release({}, LATER, pinned=False)
    moving.move()
    moving.move(onto=LATER)
    after = file.read_text()
    names = [
        line
        for line in after.splitlines()
        if line.startswith('[revisions."') and line.endswith('"]')
    ]
    assert names == [f'[revisions."{name}"]' for name in (LATER, NEXT, NAME)]
    for name in (LATER, NEXT):
        table = revision_table(pinned(moving, name))
        assert table in after
        after = after.replace(table + "\n", "", 1)
    assert [line for line in after.splitlines() if line] == [
        line for line in before.splitlines() if line
    ]


def test_an_older_release(moving: RebaseWorld) -> None:
    moving.release({}, "v9.9.8", pinned=False)
    moving.move(onto="9.9.8")
    file = moving.context.revisions_file
    assert file.read_text().rstrip().endswith(pinned(moving, "v9.9.8").wheels[0].sha256 + '"')
    assert pinned(moving, NAME).version == "9.9.9"


def test_a_dry_run_pins_nothing(moving: RebaseWorld) -> None:
    moving.release(CHANGED, pinned=False)
    before = snapshot(moving.root)
    report = moving.look("9.9.10")
    assert statuses(report)["text"] == "moved"
    assert report["onto"]["pinned_before"] is False
    assert list(report["onto"]["wheels"]) == [WHEEL]
    assert snapshot(moving.root) == before


def test_a_conflict_pins_nothing_yet(moving: RebaseWorld) -> None:
    """What was found out is kept with the rebase, and is not asked for again."""
    moving.release({"sglang/blocks.txt": b"other\n"}, pinned=False)
    before = snapshot(moving.context.patches)
    moving.move(onto="9.9.10", code=3)
    assert snapshot(moving.context.patches) == before
    (moving.index / WHEEL).unlink()
    report = moving.go_on("--skip", "upstream has no blocks", "--offline")
    assert report["onto"]["pinned_before"] is False
    assert pinned(moving, NEXT).wheels[0].name == WHEEL
    assert moving.apply("--offline", rev=NEXT).code == 0


def test_a_release_that_does_not_exist(moving: RebaseWorld) -> None:
    before = snapshot(moving.root)
    outcome = moving.rebase("--from", NAME, "--onto", "9.9.77")
    moving.refused(outcome, 4, "sglang==9.9.77", "check the network")
    assert snapshot(moving.root) == before


def test_offline(moving: RebaseWorld) -> None:
    """A wheel that is in the cache is enough."""
    moving.release({}, pinned=False)
    outcome = moving.rebase("--from", NAME, "--onto", NEXT, "--offline")
    moving.refused(outcome, 4, "no wheel of 9.9.10 is in the cache", "without --offline")
    (moving.context.wheels / WHEEL).write_bytes((moving.index / WHEEL).read_bytes())
    (moving.index / WHEEL).unlink()
    moving.move("--offline")
    assert pinned(moving, NEXT).wheels[0].name == WHEEL


def test_a_wheel_in_the_cache_that_is_not_the_index_s(moving: RebaseWorld) -> None:
    """It is never used: the index says what the release is."""
    moving.release(CHANGED, pinned=False)
    write_release(moving.context.wheels, "9.9.10", RELEASE)
    moving.move()
    assert pinned(moving, NEXT).tree == moving.tree_id_of(CHANGED)


def test_a_release_that_holds_an_odd_file(moving: RebaseWorld) -> None:
    moving.release({"sglang/.git/config": b"odd\n"}, pinned=False)
    moving.refused(moving.rebase("--from", NAME, "--onto", NEXT), 4, "not an ordinary file")


def test_a_release_that_holds_nothing(moving: RebaseWorld) -> None:
    write_release(moving.index, "9.9.10", {})
    moving.refused(moving.rebase("--from", NAME, "--onto", NEXT), 4, WHEEL, "holds no sglang")


@pytest.mark.parametrize("name", ["", "v", "main", "HEAD~1", "--help", "0.5.24; rm", "0.5.24/.."])
def test_what_is_no_release(name: str) -> None:
    with pytest.raises(ToolError) as caught:
        named_version(name)
    assert caught.value.exit_code == Exit.USAGE


@pytest.mark.parametrize("name", ["0.5.24", "v0.5.24", "0.5.12.post1", "1.0rc1"])
def test_what_is_a_release(name: str) -> None:
    assert named_version(name) == name.removeprefix("v")


def test_a_file_in_an_unusual_form(moving: RebaseWorld, tmp_path: Path) -> None:
    """Where the new table would not mean what it says, the file is left alone."""
    moving.release({}, pinned=False)
    file = moving.context.revisions_file
    table = tomllib.loads(file.read_text())["revisions"][NAME]
    wheels = ", ".join(f'"{name}" = "{digest}"' for name, digest in table["wheels"].items())
    fields = f'version = "9.9.9", date = 2026-10-30T00:00:00Z, build = 1, tree = "{table["tree"]}"'
    unusual = (
        f'pin = "{NAME}"\nrevisions = {{ "{NAME}" = {{ {fields}, wheels = {{ {wheels} }} }} }}\n'
    )
    file.write_text(unusual)
    outcome = moving.rebase("--from", NAME, "--onto", NEXT)
    moving.refused(outcome, 4, "revisions.toml", "add it by hand", '[revisions."v9.9.10"]')
    assert file.read_text() == unusual
    assert not moving.context.series_dir(NEXT).exists()


def test_a_pin_twice(moving: RebaseWorld) -> None:
    moving.release({})
    before = moving.context.revisions_file.read_bytes()
    with pytest.raises(ToolError):
        pin_release(moving.context.revisions_file, pinned(moving, NEXT))
    assert moving.context.revisions_file.read_bytes() == before
