"""``tools/map.py``: the commit of a patch, and the patch of a commit, now and before."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from stack_world import NAME, PYTHON, World, commit, git, message, replace, three_patches

from patchstack.base import base_point
from patchstack.commit_map import LostCommitError, end_of
from patchstack.history import read_history
from patchstack.lock import read_lock
from patchstack.revisions import load_revisions
from patchstack.series import read_series

OTHER = "v9.9.8"
ENGINE = f"{PYTHON}/srt/engine.py"


def add_revision(world: World) -> None:
    """Write a second release, whose series is the first one's under other commit ids."""
    text = world.context.revisions_file.read_text()
    table = text[text.index("[revisions") :]
    table = table.replace("9.9.9", "9.9.8").replace("10-30T", "10-29T")
    world.context.revisions_file.write_text(f"{text}\n{table}")
    folder = world.context.series_dir(OTHER)
    shutil.copytree(world.series, folder)
    lock = (folder / "lock.toml").read_text()
    swapped = re.sub(r'commit = "(.)(.*)"', r'commit = "\2\1"', lock)
    (folder / "lock.toml").write_text(swapped)


@dataclass(frozen=True)
class Rewritten:
    """A world whose last two patches were written again, and its commits before and after."""

    world: World
    old: list[str]
    new: list[str]


def commits(folder: Path) -> list[str]:
    return [patch.commit for patch in read_lock(folder).patches]


@pytest.fixture
def rewritten(world: World) -> Rewritten:
    """Return a world whose second patch was changed and whose third one was dropped."""
    old = commits(world.series)
    tree = world.applied()
    git(tree, "reset", "--hard", "--quiet", "HEAD~2")
    commit(tree, message("odd-files"), {ENGINE: b"def start():\n    return 5\n"})
    world.exported("--reason", "a better way")
    return Rewritten(world, old, commits(world.series))


def test_a_patch_has_a_commit_on_each_release(world: World) -> None:
    add_revision(world)
    for name in ("odd-files", "0002-odd-files.patch", "0007-odd-files.patch"):
        found = world.map("--json", name).json
        assert [(entry["revision"], entry["commit"]) for entry in found] == [
            (NAME, read_lock(world.series).patches[1].commit),
            (OTHER, read_lock(world.context.series_dir(OTHER)).patches[1].commit),
        ]
    one = world.map("--json", f"patches/{OTHER}/0002-odd-files.patch").json
    assert one == found[1:]


def test_a_commit_has_a_patch_a_release_and_a_base(world: World) -> None:
    add_revision(world)
    base = base_point(load_revisions(world.context.revisions_file).get(NAME)).commit
    full = read_lock(world.series).patches[2].commit
    for name in (full, full[:8]):
        assert world.map("--json", name).json == [
            {
                "commit": full,
                "revision": NAME,
                "base": base,
                "slug": "drop-and-more",
                "file": f"patches/{NAME}/0003-drop-and-more.patch",
                "ended": None,
            }
        ]
    line = world.map(full).out
    assert line == (
        f"{full}  {NAME} ({base[:12]})  drop-and-more  patches/{NAME}/0003-drop-and-more.patch\n"
    )
    assert world.map(base).out == f"{base}  {NAME} ({base[:12]})  (the release itself)\n"


def test_the_map_is_what_apply_makes(world: World) -> None:
    """The control of the tests above, which only read files."""
    tree = world.applied()
    for entry in world.map("--json").json:
        title = git(tree, "log", "-1", "--format=%B", entry["commit"])
        if entry["slug"] is not None:
            assert f"HiQ-Patch: {entry['slug']}" in title
        assert git(tree, "merge-base", "refs/hiqcache/base", entry["commit"]) == entry["base"]
    assert len(world.map().out.splitlines()) == 1 + len(read_series(world.series))


def test_an_old_commit_leads_to_the_new_one(rewritten: Rewritten) -> None:
    world, old, new = rewritten.world, rewritten.old, rewritten.new
    (entry,) = world.map("--json", old[1][:10]).json
    assert (entry["commit"], entry["slug"], entry["file"]) == (old[1], "odd-files", None)
    assert (entry["ended"]["now"], entry["ended"]["reason"]) == (new[1], "a better way")
    assert entry["ended"]["head"] == old[2]
    assert f"now {new[1]}: a better way" in world.map(old[1]).out
    assert world.map("--json", new[1]).json[0]["ended"] is None
    (dropped,) = world.map("--json", "drop-and-more").json
    assert (dropped["commit"], dropped["ended"]["now"]) == (old[2], None)
    assert world.map(old[0]).out.endswith("0001-middle-block.patch\n"), "the first is unchanged"


def test_a_chain_of_rewrites_is_followed_to_its_end(rewritten: Rewritten) -> None:
    world = rewritten.world
    tree = world.applied()
    git(tree, "reset", "--hard", "--quiet", "HEAD~1")
    commit(tree, message("odd-files"), {ENGINE: b"def start():\n    return 6\n"})
    world.exported()
    last = commits(world.series)[1]
    for name in (rewritten.old[1], rewritten.new[1]):
        assert world.map("--json", name).json[0]["ended"]["now"] == last


def test_a_series_that_goes_back_is_current_again(rewritten: Rewritten) -> None:
    """The history then leads round; a commit that is current has no past."""
    world, old, new = rewritten.world, rewritten.old, rewritten.new
    tree = world.applied()
    git(tree, "cat-file", "-e", old[2], code=1)  # only the series can give it back
    folder = world.root / "old-tree"
    world.series.rename(world.root / "aside")
    world.applied("--target", str(folder))
    three_patches(folder)
    (world.root / "aside").rename(world.series)
    world.exported("--tree", str(folder))
    assert commits(world.series) == old
    assert world.map("--json", old[1]).json[0]["ended"] is None
    assert world.map("--json", new[1]).json[0]["ended"]["now"] == old[1]


def test_unknown_and_short_names(world: World) -> None:
    known = read_lock(world.series).patches[0].commit
    for name in ("no-such-patch", "0" * 40, "0001-no.patch", known[:3], known + "0", ""):
        line = world.refused(world.map(name), 2, repr(name), "middle-block, odd-files")
        assert "no patch, and no commit" in line
    lock = world.series / "lock.toml"
    other = known[:6] + known[6:][::-1]
    lock.write_text(lock.read_text().replace(read_lock(world.series).patches[1].commit, other))
    world.refused(world.map(known[:6]), 2, "is short for", known, other, "give more of it")
    assert world.map("--json", known).json[0]["slug"] == "middle-block"


def test_a_history_that_leads_nowhere(rewritten: Rewritten) -> None:
    world = rewritten.world
    replace(world.context.history_file, rewritten.new[1], "1" * 40)
    line = world.refused(world.map(), 4, "history.toml", "which no series has", "tools/check.py")
    assert rewritten.old[1] in line


def test_a_release_that_is_given_up_keeps_its_past(rewritten: Rewritten) -> None:
    world = rewritten.world
    text = world.context.history_file.read_text()
    world.context.history_file.write_text(text.replace(NAME, "v9.9.7"))
    (entry,) = world.map("--json", rewritten.old[1]).json
    assert (entry["revision"], entry["ended"]["now"]) == ("v9.9.7", None)


def test_a_history_that_goes_in_a_circle(rewritten: Rewritten) -> None:
    rewrites = read_history(rewritten.world.context.history_file)
    old, new = rewritten.old[1], rewritten.new[1]
    assert end_of(rewrites, NAME, old, {new}) == new
    assert end_of(rewrites, NAME, rewritten.old[2], set()) is None
    with pytest.raises(LostCommitError, match="no series has"):
        end_of(rewrites, NAME, old, set())
    text = rewritten.world.context.history_file.read_text()
    again = text[text.index("[[rewrites]]") :]
    again = again.replace(old, "x").replace(new, old).replace("x", new)
    with rewritten.world.context.history_file.open("a") as file:
        file.write(again)
    circle = read_history(rewritten.world.context.history_file)
    with pytest.raises(LostCommitError, match="leads back"):
        end_of(circle, NAME, old, set())


def test_nothing_is_fetched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(world.context.cache)
    monkeypatch.setenv("PATH", "/nowhere")
    assert world.map("odd-files").code == 0
