"""A patch that needs the user: continue, skip, abort, and what is remembered of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rebase_world import (
    FILES,
    LATER,
    NEXT,
    RebaseWorld,
    checks,
    details,
    statuses,
    text,
)
from stack_world import NAME, PYTHON, git, message, series_files, snapshot

TEXT = f"{PYTHON}/srt/text.txt"
ARGS = f"{PYTHON}/srt/args.py"
UPSTREAM = {"sglang/srt/text.txt": text({30: "line 30, upstream\n", 50: "line 50, upstream\n"})}
OTHER = {"sglang/srt/text.txt": text({30: "line 30, another\n"})}
BOTH = text({30: "line 30, both\n", 50: "line 50, upstream\n"})
COMMANDS = (
    "tools/rebase.py --continue",
    "tools/rebase.py --skip REASON",
    "tools/rebase.py --abort",
)
START = ("--from", NAME, "--onto", NEXT)


@pytest.fixture
def stopped(moving: RebaseWorld) -> RebaseWorld:
    """Return a world in which the third patch waits for the user."""
    moving.release(UPSTREAM)
    moving.refused(moving.rebase(*START), 3, FILES[2])
    return moving


def resolutions(world: RebaseWorld) -> list[str]:
    return sorted(path.name for path in world.context.resolutions.glob("*"))


def refused_as_it_is(world: RebaseWorld, *words: str, code: int = 3) -> None:
    """Assert that --continue refuses, and that the user's tree and the project stay."""
    world.rebase("--continue")  # the index is refreshed once
    before = snapshot(world.context.patches), files(world.waiting)
    world.refused(world.rebase("--continue"), code, *words)
    assert (snapshot(world.context.patches), files(world.waiting)) == before


def files(tree: Path) -> dict[str, bytes]:
    """Return the files of a tree without its repository's."""
    return {
        str(path): path.read_bytes()
        for path in sorted(tree.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


def test_what_a_conflict_says(moving: RebaseWorld) -> None:
    moving.release(UPSTREAM)
    before = snapshot(moving.context.patches)
    outcome = moving.rebase(*START, "--quiet")
    line = moving.refused(outcome, 3, "patch 3/3", FILES[2], TEXT)
    assert all(command in line for command in COMMANDS)
    said = outcome.err.splitlines()
    assert f"patch 3/3: {FILES[2]} (text)" in said
    assert "tree: build/rebase/0003-text" in said
    assert f"conflict: {TEXT}" in said
    assert "    -line 30" in said and "    +line 30, upstream" in said
    assert "    +line 50, upstream" not in said, "that is not close to the patch"
    assert [line.split("  ")[1] for line in said if line.startswith("  tools/")] == list(COMMANDS)
    assert snapshot(moving.context.patches) == before
    assert (moving.waiting / ARGS).exists()
    assert "||||||| parent of" in (moving.waiting / TEXT).read_text()


def test_what_a_conflict_says_to_a_program(moving: RebaseWorld) -> None:
    moving.release({"sglang/blocks.txt": b"other\n"})
    outcome = moving.rebase(*START, "--json")
    assert outcome.code == 3
    report = outcome.json["reports"][0]
    assert statuses(report) == {"flag": "unchanged", "block": "conflict", "text": "not tried"}
    assert report["patches"][1]["conflicts"] == [f"{PYTHON}/blocks.txt"]
    assert outcome.json["series"] is None
    assert outcome.json["stopped"][0] == f"patch 2/3: {FILES[1]} (block)"


def test_an_upstream_change_is_shown_in_part(moving: RebaseWorld) -> None:
    """However much the release changed there."""
    lines = "".join(f"upstream {number}\n" for number in range(500))
    moving.release({"sglang/srt/text.txt": text({30: lines})})
    outcome = moving.rebase(*START)
    assert outcome.err.count("+upstream") < 50
    assert "lines more" in outcome.err


def test_what_looks_like_it_is_upstream(moving: RebaseWorld) -> None:
    """Upstream took the line and changed the ones beside it, which no merge can tell."""
    taken = text({29: "line 29, upstream\n", 30: "line 30, patched\n", 31: "line 31, upstream\n"})
    moving.release({"sglang/srt/text.txt": taken})
    outcome = moving.rebase(*START)
    assert outcome.code == 3
    assert "has every line that the patch adds there: perhaps --skip it" in outcome.err
    moving.rebase("--abort")


def test_what_does_not_look_like_it(stopped: RebaseWorld) -> None:
    """The control of the test above."""
    stopped.rebase("--abort")
    assert "perhaps --skip it" not in stopped.rebase(*START).err


def test_continue(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    report = stopped.go_on("--continue")
    assert statuses(report) == {"flag": "unchanged", "block": "unchanged", "text": "resolved"}
    assert details(report, "text") == f"conflict in {TEXT}; by hand, and recorded"
    assert (stopped.tree_of() / "srt" / "text.txt").read_bytes() == BOTH
    assert not stopped.context.rebase.exists()
    log = git(stopped.context.target(NEXT), "log", "-1", "--format=%an %s %at%n%B")
    assert log.startswith("Zoë Š [HiCache] Change text 1790000003")
    assert log.endswith(message("text").rstrip("\n"))


def test_continue_from_a_new_process(stopped: RebaseWorld) -> None:
    """With the words that were printed, in another folder, and the same result."""
    stopped.resolve({TEXT: BOTH})
    code = (
        "import sys; from pathlib import Path; import rebase; from patchstack.context import *;"
        "root, cache = map(Path, sys.argv[1:3]);"
        "sys.exit(rebase.main(sys.argv[3:], Context(root, root / 'patches', cache)))"
    )
    tools = Path(__file__).resolve().parents[2] / "tools"
    places = [str(stopped.root), str(stopped.context.cache)]
    done = subprocess.run(
        [sys.executable, "-c", code, *places, "--continue"], cwd="/", capture_output=True,
        text=True, check=False, env={"PYTHONPATH": str(tools), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{stopped.context.series_dir(NEXT)}\n"
    assert (stopped.tree_of() / "srt" / "text.txt").read_bytes() == BOTH


def test_continue_after_a_commit(stopped: RebaseWorld) -> None:
    """A user may commit too, and reword the message; author and date stay the patch's."""
    stopped.resolve({TEXT: BOTH})
    tree = stopped.waiting
    reworded = message("text", "[HiCache] Change it differently")
    git(tree, "commit", "--quiet", "--message", reworded)
    report = stopped.go_on("--continue")
    assert statuses(report)["text"] == "resolved"
    target = stopped.applied_revision(NEXT)
    said = git(target, "log", "-1", "--format=%an %at %s")
    assert said == "Zoë Š 1790000003 [HiCache] Change it differently"


def test_continue_after_git_itself_continued(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    git(stopped.waiting, "-c", "core.editor=true", "cherry-pick", "--continue")
    stopped.go_on("--continue")
    target = stopped.applied_revision(NEXT)
    assert git(target, "log", "-1", "--format=%B") == message("text").rstrip("\n")


def test_the_tree_of_a_hostile_user(stopped: RebaseWorld, user_home: Path) -> None:
    """Settings of the tree itself reach nothing."""
    with (stopped.waiting / ".git" / "config").open("a") as config:
        config.write((user_home / ".gitconfig").read_text())
    stopped.resolve({TEXT: BOTH})
    stopped.go_on("--continue")
    assert (stopped.tree_of() / "srt" / "text.txt").read_bytes() == BOTH


def test_not_resolved(stopped: RebaseWorld) -> None:
    refused_as_it_is(stopped, TEXT, "is not resolved", "git add")


def test_markers_left(stopped: RebaseWorld) -> None:
    git(stopped.waiting, "add", TEXT)
    refused_as_it_is(stopped, TEXT, "has conflict markers")


def test_not_staged(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    (stopped.waiting / ARGS).write_bytes(b"edited\n")
    refused_as_it_is(stopped, ARGS, "is not staged")


def test_not_added(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    (stopped.waiting / PYTHON / "forgotten.py").write_bytes(b"forgotten\n")
    refused_as_it_is(stopped, "forgotten.py", "is not staged")


def test_nothing_left(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: UPSTREAM["sglang/srt/text.txt"], f"{PYTHON}/srt/new.py": None})
    refused_as_it_is(stopped, "nothing of the patch is left", "--skip")


def test_two_commits(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    for number in range(2):
        options = ("--quiet", "--allow-empty", "--message", f"number {number}")
        git(stopped.waiting, "commit", *options)
    refused_as_it_is(stopped, "the patch became 2 commits", "git reset --soft")


def test_another_branch(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    git(stopped.waiting, "commit", "--quiet", "--message", "text")
    git(stopped.waiting, "reset", "--quiet", "--hard", "refs/hiqcache/base")
    (stopped.waiting / TEXT).write_bytes(BOTH)
    git(stopped.waiting, "add", TEXT)
    refused_as_it_is(stopped, "does not build on the patches before")


def test_a_message_without_trailers(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    git(stopped.waiting, "commit", "--quiet", "--message", "a message of mine")
    refused_as_it_is(stopped, "has no HiQ-Patch: trailer", code=1)


def test_a_message_of_another_patch(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    git(stopped.waiting, "commit", "--quiet", "--message", message("flag"))
    refused_as_it_is(stopped, "is not patch text", code=1)


def test_the_tree_is_gone(stopped: RebaseWorld) -> None:
    stopped.waiting.rename(stopped.root / "moved")
    stopped.refused(stopped.rebase("--continue"), 3, "0003-text is gone", "--abort")
    assert stopped.rebase("--abort").code == 0


@pytest.mark.parametrize("damage", ["", "{}", '{"format": 2}', "[]", "not json"])
def test_a_damaged_state(stopped: RebaseWorld, damage: str) -> None:
    (stopped.context.rebase / "state.json").write_text(damage)
    for arguments in (("--continue",), ("--skip", "a reason"), START):
        stopped.refused(stopped.rebase(*arguments), 3, "state.json", "--abort")
    assert stopped.rebase("--abort").code == 0
    assert not stopped.context.rebase.exists()


def test_a_second_rebase(stopped: RebaseWorld) -> None:
    stopped.release({}, LATER)
    before = snapshot(stopped.root)
    outcome = stopped.rebase("--from", NAME, "--onto", LATER)
    line = stopped.refused(outcome, 3, f"{NAME} onto {NEXT} waits at {FILES[2]}")
    assert all(command in line for command in COMMANDS)
    assert snapshot(stopped.root) == before


def test_a_dry_run_beside_it(stopped: RebaseWorld) -> None:
    stopped.release({}, LATER)
    before = snapshot(stopped.root)
    assert statuses(stopped.look(LATER))["text"] == "unchanged"
    assert snapshot(stopped.root) == before


def test_skip(stopped: RebaseWorld) -> None:
    report = stopped.go_on("--skip", "not needed any more")
    assert statuses(report) == {"flag": "unchanged", "block": "unchanged", "text": "dropped"}
    assert details(report, "text") == "not needed any more"
    assert list(stopped.moved()) == [*FILES[:2], "lock.toml", "series"]
    assert resolutions(stopped) == []
    assert not stopped.context.rebase.exists()


def test_skip_and_go_on(moving: RebaseWorld) -> None:
    """The patches after a dropped one are renumbered and applied without it."""
    moving.release({"sglang/srt/args.py": b'OPTIONS = ["--upstream"]\n\n\nDEFAULT = "none"\n'})
    moving.move(code=3)
    report = moving.go_on("--skip", "upstream has another")
    assert statuses(report) == {"flag": "dropped", "block": "unchanged", "text": "unchanged"}
    assert list(moving.moved()) == ["0001-block.patch", "0002-text.patch", "lock.toml", "series"]
    assert moving.applied_revision(NEXT).is_dir()


def test_abort(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    before = snapshot(stopped.context.patches)
    outcome = stopped.rebase("--abort")
    assert (outcome.code, outcome.out) == (0, "")
    assert snapshot(stopped.context.patches) == before
    assert not stopped.context.rebase.exists()
    stopped.refused(stopped.rebase("--continue"), 2, "no rebase waits")


def test_two_conflicts(moving: RebaseWorld) -> None:
    args = b'OPTIONS = ["--upstream"]\n\n\nDEFAULT = "none"\n'
    moving.release({**UPSTREAM, "sglang/srt/args.py": args})
    moving.move(code=3)
    assert moving.waiting.name == "0001-flag"
    resolved = b'OPTIONS = ["--upstream"]\nOPTIONS += ["--codec"]\n\n\nDEFAULT = "none"\n'
    moving.resolve({ARGS: resolved})
    report = moving.go_on("--continue", code=3)
    assert statuses(report) == {"flag": "resolved", "block": "unchanged", "text": "conflict"}
    assert moving.waiting.name == "0003-text"
    assert resolutions(moving) == [], "patches/ waits for the whole series"
    moving.resolve({TEXT: BOTH})
    report = moving.go_on("--continue")
    assert statuses(report) == {"flag": "resolved", "block": "unchanged", "text": "resolved"}
    assert len(resolutions(moving)) == 2
    assert (moving.tree_of() / "srt" / "args.py").read_bytes() == resolved


def test_a_resolution_is_used_again(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    stopped.go_on("--continue")
    (name,) = resolutions(stopped)
    recorded = (stopped.context.resolutions / name).read_text()
    assert f'path = "{TEXT}"' in recorded and 'slug = "text"' in recorded
    assert f'from = "{NAME}"' in recorded and f'to = "{NEXT}"' in recorded
    assert "line 30, both" in recorded and "line 50" not in recorded
    # Elsewhere in the file another release differs as much as it likes.
    later = text({30: "line 30, upstream\n", 55: "line 55, later\n"}, above=2)
    stopped.release({"sglang/srt/text.txt": later}, LATER)
    before = series_files(stopped.context.resolutions)
    report = stopped.move(onto=LATER)
    assert statuses(report)["text"] == "resolved"
    assert details(report, "text") == f"by the recorded {name}" or name in details(report, "text")
    expected = text({30: "line 30, both\n", 55: "line 55, later\n"}, above=2)
    assert (stopped.tree_of(LATER) / "srt" / "text.txt").read_bytes() == expected
    assert series_files(stopped.context.resolutions) == before


def test_a_dry_run_uses_it_too(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    stopped.go_on("--continue")
    report = stopped.look(NEXT)
    assert statuses(report)["text"] == "resolved"
    assert report["patches"][2]["recorded"] == resolutions(stopped)


def test_a_resolution_is_not_used_for_another_conflict(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    stopped.go_on("--continue")
    stopped.release(OTHER, LATER)
    assert statuses(stopped.move(onto=LATER, code=3))["text"] == "conflict"


def test_a_resolution_is_not_used_when_it_is_not_wanted(stopped: RebaseWorld) -> None:
    """And another one then takes its place."""
    stopped.resolve({TEXT: BOTH})
    stopped.go_on("--continue")
    (name,) = resolutions(stopped)
    stopped.move("--replace", "--no-resolutions", code=3)
    better = BOTH.replace(b"both", b"better")
    stopped.resolve({TEXT: better})
    stopped.go_on("--continue")
    assert resolutions(stopped) == [name]
    assert statuses(stopped.move("--replace"))["text"] == "resolved"
    assert (stopped.tree_of() / "srt" / "text.txt").read_bytes() == better


def test_a_damaged_resolution(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH})
    stopped.go_on("--continue")
    (name,) = resolutions(stopped)
    (stopped.context.resolutions / name).write_text("damaged\n")
    stopped.refused(stopped.rebase(*START, "--replace"), 4, name, "--no-resolutions")
    assert stopped.rebase(*START, "--replace", "--no-resolutions").code == 3


def test_one_of_two_conflicts_is_known(moving: RebaseWorld) -> None:
    """What is known is done and staged; the user sees to the rest."""
    moving.release(UPSTREAM)
    moving.move(code=3)
    moving.resolve({TEXT: BOTH})
    moving.go_on("--continue")
    (name,) = resolutions(moving)
    moving.release({**UPSTREAM, "sglang/srt/new.py": b"NEW = False\n"}, LATER)
    outcome = moving.rebase("--from", NAME, "--onto", LATER)
    moving.refused(outcome, 3, FILES[2])
    assert f"resolved by {name}" in outcome.err
    assert (moving.waiting / TEXT).read_bytes() == BOTH
    moving.resolve({f"{PYTHON}/srt/new.py": b"NEW = 2\n"})
    report = moving.go_on("--continue")
    assert "by hand, and recorded" in details(report, "text")
    assert len(resolutions(moving)) == 2
    assert (moving.tree_of(LATER) / "srt" / "text.txt").read_bytes() == BOTH


def test_a_known_conflict_that_leaves_nothing(moving: RebaseWorld) -> None:
    """A patch may end with its recorded resolution, as one that upstream took."""
    moving.release({"sglang/srt/args.py": b'OPTIONS = ["--upstream"]\n\n\nDEFAULT = "none"\n'})
    moving.move(code=3)
    kept = b'OPTIONS = ["--upstream"]\n# codec\n\n\nDEFAULT = "none"\n'
    moving.resolve({ARGS: kept})
    moving.go_on("--continue")
    (name,) = resolutions(moving)
    file = moving.context.resolutions / name
    file.write_text(file.read_text().replace("# codec\n", ""))
    report = moving.move("--replace")
    assert statuses(report)["flag"] == "dropped"
    assert name in details(report, "flag")


def test_the_json_of_the_state_is_whole(stopped: RebaseWorld) -> None:
    """Everything that a new process needs is in it, for a person who looks too."""
    state = json.loads((stopped.context.rebase / "state.json").read_text())
    assert state["origin"] == NAME and list(state["target"]) == [NEXT]
    assert state["tree"] == stopped.waiting.name
    assert [patch["file"] for patch in state["old"]["patches"]] == list(FILES)
    assert state["stopped"]["conflicts"] == [TEXT]
    assert len(state["moves"]) == 2


def test_the_smoke_gate_sees_what_the_user_made(stopped: RebaseWorld) -> None:
    stopped.resolve({TEXT: BOTH, f"{PYTHON}/srt/new.py": b"def broken(:\n"})
    outcome = stopped.rebase("--continue")
    stopped.refused(outcome, 1, FILES[2], "new.py", "--continue")
    stopped.resolve({f"{PYTHON}/srt/new.py": b"NEW = True\n"})
    assert checks(stopped.go_on("--continue"), "text")["compiles"] == "ok"
