"""How much a series changes: counted from the patches, and held to a budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from clean_world import ENGINE, EXTRA, NEW
from stack_world import PYTHON, World, commit, git, message

from patchstack import footprint
from patchstack.errors import ToolError
from patchstack.footprint import Change, Footprint, changes, measure
from patchstack.repository import Repository
from patchstack.series import PatchFile, read_series

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def scratch(tmp_path: Path) -> Repository:
    """Return an empty repository."""
    return Repository.create(tmp_path / "scratch.git")


def numbers(tree: Path, *names: str) -> tuple[int, int]:
    """Return the lines that git says were added and removed, over all patches of a tree."""
    options = ("--format=", "--numstat", "--no-renames", "refs/hiqcache/base..HEAD")
    plain = {"XDG_CONFIG_HOME": "/nowhere"}  # the user's attributes call every file binary
    log = git(tree, "log", *options, "--", *names, env=plain)
    lines = [line.split("\t") for line in log.splitlines()]
    return sum(int(line[0]) for line in lines), sum(int(line[1]) for line in lines)


def test_it_counts_as_git_does(clean: World, scratch: Repository) -> None:
    tree = clean.applied()
    size = measure(scratch, NEW, read_series(clean.context.series_dir(NEW)))
    assert size.existing == sum(numbers(tree, ENGINE)) == 5
    assert (size.new, 0) == numbers(tree, EXTRA)


def test_a_new_file_that_changes_later_counts_once(world: World, scratch: Repository) -> None:
    """What a later patch does to a new file is no change of SGLang's."""
    tree = world.applied()
    before = measure(scratch, NEW, read_series(world.series))
    commit(tree, message("fourth"), {f"{PYTHON}/srt/new, with comma.py": b"one\ntwo\n"})
    commit(tree, message("fifth"), {f"{PYTHON}/srt/empty.py": b"three\n"})
    world.exported()
    after = measure(scratch, NEW, read_series(world.series))
    assert (after.existing, after.new) == (before.existing, before.new + 2)


def test_every_kind_of_change(world: World, scratch: Repository) -> None:
    """Odd names, CRLF, no final newline, a deleted file and a binary one."""
    tree = world.applied()
    size = measure(scratch, NEW, read_series(world.series))
    ours = [f"{PYTHON}/srt/new, with comma.py", "docs/outside.md"]
    others = [
        f"{PYTHON}/{name}"
        for name in ("blocks.py", "crlf.txt", "no_newline.txt", "srt/héllo wörld.txt",
                     "run.sh", "srt/engine.py")
    ]  # fmt: skip
    assert size.new == sum(numbers(tree, *ours)) == 2
    assert size.existing == sum(numbers(tree, *others))
    names = scratch.line("ls-tree", "-r", "--name-only", "-z", size.tree).split("\0")[:-1]
    assert sorted(names) == sorted([*ours, f"{PYTHON}/binary.dat", f"{PYTHON}/srt/empty.py"])


def test_a_new_file_with_a_pattern_for_a_name(world: World, scratch: Repository) -> None:
    tree = world.applied()
    commit(tree, message("fourth"), {f"{PYTHON}/[a]*?.py": b"1\n", f"{PYTHON}/a.py": b"2\n"})
    commit(tree, message("fifth"), {f"{PYTHON}/a.py": None})
    world.exported()
    size = measure(scratch, NEW, read_series(world.series))
    names = scratch.line("ls-tree", "-r", "--name-only", "-z", size.tree).split("\0")
    assert f"{PYTHON}/[a]*?.py" in names
    assert f"{PYTHON}/a.py" not in names


def test_an_empty_series(scratch: Repository) -> None:
    size = measure(scratch, NEW, ())
    assert (size.existing, size.new) == (0, 0)


def test_a_patch_that_cannot_be_measured(clean: World, scratch: Repository) -> None:
    first, second = read_series(clean.context.series_dir(NEW))
    for data in (b"no patch\n", second.data[:-20]):
        with pytest.raises(ToolError, match=r"0002-add-extra\.patch cannot be measured"):
            measure(scratch, NEW, (first, PatchFile(second.name, data)))
    (clean.context.series_dir(NEW) / second.name).write_bytes(second.data[:-20])
    outcome = clean.check("--fast")
    assert f"patches/{NEW}/series:1: footprint: {second.name} cannot be measured" in outcome.out


@pytest.mark.parametrize(
    ("existing", "new", "over"),
    [
        (60, 250, []),
        (61, 250, ["changes 61 lines of SGLang's files, budget 60"]),
        (60, 251, ["has 251 lines in files of its own, budget 250"]),
        (99, 999, ["changes 99 lines of SGLang's files, budget 60",
                   "has 999 lines in files of its own, budget 250"]),
    ],
)  # fmt: skip
def test_the_budget(existing: int, new: int, over: list[str]) -> None:
    assert list(Footprint(NEW, existing, new, "0" * 40).excesses) == over


def test_over_budget_is_a_finding(clean: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "EXISTING_BUDGET", 4)
    outcome = clean.check("--fast")
    assert outcome.code == 1
    what = "footprint: changes 5 lines of SGLang's files, budget 4"
    assert f"patches/{NEW}/series:1: {what}\n" in outcome.out


def test_how_new_files_differ(scratch: Repository) -> None:
    blobs = [scratch.line("hash-object", "-w", "--stdin", stdin=text)
             for text in (b"same\nold\n", b"same\nnew\nmore\n")]  # fmt: skip
    trees = [scratch.line("mktree", stdin=f"100644 blob {blob}\ta.py\n".encode()) for blob in blobs]
    sizes = tuple(Footprint(f"v{n}", 0, 0, tree) for n, tree in enumerate([*trees, trees[1]]))
    assert list(changes(scratch, sizes)) == [Change("v0", "v1", 2, 1), Change("v1", "v2", 0, 0)]
