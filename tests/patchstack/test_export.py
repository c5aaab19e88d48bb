"""``tools/export.py``: the same bytes for everyone, and nothing that mail would lose."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from stack_world import (
    NAME,
    PYTHON,
    World,
    commit,
    git,
    message,
    replace,
    series_files,
    snapshot,
    three_patches,
)

CHANGE: dict[str, bytes | None] = {f"{PYTHON}/srt/engine.py": b"def start():\n    return 3\n"}


def export_refused(world: World, code: int, *words: str) -> str:
    """Assert that export refuses and leaves the project and the tree as they were."""
    before = snapshot(world.root)
    line = world.refused(world.export(), code, *words)
    assert snapshot(world.root) == before, "something was left half done"
    return line


def test_the_first_series(fresh: World) -> None:
    tree = fresh.applied()
    three_patches(tree)
    outcome = fresh.export()
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{fresh.series}\n"
    assert f"3 patches written to patches/{NAME}" in outcome.err
    assert list(series_files(fresh.series)) == [
        "0001-middle-block.patch",
        "0002-odd-files.patch",
        "0003-drop-and-more.patch",
        "lock.toml",
        "series",
    ]


def test_the_form_of_a_patch(world: World) -> None:
    data = (world.series / "0002-odd-files.patch").read_bytes()
    head = data.split(b"\n")[:4]
    assert head[0] == b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001"
    assert head[2].startswith(b"Date: ") and head[2].endswith(b" +0330")
    assert b"Subject: =?UTF-8?q?[a]=20[b]=20Accents" in data
    assert data.endswith(b"\n") and not data.endswith(b"\n\n\n")
    for trace in (b"[PATCH", b"\n-- \n", b"2.", b" | ", b"rename from", b"ODD", b"X-Odd"):
        assert trace not in data.split(b"diff --git")[0]


def test_the_lock_says_what_git_says(world: World) -> None:
    tree = world.applied()
    lock = tomllib.loads((world.series / "lock.toml").read_text())
    commits = git(tree, "rev-list", "--reverse", "HEAD").splitlines()
    trees = [git(tree, "rev-parse", f"{commit}^{{tree}}") for commit in commits]
    assert lock["base"] == {"commit": commits[0], "tree": trees[0]}
    assert [(p["commit"], p["tree"]) for p in lock["patches"]] == list(
        zip(commits[1:], trees[1:], strict=True)
    )
    assert lock["head"] == {"commit": commits[-1], "tree": trees[-1]}
    ids = git(tree, "format-patch", "--stdout", "-1", commits[1])
    assert "changed" in ids
    assert len({patch["patch_id"] for patch in lock["patches"]}) == 3


def test_round_trip_gives_identical_bytes(world: World, tmp_path: Path) -> None:
    """Apply and export again: by somebody else, elsewhere, from the published commits."""
    before = series_files(world.series)
    other = world.other_cache(tmp_path / "cache2")
    tree = other.applied("--target", str(tmp_path / "tree"))
    world.series.rename(tmp_path / "old-series")
    assert other.exported("--tree", str(tree)) == before


def test_hostile_settings_of_the_tree_change_nothing(
    world: World, user_home: Path, tmp_path: Path
) -> None:
    """Settings in the tree's own file, its attributes and its replacements reach no patch."""
    before = series_files(world.series)
    tree = world.applied()
    with (tree / ".git" / "config").open("a") as config:
        config.write((user_home / ".gitconfig").read_text())
    (tree / ".git" / "info" / "attributes").write_text("* -diff text eol=crlf\n")
    head = git(tree, "rev-parse", "HEAD")
    git(tree, "notes", "add", "--message=a note", head)
    world.series.rename(tmp_path / "old-series")
    assert world.exported() == before


def test_the_user_is_hostile(user_home: Path, world: World) -> None:
    """The control of the tests above: plain git writes other bytes for this user, or fails."""
    tree = world.applied()
    good = git(tree, "format-patch", "--stdout", "--keep-subject", "-1")
    env = {"HOME": str(user_home), "GIT_CONFIG_GLOBAL": str(user_home / ".gitconfig")}
    assert git(tree, "format-patch", "--stdout", "--keep-subject", "-1", env=env, code=128) != good
    quiet = {**env, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "diff.external"}
    quiet["GIT_CONFIG_VALUE_0"] = ""
    bad = git(tree, "format-patch", "--stdout", "-1", "--no-ext-diff", env=quiet, code=128)
    assert bad != good


def test_an_export_without_change_writes_nothing(world: World) -> None:
    world.applied()
    before = snapshot(world.series)
    outcome = world.export()
    assert outcome.code == 0, outcome.err
    assert "up to date" in outcome.err
    assert snapshot(world.series) == before


def test_stale_patches_go_and_other_files_stay(world: World) -> None:
    tree = world.applied()
    replace(world.series / "series", "0001", "# The order matters.\n0001")
    (world.series / "NOTES.md").write_text("kept\n")
    git(tree, "reset", "--hard", "--quiet", "HEAD~2")
    commit(tree, message("another"), CHANGE)
    files = world.exported()
    assert list(files) == [
        "0001-middle-block.patch", "0002-another.patch", "NOTES.md", "lock.toml", "series",
    ]  # fmt: skip
    assert files["series"] == (
        b"# The order matters.\n0001-middle-block.patch\n0002-another.patch\n"
    )
    assert world.apply().code == 0


def test_names_do_not_pile_up(world: World) -> None:
    """Export, apply and export again: numbers and slugs stay what they are."""
    tree = world.applied()
    commit(tree, message("fourth", "0001-first [PATCH] is only text"), CHANGE)
    names = list(world.exported())
    world.applied()
    assert list(world.exported()) == names
    assert "0004-fourth.patch" in names


def test_authors_and_dates_are_kept(world: World) -> None:
    tree = world.applied()
    commit(tree, message("fourth"), CHANGE, author="Łukasz 'Ł' O'Neil, Jr", when=999)
    world.exported()
    world.applied()
    expected = "Łukasz 'Ł' O'Neil, Jr|2026-09-21T17:59:59+03:30"
    assert git(tree, "log", "-1", "--format=%an|%aI") == expected
    assert git(tree, "log", "-1", "--format=%cn|%cI") == expected


def test_modes_and_links_survive(world: World) -> None:
    tree = world.applied()
    (tree / PYTHON / "crlf.txt").chmod(0o755)
    (tree / PYTHON / "link").symlink_to("blocks.py")
    commit(tree, message("fourth"), {})
    world.exported()
    world.applied("--target", str(world.root / "again"))
    listing = git(
        world.root / "again", "ls-tree", "-r", "HEAD", f"{PYTHON}/crlf.txt", f"{PYTHON}/link"
    )
    assert [line.split()[0] for line in listing.splitlines()] == ["100755", "120000"]


def test_commits_of_a_linked_worktree(world: World) -> None:
    """A maintainer may work beside the published tree."""
    tree = world.applied()
    linked = world.root / "linked"
    git(tree, "worktree", "add", "--quiet", "--detach", str(linked))
    (linked / PYTHON / "fourth.py").write_bytes(b"4\n")
    git(linked, "add", "--all")
    git(linked, "commit", "--quiet", f"--message={message('fourth')}")
    assert "0004-fourth.patch" in world.exported("--tree", str(linked))


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("trailer", ["HiQ-Patch", "Why", "Upstream", "Drop-when"])
def test_each_trailer_is_wanted(world: World, trailer: str) -> None:
    tree = world.applied()
    lines = message("fourth", "A subject").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(f"{trailer}:"))
    found = commit(tree, text, CHANGE)
    export_refused(world, 1, f"{found[:12]} (A subject)", f"has no {trailer}: trailer", "--amend")


def test_an_empty_trailer_is_none(world: World) -> None:
    text = message("fourth").replace("Why: a test", "Why:")
    commit(world.applied(), text, CHANGE)
    export_refused(world, 1, "has no Why: trailer")


def test_trailers_in_the_middle_of_a_message_are_none(world: World) -> None:
    commit(world.applied(), message("fourth") + "\nA paragraph after them.\n", CHANGE)
    export_refused(world, 1, "has no HiQ-Patch: trailer")


@pytest.mark.parametrize("slug", ["Upper", "with space", "under_score", "-lead", "../up"])
def test_a_slug_that_is_no_name(world: World, slug: str) -> None:
    commit(world.applied(), message(slug), CHANGE)
    export_refused(world, 1, slug, "is not a slug")


def test_a_slug_that_is_used_twice(world: World) -> None:
    commit(world.applied(), message("odd-files", "Again"), CHANGE)
    export_refused(world, 1, "odd-files is used twice")


LOSSY = {
    "separator": message("fourth", body="Above.\n---\nBelow."),
    "index line": message("fourth", body="Above.\n\nIndex: file\n"),
    "author in the body": message("fourth", body="From: Eve <eve@example.org>\n\nText."),
    "subject in the body": message("fourth", body="Subject: other\n\nText."),
    "date in the body": message("fourth", body="Date: Mon, 1 Jan 2001 00:00:00 +0000\n\nText."),
    "diff in the body": message("fourth", body="diff --git a/x b/x\nindex 1..2\n"),
    "reply subject": message("fourth", "Re: the subject"),
    "patch subject": message("fourth", "[PATCH 1/2] the subject"),
    "two lines of subject": message("fourth", "one\ntwo"),
    "trailing space": message("fourth", body="Text.   \nMore."),
    "blank lines": message("fourth", body="Text.\n\n\n\nMore."),
}


@pytest.mark.parametrize("text", LOSSY.values(), ids=LOSSY.keys())
def test_a_message_that_mail_would_change(world: World, text: str) -> None:
    commit(world.applied(), text, CHANGE)
    export_refused(world, 1, "mail")


def test_an_author_that_mail_would_change(world: World) -> None:
    commit(world.applied(), message("fourth"), CHANGE, author='Ed "Eddy" Ł.')
    export_refused(world, 1, "loses its author", "plain name")


CARRIED = {
    "scissors": message("fourth", body="Above.\n\n-- >8 --\n\nBelow."),
    "mbox line": message("fourth", body="From somebody to everybody.\nFrom here."),
    "colon subject": message("fourth", "Note: a subject"),
    "header-like body": message("fourth", body="Foo: bar\nbaz"),
    "brackets": message("fourth", "[HiCache] [x] a [b]"),
    "long subject": message("fourth", "word " * 40 + "end"),
    "comment": message("fourth", body="# not a comment\n\n    indented"),
    "unicode": message("fourth", "→ 漢字 é", body="→ 漢字 é 🎉"),
}


@pytest.mark.parametrize("text", CARRIED.values(), ids=CARRIED.keys())
def test_a_message_that_mail_carries(world: World, text: str) -> None:
    """The control of the test above."""
    tree = world.applied()
    commit(tree, text, CHANGE)
    world.exported()
    world.applied()
    assert git(tree, "log", "-1", "--format=%B") == text.rstrip("\n")


def test_a_commit_that_changes_nothing(world: World) -> None:
    commit(world.applied(), message("fourth", "Nothing"), {})
    export_refused(world, 1, "(Nothing) changes nothing")


def test_no_commits(fresh: World) -> None:
    fresh.applied()
    export_refused(fresh, 1, "has no commits")


def test_a_merge(world: World) -> None:
    tree = world.applied()
    git(tree, "switch", "--quiet", "--create", "side", "HEAD~1")
    commit(tree, message("side"), {f"{PYTHON}/side.py": b"side\n"})
    git(tree, "switch", "--quiet", "--detach", "refs/hiqcache/head")
    git(tree, "merge", "--quiet", "--no-ff", "--message=Merged", "side")
    export_refused(world, 1, "(Merged) is a merge")


def test_a_history_beside_the_base(world: World) -> None:
    tree = world.applied()
    git(tree, "checkout", "--quiet", "--orphan", "other")
    commit(tree, message("fourth"), CHANGE)
    export_refused(world, 1, "does not build on the base")


def untracked(tree: Path) -> str:
    (tree / PYTHON / "forgotten.py").write_bytes(b"forgotten\n")
    return "forgotten.py (untracked)"


def modified(tree: Path) -> str:
    (tree / PYTHON / "blocks.py").write_bytes(b"forgotten\n")
    return "blocks.py (modified)"


def rebasing(tree: Path) -> str:
    (tree / ".git" / "rebase-merge").mkdir()
    return "rebase-merge (unfinished)"


@pytest.mark.parametrize("change", [untracked, modified, rebasing], ids=lambda c: c.__name__)
def test_what_no_commit_holds(world: World, change: Callable[[Path], str]) -> None:
    tree = world.applied()
    commit(tree, message("fourth"), CHANGE)
    what = change(tree)
    export_refused(world, 3, what, "commit them")


def test_a_folder_that_is_no_tree(world: World) -> None:
    world.target.mkdir(parents=True)
    export_refused(world, 2, str(world.target), f"tools/apply.py --rev {NAME}")


def test_a_tree_that_is_missing(world: World) -> None:
    export_refused(world, 2, str(world.target), "--tree")


def test_a_tree_of_another_base(world: World) -> None:
    world.applied()
    world.edit_revisions("2026-10-30T00:00:00Z", "2026-10-31T00:00:00Z")
    export_refused(world, 4, "is not the base of v9.9.9")


def test_an_unknown_revision(world: World) -> None:
    world.refused(world.export(rev="v1.2.3"), 2, "choose one of pin, v9.9.9")
