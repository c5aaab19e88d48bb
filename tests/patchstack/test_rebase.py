"""``tools/rebase.py``: what becomes of each patch, and that nothing is written half."""

from __future__ import annotations

from pathlib import Path

import pytest
from rebase_world import (
    BLOCK,
    BLOCKS,
    FILES,
    FLAG,
    LAST,
    LATER,
    LINES,
    NEXT,
    RELEASE,
    RebaseWorld,
    details,
    statuses,
    text,
)
from stack_world import NAME, PYTHON, commit, git, series_files, snapshot

TEXT = f"{PYTHON}/srt/text.txt"
PATCHED = {30: "line 30, patched\n"}


def test_a_clean_move(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/other.py": b"OTHER = 2\n"})
    before = series_files(moving.series)
    outcome = moving.rebase("--from", "pin", "--onto", NEXT)
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{moving.context.series_dir(NEXT)}\n"
    assert f"3 patches written to patches/{NEXT}" in outcome.err
    assert series_files(moving.series) == before
    assert list(moving.moved()) == [*FILES, "lock.toml", "series"]
    tree = moving.tree_of()
    assert (tree / "blocks.txt").read_bytes() == BLOCKS
    assert (tree / "srt" / "text.txt").read_bytes() == text(PATCHED)
    assert (tree / "srt" / "other.py").read_bytes() == b"OTHER = 2\n"
    assert not moving.context.rebase.exists()


def test_files_that_upstream_left_alone(moving: RebaseWorld) -> None:
    """Nothing changed around the patches, so the very same files come out."""
    moving.release({"sglang/srt/other.py": b"OTHER = 2\n"})
    report = moving.move()
    assert set(statuses(report).values()) == {"unchanged"}
    assert report["counts"] == {"unchanged": 3}
    old, new = series_files(moving.series), moving.moved()
    assert {name: new[name] for name in FILES} == {name: old[name] for name in FILES}
    assert old["lock.toml"] != new["lock.toml"]


def test_lines_at_another_place(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/text.txt": text({}, above=7)})
    report = moving.move()
    assert statuses(report) == {"flag": "unchanged", "block": "unchanged", "text": "moved"}
    assert (moving.tree_of() / "srt" / "text.txt").read_bytes() == text(PATCHED, above=7)
    assert b"@@ -34,7 +34,7 @@" in moving.moved()[FILES[2]]


def test_other_lines_around(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/text.txt": text({27: "line 27, upstream\n"})})
    report = moving.move()
    assert statuses(report)["text"] == "changed"
    assert b"\n line 27, upstream\n" in moving.moved()[FILES[2]]


REPEATED = BLOCK + BLOCK * 3


def test_a_repeated_block(moving: RebaseWorld) -> None:
    """Upstream put an equal block above: the patch is still about the one that it was about."""
    moving.release({"sglang/blocks.txt": b"first\n" + REPEATED})
    moving.move()
    assert (moving.tree_of() / "blocks.txt").read_bytes() == b"first\n" + BLOCK + BLOCKS


def test_a_repeated_block_is_a_trap(moving: RebaseWorld, tmp_path: Path) -> None:
    """The control of the test above: git am takes the wrong block and says nothing."""
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "--quiet")
    commit(tree, "release\n", {f"{PYTHON}/blocks.txt": b"first\n" + REPEATED})
    git(tree, "am", "--quiet", str(moving.series / FILES[1]))
    assert (tree / PYTHON / "blocks.txt").read_bytes() != b"first\n" + BLOCK + BLOCKS


def test_a_patch_that_upstream_took(moving: RebaseWorld) -> None:
    moving.release({"sglang/blocks.txt": BLOCKS})
    report = moving.move()
    assert statuses(report) == {"flag": "unchanged", "block": "dropped", "text": "unchanged"}
    assert details(report, "block") == f"already in {NEXT}: it changes nothing there"
    assert list(moving.moved()) == [FILES[0], "0002-text.patch", "lock.toml", "series"]


def test_a_patch_that_upstream_took_and_more(moving: RebaseWorld) -> None:
    """Upstream's change holds the patch's, in the same file and elsewhere."""
    more = text({**PATCHED, 5: "line 5, upstream\n"})
    moving.release({"sglang/srt/text.txt": more, "sglang/srt/new.py": b"NEW = True\n"})
    report = moving.move()
    assert statuses(report)["text"] == "dropped"
    assert (moving.tree_of() / "srt" / "text.txt").read_bytes() == more


def test_half_of_a_patch_that_upstream_took(moving: RebaseWorld) -> None:
    """The control of the tests above: what is left of the patch stays a patch."""
    moving.release({"sglang/srt/text.txt": text(PATCHED)})
    report = moving.move()
    assert statuses(report)["text"] == "changed"
    assert f"other files: {TEXT} -> nothing" in details(report, "text")
    assert (moving.tree_of() / "srt" / "new.py").exists()


def test_everything_is_upstream(moving: RebaseWorld) -> None:
    taken = {"sglang/srt/args.py": FLAG, "sglang/blocks.txt": BLOCKS}
    moving.release(
        {**taken, "sglang/srt/text.txt": text(PATCHED), "sglang/srt/new.py": b"NEW = True\n"}
    )
    outcome = moving.rebase("--from", "pin", "--onto", NEXT)
    assert outcome.code == 0, outcome.err
    assert "every patch was dropped" in outcome.err
    assert outcome.out == ""
    assert not moving.context.series_dir(NEXT).exists()
    assert not moving.context.rebase.exists()


@pytest.mark.parametrize("new", ["sglang/srt/prose.txt", "sglang/elsewhere/deep/text.txt"])
def test_a_renamed_file(moving: RebaseWorld, new: str) -> None:
    content = text({1: "line 1, upstream\n"})
    moving.release({"sglang/srt/text.txt": None, new: content})
    report = moving.move()
    assert statuses(report)["text"] == "changed"
    assert f"other files: {TEXT} -> python/{new}" in details(report, "text")
    moved = moving.applied_revision(NEXT) / "python" / new
    assert moved.read_bytes() == text({**PATCHED, 1: "line 1, upstream\n"})
    fates = {file["path"]: file["fate"] for file in report["drift"]["files"]}
    assert fates[TEXT] == f"renamed to python/{new}"


def test_a_deleted_file(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/text.txt": None})
    outcome = moving.rebase("--from", NAME, "--onto", NEXT)
    moving.refused(outcome, 3, FILES[2], TEXT)
    assert "the new release does not have this file" in outcome.err
    moving.resolve({TEXT: None})
    report = moving.go_on("--continue")
    assert statuses(report)["text"] == "resolved"
    assert "by hand, and recorded" in details(report, "text")
    assert list((moving.tree_of() / "srt").glob("text*")) == []


def test_a_new_file_that_upstream_has_too(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/new.py": b"NEW = False\n"})
    outcome = moving.rebase("--from", NAME, "--onto", NEXT)
    moving.refused(outcome, 3, FILES[2], f"{PYTHON}/srt/new.py")
    assert "the new release has a file of this name too" in outcome.err


def test_a_new_file_that_upstream_has_alike(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/new.py": b"NEW = True\n"})
    assert statuses(moving.move())["text"] == "changed"


def test_back_and_forth(moving: RebaseWorld) -> None:
    """What moves without a conflict comes back as it was, byte for byte."""
    moving.release({"sglang/srt/text.txt": text({}, above=3)})
    moving.move()
    before = series_files(moving.series)
    for path in moving.series.iterdir():
        path.unlink()
    outcome = moving.rebase("--from", NEXT, "--onto", NAME)
    assert outcome.code == 0, outcome.err
    assert series_files(moving.series) == before


def test_a_series_is_not_written_over(moving: RebaseWorld) -> None:
    moving.release()
    moving.move()
    before = snapshot(moving.context.patches)
    outcome = moving.rebase("--from", NAME, "--onto", NEXT)
    moving.refused(outcome, 3, f"{NEXT} has a series already", "--replace")
    assert snapshot(moving.context.patches) == before


def test_a_series_is_replaced_when_asked(moving: RebaseWorld) -> None:
    moving.release()
    moving.move()
    before = moving.moved()
    folder = moving.context.series_dir(NEXT)
    (folder / FILES[0]).write_bytes(b"edited\n")
    (folder / "notes.md").write_text("kept\n")
    moving.move("--replace")
    assert moving.moved() == {**before, "notes.md": b"kept\n"}


def test_a_dry_run_touches_nothing(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/text.txt": text({}, above=3)})
    moving.release({"sglang/srt/text.txt": text({30: "line 30, upstream\n"})}, LATER)
    moving.release({"sglang/srt/other.py": b"OTHER = 2\n"}, LAST)
    names = (NEXT, LATER, LAST)
    onto = [word for name in names for word in ("--onto", name)]
    arguments = ("--from", NAME, *onto, "--dry-run", "--json", "--offline")
    moving.rebase(*arguments)  # imports the releases into the cache
    parts = (moving.root, moving.index, moving.context.repository, moving.context.wheels)
    before = snapshot(*parts)
    outcome = moving.rebase(*arguments)
    assert outcome.code == 1
    assert f"does not move onto {LATER} by itself" in outcome.err.splitlines()[-1]
    assert snapshot(*parts) == before
    reports = outcome.json["reports"]
    assert [report["onto"]["revision"] for report in reports] == list(names)
    assert [statuses(report)["text"] for report in reports] == ["moved", "conflict", "unchanged"]
    assert all(report["dry_run"] for report in reports)


def test_a_dry_run_goes_on_after_a_conflict(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/args.py": b'OPTIONS = ["--upstream"]\n\n\nDEFAULT = "none"\n'})
    report = moving.look(code=1)
    assert statuses(report) == {"flag": "conflict", "block": "unchanged", "text": "unchanged"}


def test_a_dry_run_without_findings(moving: RebaseWorld) -> None:
    """The control of the tests above."""
    moving.release()
    assert statuses(moving.look())["text"] == "unchanged"
    assert not moving.context.series_dir(NEXT).exists()


def test_a_release_without_patches(moving: RebaseWorld) -> None:
    moving.release()
    outcome = moving.rebase("--from", NEXT, "--onto", NAME)
    moving.refused(outcome, 2, f"{NEXT} has no patches to move")


def test_a_series_that_lists_nothing(moving: RebaseWorld) -> None:
    moving.release()
    folder = moving.context.series_dir(NEXT)
    folder.mkdir()
    (folder / "series").write_text("# none\n")
    for dry in ((), ("--dry-run",)):
        outcome = moving.rebase("--from", NEXT, "--onto", NAME, *dry)
        moving.refused(outcome, 2, f"{NEXT} has no patches to move")


def test_a_damaged_series(moving: RebaseWorld) -> None:
    moving.release()
    (moving.series / FILES[1]).write_bytes(b"edited\n")
    outcome = moving.rebase("--from", NAME, "--onto", NEXT)
    moving.refused(outcome, 4, FILES[1], "sha256")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("--from and --onto are needed",)),
        (("--from", "pin"), ("--from and --onto are needed",)),
        (("--from", "pin", "--onto", NEXT, "--onto", LATER), ("--dry-run alone",)),
        (("--from", "pin", "--onto", "pin"), (f"{NAME} is where the series is",)),
        (("--from", "v1.2.3", "--onto", "pin"), ("v1.2.3", "pin, v9.9.9")),
        (("--from", "pin", "--onto", "main"), ("'main' is not a release", "0.5.24")),
        (("--continue", "--from", "pin"), ("no other",)),
        (("--continue",), ("no rebase waits", "--from")),
        (("--skip", "a reason"), ("no rebase waits",)),
        (("--skip", " "), ("is not a reason",)),
        (("--abort",), ("no rebase waits",)),
        (("--abort", "--continue"), ("not allowed with",)),
        (("--from", "pin", "--onto", NEXT, "--python", "/no/such"), ("is not an interpreter",)),
        (("--from", "pin", "--onto", NEXT, "--python", "/etc/passwd"), ("is not an interpreter",)),
    ],
)
def test_usage(moving: RebaseWorld, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    before = snapshot(moving.root)
    moving.refused(moving.rebase(*arguments), 2, *words)
    assert snapshot(moving.root) == before


def test_a_refused_release(moving: RebaseWorld) -> None:
    with moving.context.revisions_file.open("a") as file:
        file.write('\n[refused]\n"v9.9.8" = "its server has no options"\n')
    outcome = moving.rebase("--from", NAME, "--onto", "9.9.8")
    moving.refused(outcome, 2, "v9.9.8 is not supported: its server has no options")


def test_the_lines_of_the_text_file() -> None:
    """What the tests above rely on: the text has no line twice."""
    assert len(set(LINES)) == len(LINES)
    assert RELEASE["sglang/srt/text.txt"] == text({})
