"""What a rebase reports, to a person and to a program."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rebase_world import FILES, LATER, NEXT, RebaseWorld, text
from stack_world import NAME, PYTHON, git

from patchstack.drift import Change
from patchstack.rebase_report import fenced

TEXT = f"{PYTHON}/srt/text.txt"
START = ("--from", NAME, "--onto", NEXT)


def drift_of(report: Any, path: str) -> dict[str, Any]:
    (file,) = (file for file in report["drift"]["files"] if file["path"] == path)
    return dict(file)


@pytest.mark.parametrize(
    ("changed", "near", "lines"),
    [
        (2, 2, {27: "upstream\n"}),
        (2, 2, {20: "upstream\n"}),
        (2, 0, {19: "upstream\n"}),
        (2, 2, {40: "upstream\n"}),
        (2, 0, {41: "upstream\n"}),
        (4, 2, {25: "upstream\n", 55: "upstream\n"}),
        (1, 1, {33: ""}),
        (3, 0, {50: "line 50\none\ntwo\nthree\n"}),
    ],
)
def test_drift(moving: RebaseWorld, changed: int, near: int, lines: dict[int, str]) -> None:
    """Counted as a diff counts: a changed line is one removed and one added."""
    moving.release({"sglang/srt/text.txt": text(lines), "sglang/srt/other.py": b"OTHER = 2\n"})
    report = moving.look()
    assert report["drift"]["changed_files"] == 2
    assert drift_of(report, TEXT) == {
        "path": TEXT, "changed": changed, "near": near, "fate": "changed",
    }  # fmt: skip
    assert drift_of(report, f"{PYTHON}/blocks.txt")["fate"] == "same"


def test_drift_of_files_that_come_and_go(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/text.txt": None, "sglang/srt/new.py": b"one\ntwo\n"})
    report = moving.look(code=1)
    assert drift_of(report, TEXT)["fate"] == "deleted"
    assert drift_of(report, TEXT)["changed"] == drift_of(report, TEXT)["near"] == 60
    assert drift_of(report, f"{PYTHON}/srt/new.py")["fate"] == "added"
    moving.release({}, LATER)
    paths = [file["path"] for file in moving.look(LATER)["drift"]["files"]]
    assert f"{PYTHON}/srt/new.py" not in paths, "a file of the patches alone drifts nowhere"


@pytest.mark.parametrize(
    ("first", "second", "near"),
    [
        (Change(10, 1, 1), Change(20, 1, 1), True),
        (Change(10, 1, 1), Change(21, 1, 1), False),
        (Change(10, 5, 0), Change(24, 1, 1), True),
        (Change(10, 0, 3), Change(19, 0, 1), True),
        (Change(10, 0, 3), Change(20, 0, 1), False),
        (Change(10, 9, 1), Change(12, 1, 1), True),
    ],
)
def test_near(first: Change, second: Change, near: bool) -> None:
    assert first.is_near(second) is near
    assert second.is_near(first) is near


def test_the_report_for_a_person(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/text.txt": text({}, above=3), "sglang/blocks.txt": b"x | y\n"})
    outcome = moving.rebase(*START, "--report", str(moving.root / "out" / "report.md"))
    assert outcome.code == 3
    outcome = moving.rebase("--skip", "a | b", "--report", str(moving.root / "out" / "report.md"))
    assert outcome.code == 0
    assert outcome.out == f"{moving.context.series_dir(NEXT)}\n"
    assert "Range-diff" not in outcome.err, "it is in the file"
    lines = (moving.root / "out" / "report.md").read_text().splitlines()
    assert lines[0] == f"# {NAME} onto {NEXT}"
    assert "3 patches: 1 unchanged, 1 dropped, 1 moved." in lines
    rows = [line for line in lines if line.startswith(("| 1 ", "| 2 ", "| 3 "))]
    assert [row.split(" | ")[1:3] for row in rows] == [
        [FILES[0], "="], [FILES[1], "-"], [FILES[2], "~"],
    ]  # fmt: skip
    assert "dropped; a \\| b" in rows[1]
    assert "compiles, names: ok; imports, shows: not checked" in rows[0]
    assert f"| {TEXT} | changed | 3 | 0 |" in lines
    assert "2 files differ between the releases." in lines
    assert lines[-1] == "```" and any(line.startswith("2:  ") for line in lines)
    assert "not pinned" not in "\n".join(lines)


def test_the_report_without_a_file(moving: RebaseWorld) -> None:
    """It goes to standard error, for standard output is the result's."""
    moving.release()
    outcome = moving.rebase(*START, "--quiet")
    assert outcome.err.startswith(f"# {NAME} onto {NEXT}\n")
    assert outcome.out == f"{moving.context.series_dir(NEXT)}\n"


def test_a_dry_run_says_so(moving: RebaseWorld) -> None:
    moving.release()
    moving.release({}, LATER)
    outcome = moving.rebase(*START, "--onto", LATER, "--dry-run", "--quiet")
    heads = [line for line in outcome.err.splitlines() if line.startswith("# ")]
    assert heads == [f"# Dry run: {NAME} onto {NEXT}", f"# Dry run: {NAME} onto {LATER}"]
    assert outcome.out == ""


def test_the_report_for_a_program(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/text.txt": text({}, above=3)})
    outcome = moving.rebase(*START, "--json", "--report", str(moving.root / "report.md"))
    assert outcome.code == 0
    table = json.loads(outcome.out)
    assert table["series"] == str(moving.context.series_dir(NEXT))
    assert table["stopped"] is None
    (report,) = table["reports"]
    assert report["from"] == NAME and report["dry_run"] is False
    assert report["onto"]["revision"] == NEXT and report["onto"]["pinned_before"] is True
    assert report["counts"] == {"unchanged": 2, "moved": 1}
    tree = moving.applied_revision(NEXT)
    commits = git(tree, "rev-list", "--reverse", "refs/hiqcache/base..HEAD").split()
    assert [patch["new"] for patch in report["patches"]] == commits
    assert report["onto"]["base"]["commit"] == git(tree, "rev-parse", "refs/hiqcache/base")
    assert [patch["file"] for patch in report["patches"]] == list(FILES)
    assert (moving.root / "report.md").read_text().startswith("# ")


def test_the_range_diff_is_git_s(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/text.txt": text({27: "line 27, upstream\n"})})
    report = moving.move()
    lines = report["range_diff"].splitlines()
    assert [line[:14].split(":")[0] for line in lines if line[:1].isdigit()] == ["1", "2", "3"]
    assert "- line 27" in report["range_diff"] and "+ line 27, upstream" in report["range_diff"]


def test_a_fence_that_the_report_holds() -> None:
    """A patch of Markdown does not end the report's own block."""
    assert fenced("a\n```\nb\n") == ["````text", "a\n```\nb", "````"]
    assert fenced("a\n") == ["```text", "a", "```"]
