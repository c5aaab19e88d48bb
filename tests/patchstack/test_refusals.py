"""What ``tools/apply.py`` refuses: one line, the right exit code, and nothing half done."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from stack_world import (
    DIST_INFO,
    GENERATED,
    NAME,
    PYTHON,
    SOURCES,
    WHEEL,
    Outcome,
    World,
    commit,
    git,
    message,
    replace,
    series_files,
    snapshot,
    write_wheel,
)

FIRST = "0001-middle-block.patch"
SECOND = "0002-odd-files.patch"


def apply_refused(world: World, code: int, *words: str, arguments: tuple[str, ...] = ()) -> str:
    """Assert that apply refuses and leaves the project, the index and the target as they were."""
    before = snapshot(world.root, world.index)
    line = world.refused(world.apply(*arguments), code, *words)
    assert snapshot(world.root, world.index) == before, "something was left half done"
    return line


def relock(world: World, name: str) -> None:
    """Make the lock agree with the digest of an edited patch."""
    text = (world.series / "lock.toml").read_text()
    digest = hashlib.sha256((world.series / name).read_bytes()).hexdigest()
    pattern = rf'(file = "{name}"\nslug = "[^"]*"\nsha256 = ")[0-9a-f]*'
    changed, count = re.subn(pattern, rf"\g<1>{digest}", text)
    assert count == 1
    (world.series / "lock.toml").write_text(changed)


# --- usage -------------------------------------------------------------------------------------


def test_unknown_revision_names_the_choices(world: World) -> None:
    before = snapshot(world.root, world.context.cache)
    world.refused(world.apply(rev="v1.2.3"), 2, "'v1.2.3'", f"choose one of pin, {NAME}")
    assert snapshot(world.root, world.context.cache) == before


@pytest.mark.parametrize("rev", ["", "../patches", "v9.9.9/", "-x", "v9.9.9\nv9.9.9"])
def test_odd_revisions_are_unknown(world: World, rev: str) -> None:
    world.refused(world.apply(f"--rev={rev}"), 2, "unknown revision")


def test_a_wrong_option_is_one_line(world: World) -> None:
    world.refused(world.apply("--no-such-option"), 2, "--no-such-option", "--help")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('pin = "v9.9.9"', 'pin = "v0.0.1"'),
        ("build = 1", "build = 0"),
        ("build = 1", ""),
        ('tree = "', 'tree = "x'),
        ("2026-10-30T00:00:00Z", "2026-10-30T00:00:00"),
        ('version = "9.9.9"', 'version = "9.9.8"'),
        (f'"{WHEEL}"', '"sglang.whl"'),
        ("[revisions", "[[revisions"),
    ],
)
def test_a_damaged_revisions_file(world: World, old: str, new: str) -> None:
    text = world.context.revisions_file.read_text()
    world.context.revisions_file.write_text(text.replace(old, new, 1))
    apply_refused(world, 4, "revisions.toml")


def test_the_revisions_file_is_missing(world: World) -> None:
    world.context.revisions_file.unlink()
    apply_refused(world, 4, "revisions.toml")


# --- the upstream ------------------------------------------------------------------------------


def test_no_index_and_no_cache(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(fresh.root / "nowhere"))
    apply_refused(fresh, 4, "pip cannot fetch sglang==9.9.9", "No matching distribution")
    assert not fresh.target.exists()


def test_no_network_and_no_cache(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    apply_refused(fresh, 4, "pip cannot fetch sglang==9.9.9", "check the network")


def test_offline_and_no_cache(fresh: World) -> None:
    apply_refused(fresh, 4, WHEEL, "without --offline", arguments=("--offline",))


def test_offline_and_a_damaged_wheel(world: World) -> None:
    shutil.rmtree(world.context.repository)
    cached = world.context.wheels / WHEEL
    cached.write_bytes(cached.read_bytes()[:-100])
    apply_refused(world, 4, WHEEL, "damaged", arguments=("--offline",))


def test_a_wheel_with_another_digest(fresh: World) -> None:
    """Upstream, or somebody between, serves another file under the same name."""
    files = {**SOURCES, **GENERATED, **DIST_INFO, "sglang/evil.py": b"import os\n"}
    write_wheel(fresh.index / WHEEL, files)
    apply_refused(fresh, 4, WHEEL, "revisions.toml pins")
    assert not fresh.context.wheels.exists(), "a wrong wheel must not stay in the cache"


def test_the_pinned_wheel_is_gone_from_the_index(fresh: World) -> None:
    other = WHEEL.replace("py3-none", "py2.py3-none")
    (fresh.index / WHEEL).rename(fresh.index / other)
    apply_refused(fresh, 4, f"pip fetched {other} in place of {WHEEL}")


def test_a_wheel_with_other_files_than_the_pinned_tree(fresh: World) -> None:
    files = {**SOURCES, **GENERATED, **DIST_INFO, "sglang/more.py": b"more\n"}
    old = hashlib.sha256((fresh.index / WHEEL).read_bytes()).hexdigest()
    wheel = write_wheel(fresh.index / WHEEL, files)
    fresh.edit_revisions(old, hashlib.sha256(wheel.read_bytes()).hexdigest())
    line = apply_refused(fresh, 4, WHEEL, "revisions.toml pins")
    # The refusal is remembered nowhere: the next run refuses again.
    assert apply_refused(fresh, 4, "revisions.toml pins") == line


@pytest.mark.parametrize("name", ["sglang/../evil.py", "sglang/.git/config", 'sglang/a"b.py'])
def test_a_wheel_with_an_odd_name(fresh: World, name: str) -> None:
    old = hashlib.sha256((fresh.index / WHEEL).read_bytes()).hexdigest()
    wheel = write_wheel(fresh.index / WHEEL, {**SOURCES, **DIST_INFO, name: b"odd\n"})
    fresh.edit_revisions(old, hashlib.sha256(wheel.read_bytes()).hexdigest())
    apply_refused(fresh, 4, "not an ordinary file")


@pytest.mark.parametrize("damage", [b"", b"garbage" * 100])
def test_a_damaged_store(world: World, damage: bytes) -> None:
    """The cache's repository is damaged: refused, with the way to have a new one."""
    stored = [path for path in (world.context.repository / "objects").rglob("*") if path.is_file()]
    assert stored
    for path in stored:
        path.chmod(0o644)
        path.write_bytes(damage)
    line = apply_refused(world, 4, f"remove {world.context.repository}")
    assert "git " in line
    shutil.rmtree(world.context.repository)
    assert world.apply().code == 0, "the way out works"


# --- the series and the lock -------------------------------------------------------------------


def test_a_truncated_patch(world: World) -> None:
    patch = world.series / SECOND
    patch.write_bytes(patch.read_bytes()[:-40])
    apply_refused(world, 4, f"patches/{NAME}/{SECOND}", "sha256", "tools/export.py")


def test_a_patch_with_other_line_ends(world: World) -> None:
    patch = world.series / FIRST
    patch.write_bytes(patch.read_bytes().replace(b"\n", b"\r\n"))
    apply_refused(world, 4, FIRST, "sha256")


def test_a_patch_that_does_not_apply(world: World) -> None:
    replace(world.series / FIRST, "-  same\n", "-  other\n")
    relock(world, FIRST)
    apply_refused(world, 4, f"patch 1/3: {FIRST} does not apply", "2 more not tried")


def test_a_patch_that_fits_somewhere_else(world: World) -> None:
    """``git apply`` would put it into the block that its line numbers name: not the right one."""
    patch = (world.series / FIRST).read_text()
    moved = re.sub(r"@@ -\d+,\d+ \+\d+,\d+ @@.*", "@@ -1,3 +1,3 @@", patch)
    moved = re.sub(r"@@\n.*", "@@\n begin\n-  same\n+  changed\n end\n", moved, flags=re.DOTALL)
    assert moved != patch
    (world.series / FIRST).write_text(moved)
    relock(world, FIRST)
    apply_refused(world, 4, FIRST, "file contents that it names")


def test_a_patch_with_short_blob_ids(world: World) -> None:
    text = (world.series / FIRST).read_text()
    short = re.sub(r"index (\w{12})\w*\.\.(\w{12})\w*", r"index \1..\2", text)
    assert short != text
    (world.series / FIRST).write_text(short)
    relock(world, FIRST)
    apply_refused(world, 4, FIRST, "file contents that it names")


def test_a_patch_that_goes_by_another_name(world: World) -> None:
    replace(world.series / FIRST, "HiQ-Patch: middle-block", "HiQ-Patch: other")
    relock(world, FIRST)
    apply_refused(world, 4, FIRST, "HiQ-Patch: other")


def test_a_file_that_is_no_mail(world: World) -> None:
    (world.series / FIRST).write_bytes(b"not a patch\n")
    relock(world, FIRST)
    apply_refused(world, 4, FIRST, "not a usable mail patch")


def test_a_reworded_patch(world: World) -> None:
    replace(world.series / FIRST, "Why it is so.", "Why it was so.")
    relock(world, FIRST)
    apply_refused(world, 4, FIRST, "commit", "lock.toml")


def test_a_missing_patch(world: World) -> None:
    (world.series / SECOND).unlink()
    apply_refused(world, 4, SECOND, "missing")


def test_a_patch_that_the_series_does_not_name(world: World) -> None:
    (world.series / "0004-extra.patch").write_bytes(b"extra\n")
    apply_refused(world, 4, "0004-extra.patch is not in series")


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (f"{FIRST}\n", f"{FIRST}\n{FIRST}\n", "twice"),
        (f"{FIRST}\n", "", "0001-middle-block.patch is not in series"),
        (f"{FIRST}\n", "../evil.patch\n", "'../evil.patch'"),
        (f"{FIRST}\n{SECOND}\n", f"{SECOND}\n{FIRST}\n", "series has"),
    ],
)
def test_a_series_that_disagrees(world: World, old: str, new: str, word: str) -> None:
    replace(world.series / "series", old, new)
    apply_refused(world, 4, word)


def test_comments_in_a_series_are_allowed(world: World) -> None:
    """The control of the test above: an edit that means nothing changes nothing."""
    replace(world.series / "series", f"{FIRST}\n", f"# first\n{FIRST} # why\n\n")
    assert world.apply().code == 0


@pytest.mark.parametrize("name", ["series", "lock.toml"])
def test_half_a_series(world: World, name: str) -> None:
    (world.series / name).unlink()
    apply_refused(world, 4, name, "missing")


def lock_fields() -> list[tuple[str, str]]:
    """Return every place of a lock, as the table's number and the field."""
    patch = ["file", "slug", "sha256", "patch_id", "commit", "tree"]
    tables = {0: ["commit", "tree"], 1: patch, 2: patch, 3: patch, 4: ["commit", "tree"]}
    return [(str(table), field) for table, fields in tables.items() for field in fields]


@pytest.mark.parametrize(("table", "field"), lock_fields())
def test_each_field_of_the_lock_counts(world: World, table: str, field: str) -> None:
    lock = world.series / "lock.toml"
    parts = re.split(r"(?m)^(?=\[)", lock.read_text())
    part = parts[int(table) + 1]
    value = re.search(rf'^{field} = "([^"]*)"$', part, re.MULTILINE)
    assert value is not None
    odd = {"file": "0009-odd.patch", "slug": "odd"}.get(field, value[1][::-1])
    assert odd != value[1]
    parts[int(table) + 1] = part.replace(value[0], f'{field} = "{odd}"')
    lock.write_text("".join(parts))
    apply_refused(world, 4, f"patches/{NAME}/", "lock.toml", "git checkout")


@pytest.mark.parametrize(
    "text", ["", "[base]\n", "not toml", 'base = "x"', "[base]\ncommit = 1\ntree = 2\n", "\xff"]
)
def test_a_lock_that_cannot_be_read(world: World, text: str) -> None:
    (world.series / "lock.toml").write_text(text, "latin-1")
    apply_refused(world, 4, "lock.toml", "cannot be read")


def test_a_series_that_is_not_text(world: World) -> None:
    (world.series / "series").write_bytes(b"\xff\xfe\n")
    apply_refused(world, 4, "series names")


# --- the user's work ---------------------------------------------------------------------------


def modified(tree: Path) -> str:
    (tree / PYTHON / "blocks.py").write_bytes(b"mine\n")
    return f"{PYTHON}/blocks.py (modified)"


def line_ends(tree: Path) -> str:
    path = tree / PYTHON / "blocks.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    return f"{PYTHON}/blocks.py (modified)"


def same_size_same_time(tree: Path) -> str:
    path = tree / PYTHON / "blocks.py"
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(b"same", b"mine"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return f"{PYTHON}/blocks.py (modified)"


def staged(tree: Path) -> str:
    modified(tree)
    git(tree, "add", "--all")
    (tree / PYTHON / "blocks.py").write_text(git(tree, "show", f"HEAD:{PYTHON}/blocks.py") + "\n")
    return f"{PYTHON}/blocks.py (staged)"


def untracked(tree: Path) -> str:
    (tree / PYTHON / "mine.py").write_bytes(b"mine\n")
    return f"{PYTHON}/mine.py (untracked)"


def untracked_and_ignored(tree: Path) -> str:
    (tree / PYTHON / "srt" / "mine.log").write_bytes(b"ignored by upstream's .gitignore\n")
    return f"{PYTHON}/srt/mine.log (untracked)"


def excluded(tree: Path) -> str:
    (tree / ".git" / "info" / "exclude").write_text("*\n")
    return untracked(tree)


def deleted(tree: Path) -> str:
    (tree / PYTHON / "blocks.py").unlink()
    return f"{PYTHON}/blocks.py (deleted)"


def executable(tree: Path) -> str:
    path = tree / PYTHON / "blocks.py"
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{PYTHON}/blocks.py (modified)"


def assume_unchanged(tree: Path) -> str:
    git(tree, "update-index", "--assume-unchanged", f"{PYTHON}/blocks.py")
    what = modified(tree)
    assert git(tree, "status", "--porcelain") == "", "git itself overlooks it"
    return what


def skip_worktree(tree: Path) -> str:
    git(tree, "update-index", "--skip-worktree", f"{PYTHON}/blocks.py")
    return modified(tree)


def committed(tree: Path) -> str:
    commit(tree, message("mine", "My own commit"), {f"{PYTHON}/mine.py": b"mine\n"})
    return "commits of yours: My own commit"


def amended(tree: Path) -> str:
    git(tree, "commit", "--amend", "--quiet", "--message=Amended by me")
    return "commits of yours: Amended by me"


def moved_back(tree: Path) -> str:
    git(tree, "reset", "--hard", "--quiet", "HEAD~1")
    return "HEAD was moved"


def branch(tree: Path) -> str:
    git(tree, "switch", "--quiet", "--create", "work")
    committed(tree)
    git(tree, "switch", "--quiet", "--detach", "refs/hiqcache/head")
    return "refs/heads/work"


def stash(tree: Path) -> str:
    modified(tree)
    git(tree, "stash")
    return "refs/stash"


def linked_worktree(tree: Path) -> str:
    git(tree, "worktree", "add", "--quiet", "--detach", str(tree.parent / "linked"))
    return "linked worktree linked"


def merging(tree: Path) -> str:
    (tree / ".git" / "MERGE_HEAD").write_text("0" * 40 + "\n")
    return "MERGE_HEAD (unfinished)"


def locked_index(tree: Path) -> str:
    (tree / ".git" / "index.lock").write_bytes(b"")
    return "index.lock (unfinished)"


CHANGES = [
    modified, line_ends, same_size_same_time, staged, untracked, untracked_and_ignored, excluded,
    deleted, executable, assume_unchanged, skip_worktree, committed, amended, moved_back, branch,
    stash, linked_worktree, merging, locked_index,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_users_work_is_refused_by_name(world: World, change: Callable[[Path], str]) -> None:
    what = change(world.applied())
    line = apply_refused(world, 3, str(world.target), what, "nothing was touched")
    assert "move the folder away" in line


def test_hostile_settings_of_the_tree_hide_nothing(world: World) -> None:
    """A tree's own configuration and attributes could make git overlook an edit."""
    tree = world.applied()
    for setting in (
        "core.fileMode=false", "core.autocrlf=true", "core.sparseCheckout=true",
        "core.untrackedCache=true", "core.ignoreStat=true", "core.trustctime=false",
        "core.worktree=/nowhere", "core.bare=true", "core.excludesFile=/dev/zero",
        "core.fsmonitor=/bin/true", "diff.ignoreSubmodules=all", "status.showUntrackedFiles=no",
    ):  # fmt: skip
        git(tree, "config", *setting.split("=", 1), env={"GIT_DIR": str(tree / ".git")})
    assert "up to date" in world.apply().err
    modified(tree)
    untracked(tree)
    apply_refused(world, 3, "blocks.py (modified)", "mine.py (untracked)")


def test_many_changes_are_counted(world: World) -> None:
    tree = world.applied()
    for number in range(7):
        (tree / f"file{number}").write_bytes(b"mine\n")
    apply_refused(world, 3, "file0 (untracked), file1 (untracked), file2 (untracked) and 4 more")


def foreign_folder(target: Path) -> None:
    target.mkdir(parents=True)
    (target / "notes.txt").write_text("mine\n")


def foreign_repository(target: Path) -> None:
    target.mkdir(parents=True)
    git(target, "init", "--quiet")
    commit(target, "mine\n", {"notes.txt": b"mine\n"})


def foreign_file(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_text("mine\n")


def foreign_git_folder(target: Path) -> None:
    """Inside another repository git would find that one."""
    (target / ".git").mkdir(parents=True)
    git(target.parent.parent, "init", "--quiet")
    commit(target.parent.parent, "mine\n", {})


@pytest.mark.parametrize(
    "make",
    [foreign_folder, foreign_repository, foreign_file, foreign_git_folder],
    ids=lambda make: make.__name__,
)
def test_a_target_that_is_not_ours(world: World, make: Callable[[Path], None]) -> None:
    make(world.target)
    apply_refused(world, 3, str(world.target), "--target")


def test_a_target_that_cannot_be_written(world: World) -> None:
    (world.root / "file").write_text("a file\n")
    before = snapshot(world.root)
    outcome = world.apply("--target", str(world.root / "file" / "tree"))
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert snapshot(world.root) == before


# --- the machine -------------------------------------------------------------------------------


def run_without_git(world: World, monkeypatch: pytest.MonkeyPatch, path: Path) -> Outcome:
    monkeypatch.setenv("PATH", str(path))
    return world.apply()


def test_git_is_not_installed(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outcome = run_without_git(world, monkeypatch, tmp_path / "empty")
    world.refused(outcome, 2, "git is not installed", "2.34")


def test_git_is_too_old(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.33.8\n")
    old.chmod(0o755)
    outcome = run_without_git(world, monkeypatch, old.parent)
    world.refused(outcome, 2, "git version 2.33.8 is too old", "2.34")


def test_refusals_leave_the_series_alone(world: World) -> None:
    before = series_files(world.series)
    world.applied()
    modified(world.target)
    apply_refused(world, 3)
    assert series_files(world.series) == before
