"""``patches/history.toml``: every commit that a series ever had keeps a trace."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from stack_world import NAME, PYTHON, World, commit, git, message, snapshot

from patchstack.base import Point
from patchstack.build import Applied, Stack
from patchstack.errors import ToolError
from patchstack.history import Replaced, Rewrite, parse_history, read_history, record
from patchstack.lock import read_lock

ENGINE = f"{PYTHON}/srt/engine.py"


def number(digit: int) -> str:
    return f"{digit:040x}"


def stack(*patches: tuple[str, int], base: int = 1) -> Stack:
    """Return a stack whose patches have the given slugs and commits."""
    applied = tuple(
        Applied(f"{place:04d}-{slug}.patch", slug, "0" * 64, number(id_), number(id_), number(9))
        for place, (slug, id_) in enumerate(patches, 1)
    )
    last = applied[-1].commit if applied else number(base)
    return Stack(Point(number(base), number(8)), applied, Point(last, number(9)))


def reworded() -> Stack:
    """Return a stack whose patch makes the old change in another commit."""
    new = stack(("a", 4))
    return replace(new, patches=(replace(new.patches[0], patch_id=number(2)),))


def history(world: World) -> list[dict[str, Any]]:
    return tomllib.loads(world.context.history_file.read_text())["rewrites"]


def test_an_amended_patch_leaves_its_old_commits(world: World) -> None:
    """The last two of three patches change: what they were and became is written down."""
    tree = world.applied()
    old = read_lock(world.series)
    git(tree, "reset", "--hard", "--quiet", "HEAD~2")
    commit(tree, message("odd-files"), {ENGINE: b"def start():\n    return 5\n"})
    world.exported("--reason", 'a "better" \\ way')
    new = read_lock(world.series)
    entry = history(world)[0]
    assert isinstance(entry.pop("date"), date)
    assert entry == {
        "revision": NAME,
        "reason": 'a "better" \\ way',
        "base": old.base.commit,
        "head": old.head.commit,
        "commits": [
            {"slug": "odd-files", "old": old.patches[1].commit, "new": new.patches[1].commit},
            {"slug": "drop-and-more", "old": old.patches[2].commit, "new": "dropped"},
        ],
    }


def test_the_reason_says_what_changed_where_nobody_did(world: World) -> None:
    tree = world.applied()
    git(tree, "reset", "--hard", "--quiet", "HEAD~2")
    commit(tree, message("odd-files"), {ENGINE: b"def start():\n    return 5\n"})
    commit(tree, message("new"), {ENGINE: b"def start():\n    return 6\n"})
    world.exported()
    assert history(world)[0]["reason"] == "changed odd-files; dropped drop-and-more; added new"


def test_a_second_change_comes_after_the_first(world: World) -> None:
    for content in (b"first\n", b"second\n"):
        tree = world.applied()
        git(tree, "reset", "--hard", "--quiet", "HEAD~1")
        commit(tree, message("drop-and-more"), {ENGINE: content})
        before = world.context.history_file
        text = before.read_text() if before.exists() else ""
        world.exported()
        assert before.read_text().startswith(text)
    first, second = (entry["commits"][0] for entry in history(world))
    assert first["new"] == second["old"]


def test_a_patch_on_top_changes_no_commit(world: World) -> None:
    """The control of the tests above."""
    commit(world.applied(), message("fourth"), {ENGINE: b"def start():\n    return 5\n"})
    world.exported()
    assert not world.context.history_file.exists()


def test_the_first_series_replaces_nothing(fresh: World) -> None:
    commit(fresh.applied(), message("first"), {ENGINE: b"def start():\n    return 5\n"})
    fresh.exported()
    assert not fresh.context.history_file.exists()


def test_a_history_that_cannot_be_read_stops_an_export(world: World) -> None:
    tree = world.applied()
    git(tree, "reset", "--hard", "--quiet", "HEAD~1")
    world.context.history_file.write_text("not toml")
    before = snapshot(world.context.patches)
    world.refused(world.export(), 4, "history.toml", "git checkout")
    assert snapshot(world.context.patches) == before


@pytest.mark.parametrize("reason", ["", " ", "two\nlines"])
def test_a_reason_that_is_not_one_line(world: World, reason: str) -> None:
    world.applied()
    world.refused(world.export("--reason", reason), 2, "--reason")


def test_a_killed_export_is_recorded_once(tmp_path: Path) -> None:
    """The history is written before the series, so a run after a kill comes by again."""
    path = tmp_path / "history.toml"
    old, new = stack(("a", 2), ("b", 3)), stack(("a", 4), ("b", 5))
    assert record(path, NAME, old, new, None)
    text = path.read_text()
    assert not record(path, NAME, old, new, "another reason")
    assert path.read_text() == text
    assert record(path, NAME, old, stack(("a", 6), ("b", 7)), None), "it was changed in between"
    assert record(path, NAME, stack(("a", 6), ("b", 7)), old, None)
    assert [rewrite.commits[0].new for rewrite in read_history(path)] == [
        number(4), number(6), number(2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (reworded(), "reworded or reordered"),
        (stack(("a", 4), base=7), "changed a; moved to another base"),
        (stack(("b", 4)), "dropped a; added b"),
        (stack(), "dropped a"),
    ],
)
def test_what_a_reason_can_say(tmp_path: Path, new: Stack, reason: str) -> None:
    old = stack(("a", 2))
    assert record(tmp_path / "h.toml", NAME, old, new, None)
    assert [rewrite.reason for rewrite in read_history(tmp_path / "h.toml")] == [reason]


GOOD = f"""\
[[rewrites]]
revision = "{NAME}"
date = 2026-11-30
reason = "why"
base = "{number(1)}"
head = "{number(2)}"
commits = [{{ slug = "a", old = "{number(2)}", new = "dropped" }}]
"""


def test_a_good_file_reads() -> None:
    """The control of the test below."""
    dropped = Replaced("a", number(2), None)
    expected = Rewrite(NAME, date(2026, 11, 30), "why", number(1), number(2), (dropped,))
    assert parse_history("h", GOOD.encode()) == (expected,)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[[rewrites]]", "[rewrites]"),
        ("date = 2026-11-30", 'date = "2026-11-30"'),
        ("date = 2026-11-30", "date = 2026-11-30T00:00:00Z"),
        ('reason = "why"', 'reason = ""'),
        ('reason = "why"\n', ""),
        (f'head = "{number(2)}"', 'head = "2"'),
        ('new = "dropped"', 'new = "gone"'),
        ('new = "dropped"', f'new = "{number(2)}"'),
        ('slug = "a", ', ""),
        ("commits = [{", 'more = "x"\ncommits = [{'),
        ("why", "\udcff"),
    ],
)
def test_a_file_that_cannot_be_read(old: str, new: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    with pytest.raises(ToolError, match=r"h cannot be read.*git checkout"):
        parse_history("h", text.encode("utf-8", "surrogateescape"))
