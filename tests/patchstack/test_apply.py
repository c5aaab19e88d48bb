"""``tools/apply.py``: the same tree for everyone, in place, once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stack_world import (
    GENERATED,
    NAME,
    PYTHON,
    SOURCES,
    WHEEL,
    World,
    commit,
    git,
    message,
    replace,
    snapshot,
)

from patchstack.context import ROOT


def test_the_tree_is_the_release_and_the_patches(world: World) -> None:
    tree = world.applied()
    files = {
        path.relative_to(tree / "python").as_posix(): path.read_bytes()
        for path in (tree / "python").rglob("*")
        if path.is_file()
    }
    expected = dict(SOURCES)
    del expected["sglang/run.sh"]
    assert files.keys() >= expected.keys()
    assert not files.keys() & GENERATED.keys()
    assert files["sglang/__init__.py"] == SOURCES["sglang/__init__.py"]
    assert files["sglang/crlf.txt"] == b"one\r\nTWO\r\nthree\r\nfour\n"
    assert files["sglang/no_newline.txt"] == b"first\nsecond\nlast"
    assert files["sglang/binary.dat"] == bytes(range(256))
    assert files["sglang/blocks.py"].splitlines()[4] == b"  changed"
    assert (tree / "docs/outside.md").read_text() == "Outside of the package.\n"
    assert git(tree, "status", "--porcelain", "--ignored") == ""


def test_the_release_alone_without_patches(fresh: World) -> None:
    outcome = fresh.apply()
    assert outcome.code == 0, outcome.err
    assert "no patches yet" in outcome.err
    tree = Path(outcome.out.rstrip("\n"))
    for name, content in SOURCES.items():
        assert (tree / "python" / name).read_bytes() == content
    assert git(tree, "rev-list", "--count", "HEAD") == "1"


def test_standard_output_is_the_path_alone(world: World) -> None:
    outcome = world.apply()
    assert outcome.out == f"{world.target}\n"
    assert "[3/3] 0003-drop-and-more.patch" in outcome.err
    quiet = world.apply("-q", "--target", str(world.root / "again"))
    assert (quiet.out, quiet.err) == (f"{world.root / 'again'}\n", "")


def test_json_names_everything(world: World) -> None:
    outcome = world.apply("--json")
    result = outcome.json
    assert set(result) == {
        "revision", "source", "lock", "base", "patches", "head", "path", "wheels",
    }  # fmt: skip
    assert result["lock"] == "exact"
    assert result["revision"] == NAME
    assert result["source"]["kind"] == "wheel"
    assert result["source"]["wheel"] == WHEEL
    assert result["path"] == str(world.target)
    assert result["wheels"] == []
    tree = world.target
    commits = git(tree, "rev-list", "--reverse", "HEAD").splitlines()
    assert result["base"]["commit"] == commits[0]
    assert [patch["commit"] for patch in result["patches"]] == commits[1:]
    assert [patch["slug"] for patch in result["patches"]] == [
        "middle-block",
        "odd-files",
        "drop-and-more",
    ]
    assert result["patches"][0]["file"] == "0001-middle-block.patch"
    assert all(len(patch["patch_id"]) == 40 for patch in result["patches"])
    assert result["head"] == {
        "commit": git(tree, "rev-parse", "HEAD"),
        "tree": git(tree, "rev-parse", "HEAD^{tree}"),
    }


def test_same_ids_in_another_cache_and_place(world: World, tmp_path: Path) -> None:
    first = world.apply("--json").json
    other = world.other_cache(tmp_path / "other cache $HOME")
    second = other.apply("--json", "--target", str(tmp_path / "with space $HOME ~")).json
    assert second["path"] == str(tmp_path / "with space $HOME ~")
    del first["path"], second["path"]
    assert first == second


def test_same_ids_without_any_user_configuration(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = world.apply("--json").json
    world.before_each_run = lambda: None
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    other = world.other_cache(tmp_path / "other")
    assert other.apply("--json", "--target", str(tmp_path / "t")).json["head"] == first["head"]


def test_git_itself_agrees_with_the_computed_base(world: World) -> None:
    tree = world.applied()
    root = git(tree, "rev-list", "--max-parents=0", "HEAD")
    assert git(tree, "log", "-1", "--format=%an %cn %cI", root) == (
        "HiQCache HiQCache 2026-10-30T00:00:00+00:00"
    )
    modes = {line.split()[0] for line in git(tree, "ls-tree", "-r", root).splitlines()}
    assert modes == {"100644"}, "wheels disagree about executable bits"


def test_the_committer_is_the_author(world: World) -> None:
    tree = world.applied()
    for line in git(tree, "log", "-3", "--format=%an|%ae|%ai|%cn|%ce|%ci").splitlines():
        fields = line.split("|")
        assert fields[:3] == fields[3:]
        assert fields[2].endswith("+0330")


def test_up_to_date_writes_nothing(world: World) -> None:
    world.applied()
    before = snapshot(world.target)
    outcome = world.apply()
    assert outcome.code == 0
    assert "up to date" in outcome.err
    assert outcome.out == f"{world.target}\n"
    assert snapshot(world.target) == before


def test_what_running_the_code_leaves_is_not_a_change(world: World) -> None:
    tree = world.applied()
    cache = tree / PYTHON / "__pycache__"
    cache.mkdir()
    (cache / "engine.cpython-311.pyc").write_bytes(b"compiled")
    (tree / PYTHON / "stray.pyc").write_bytes(b"compiled")
    assert git(tree, "status", "--porcelain") == ""
    assert "up to date" in world.apply().err


def test_an_older_tree_is_replaced(world: World) -> None:
    tree = world.applied()
    old = git(tree, "rev-parse", "HEAD")
    commit(tree, message("fourth"), {f"{PYTHON}/fourth.py": b"4\n"})
    world.exported()
    git(tree, "reset", "--hard", "--quiet", old)
    outcome = world.apply()
    assert outcome.code == 0, outcome.err
    assert (tree / PYTHON / "fourth.py").read_bytes() == b"4\n"
    assert git(tree, "rev-parse", "HEAD^") == old


def test_exported_commits_are_replaced_by_the_series(world: World) -> None:
    tree = world.applied()
    mine = commit(tree, message("fourth"), {f"{PYTHON}/fourth.py": b"4\n"})
    content = git(tree, "rev-parse", "HEAD^{tree}")
    world.exported()
    outcome = world.apply()
    assert outcome.code == 0, outcome.err
    assert git(tree, "rev-parse", "HEAD") != mine, "the committer is the author now"
    assert git(tree, "rev-parse", "HEAD^{tree}") == content
    assert "up to date" in world.apply().err


def test_an_empty_folder_is_filled(world: World) -> None:
    world.target.mkdir(parents=True)
    assert (world.applied() / PYTHON / "blocks.py").exists()


def test_the_second_run_needs_no_index(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(world.root / "nowhere"))
    assert world.apply("--offline").code == 0


def test_the_tree_outlives_the_cache(world: World) -> None:
    tree = world.applied()
    shutil.rmtree(world.context.cache)
    git(tree, "fsck", "--full", "--strict")
    assert not (tree / ".git/objects/info/alternates").exists()
    assert git(tree, "rev-list", "--count", "HEAD") == "4"
    commit(tree, message("fourth"), {f"{PYTHON}/fourth.py": b"4\n"})
    git(tree, "reset", "--hard", "--quiet", git(tree, "rev-parse", "refs/hiqcache/base"))
    assert (tree / PYTHON / "run.sh").read_bytes() == SOURCES["sglang/run.sh"]


def test_a_tree_inside_another_repository(world: World) -> None:
    git(world.root, "init", "--quiet")
    before = snapshot(world.root / ".git")
    tree = world.applied()
    assert git(tree, "rev-list", "--count", "HEAD") == "4"
    assert snapshot(world.root / ".git") == before


def test_a_patch_in_one_of_equal_blocks_stays_there(world: World) -> None:
    tree = world.applied()
    lines = (tree / PYTHON / "blocks.py").read_bytes().splitlines()
    assert lines == [
        b"begin", b"  same", b"end",
        b"begin", b"  changed", b"end",
        b"begin", b"  same", b"end",
    ]  # fmt: skip


def test_a_damaged_cached_wheel_is_fetched_again(world: World) -> None:
    shutil.rmtree(world.context.repository)
    cached = world.context.wheels / WHEEL
    good = cached.read_bytes()
    cached.write_bytes(good[:-1] + b"x")
    outcome = world.apply()
    assert outcome.code == 0, outcome.err
    assert "damaged" in outcome.err
    assert cached.read_bytes() == good


def test_another_platform_gets_the_tree(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a wheel that fits, any pinned wheel gives the tree (but no wheel)."""
    foreign = f"sglang-{world.target.name[1:]}-cp311-cp311-manylinux_2_34_sparc64.whl"
    shutil.copy(world.index / WHEEL, world.index / foreign)
    (world.index / WHEEL).unlink()
    world.edit_revisions(WHEEL, foreign)
    other = world.other_cache(world.root / "cache")
    assert other.apply("--json").json["source"]["wheel"] == foreign
    line = world.refused(other.apply("--wheel"), 4, "manylinux_2_34_sparc64", "--wheel")
    assert "pinned for this interpreter" in line


def test_the_script_runs_from_anywhere(tmp_path: Path) -> None:
    script = ROOT / "tools" / "apply.py"
    done = subprocess.run(
        [str(script), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'tree="$(tools/apply.py --rev pin)" && cd "$tree"' in done.stdout


def test_two_revisions_of_one_release_do_not_share_a_base(world: World) -> None:
    """The base is keyed by what it is: another date is another commit, and the lock says so."""
    world.applied()
    replace(world.context.revisions_file, "2026-10-30T00:00:00Z", "2026-10-31T00:00:00Z")
    world.refused(world.apply(), 4, "lock.toml", "base commit")


@pytest.mark.parametrize("damage", [b"", b"garbage" * 100])
def test_a_damaged_pack_of_the_base(world: World, damage: bytes) -> None:
    """What is kept to be copied is made again, once it is out of the way."""
    world.applied()
    kept = next(world.context.cache.glob("pack-*"))
    assert {path.suffix for path in kept.iterdir()} == {".idx", ".pack"}
    for path in kept.iterdir():
        path.chmod(0o644)
        path.write_bytes(damage)
    shutil.rmtree(world.target)
    world.refused(world.apply(), 4, f"remove {kept}")
    assert not world.target.exists()
    shutil.rmtree(kept)
    git(world.applied(), "fsck", "--full", "--strict")
