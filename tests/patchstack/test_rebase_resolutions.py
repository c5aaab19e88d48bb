"""Conflicts taken apart, and resolutions kept as readable files."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.conflict import Hunk, conflict_key, has_markers, parse_conflict
from patchstack.errors import Exit, ToolError
from patchstack.records import Records, read_records
from patchstack.resolutions import Resolution
from patchstack.reworks import Rework

ONE = b"""\
before
<<<<<<< HEAD
new release
||||||| parent of 1234 (patch)
old release
=======
patch
>>>>>>> 1234 (patch)
after
"""
TWO = ONE + b"between\n" + ONE
HUNK = Hunk(b"new release\n", b"old release\n", b"patch\n")


def resolution(**changes: object) -> Resolution:
    fields = {
        "path": "python/sglang/a.py",
        "slug": "some-patch",
        "origin": "v1.0.0",
        "target": "v1.1.0",
        "hunks": (HUNK,),
        "resolved": (b"both\n",),
    }
    return Resolution(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_conflict_is_taken_apart_and_put_together() -> None:
    text = parse_conflict(TWO)
    assert text is not None
    assert text.hunks == (HUNK, HUNK)
    assert text.agreed == (b"before\n", b"after\nbetween\nbefore\n", b"after\n")
    whole = text.resolve((b"first\n", b""))
    assert whole == b"before\nfirst\nafter\nbetween\nbefore\nafter\n"
    assert text.split(whole) == (b"first\n", b"")


@pytest.mark.parametrize(
    ("resolved", "why"),
    [
        (b"elsewhere\nfirst\nafter\nbetween\nbefore\nafter\n", "a change before the first hunk"),
        (b"before\nfirst\nafter\nBETWEEN\nbefore\nafter\n", "a change between the hunks"),
        (b"before\n" + b"after\nbetween\nbefore\n" * 2 + b"after\n", "it fits in two ways"),
        (b"before\n", "shorter than what both sides agree on"),
    ],
)
def test_a_resolution_that_is_not_in_the_hunks(resolved: bytes, why: str) -> None:
    text = parse_conflict(TWO)
    assert text is not None
    assert text.split(resolved) is None, why


@pytest.mark.parametrize(
    "data",
    [
        b"no conflict\n",
        ONE.replace(b"patch\n>", b"patch\n=======\n>"),  # which of two separators is git's?
        ONE.replace(b"||||||| parent of 1234 (patch)\n", b""),  # not in the style diff3
        ONE.split(b">>>>>>>")[0],
    ],
)
def test_what_cannot_be_taken_apart(data: bytes) -> None:
    assert parse_conflict(data) is None


def test_markers_are_found() -> None:
    assert has_markers(ONE)
    assert has_markers(b"text\n>>>>>>> 1234\n")
    assert not has_markers(b"Title\n=======\n<<<<<<<not a marker\n")


def test_the_key_is_of_the_conflict_alone() -> None:
    """Labels and places have no part in it; the path and each side have."""
    text, other = (
        parse_conflict(ONE),
        parse_conflict(ONE.replace(b"1234", b"99").replace(b"ef", b"e")),
    )
    assert text is not None and other is not None
    key = conflict_key("a.py", text.hunks)
    assert key == conflict_key("a.py", other.hunks)
    others = [
        conflict_key("b.py", text.hunks),
        conflict_key("a.py", (HUNK, HUNK)),
        conflict_key("a.py", (Hunk(b"", HUNK.base, HUNK.theirs),)),
        conflict_key("a.py", (Hunk(HUNK.ours, b"", HUNK.theirs),)),
        conflict_key("a.py", (Hunk(HUNK.ours, HUNK.base, b""),)),
        conflict_key("a.py", (Hunk(HUNK.theirs, HUNK.base, HUNK.ours),)),
    ]
    assert len({key, *others}) == len(others) + 1


@given(st.lists(st.text(), min_size=4, max_size=4), st.text(min_size=1))
def test_any_text_survives_its_file(parts: list[str], path: str) -> None:
    *sides, resolved = (part.encode("utf-8", "replace") for part in parts)
    path = path.encode("utf-8", "replace").decode()
    made = resolution(path=path, hunks=(Hunk(*sides),), resolved=(resolved,))
    assert Resolution.parse(made.to_bytes()) == made


def test_the_file_is_readable() -> None:
    code = b'\tif a == "b":\n        """Say\\n it."""\r\n'
    text = resolution(resolved=(code,)).to_bytes().decode()
    assert 'resolved = """\n\tif a == "b":\n' in text
    assert 'ours = """\nnew release\n"""' in text
    assert tomllib.loads(text)["hunks"][0]["resolved"].encode() == code


def test_what_is_not_text_has_no_file() -> None:
    with pytest.raises(UnicodeDecodeError):
        resolution(resolved=(b"\xff\n",)).to_bytes()


def test_the_recorded_ones_are_found_by_key(tmp_path: Path) -> None:
    made, other = resolution(), resolution(path="python/sglang/b.py")
    for each in (made, other):
        (tmp_path / each.name).write_bytes(each.to_bytes())
    (tmp_path / "README.md").write_text("a note is welcome\n")
    found = Records.of(*read_records(tmp_path))
    assert found == Records({made.key: made, other.key: other}, {})
    assert read_records(tmp_path / "absent") == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [("old release", "another release"), ("key =", "kee ="), ('"""', "'''"), ("[[hunks]]", "")],
)
def test_an_edited_file_is_refused(tmp_path: Path, old: str, new: str) -> None:
    made = resolution()
    text = made.to_bytes().decode()
    assert old in text
    (tmp_path / made.name).write_text(text.replace(old, new, 1))
    with pytest.raises(ToolError) as caught:
        read_records(tmp_path)
    assert made.name in str(caught.value)
    assert caught.value.exit_code == Exit.UPSTREAM


def test_the_resolved_text_may_be_edited(tmp_path: Path) -> None:
    """The control of the test above: a better resolution of the same conflict is welcome."""
    made = resolution()
    (tmp_path / made.name).write_text(made.to_bytes().decode().replace("both", "better"))
    (better,) = read_records(tmp_path)
    assert better == resolution(resolved=(b"better\n",))


REWORK = Rework("some-patch", "v1.0.0", "v1.1.0", "none", b"diff --git a/x b/x\n\xff\n")


def test_any_change_survives_its_file() -> None:
    assert Rework.parse(REWORK.to_bytes()) == REWORK
    taken = replace(REWORK, conflicts="ab12", diff=b"")
    assert Rework.parse(taken.to_bytes()) == taken
    assert Records.of(taken, REWORK).reworks == {REWORK.name: REWORK}, "the later one counts"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"patch: ", b"path: "),
        (b"onto: v1.1.0\n", b""),
        (b"\n\n", b"\nmore: 1\n\n"),
        (b"none", b"\xff"),
    ],
)
def test_an_edited_change_is_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    data = REWORK.to_bytes()
    assert old in data
    (tmp_path / REWORK.name).write_bytes(data.replace(old, new, 1))
    with pytest.raises(ToolError) as caught:
        read_records(tmp_path)
    assert REWORK.name in str(caught.value)
    assert caught.value.exit_code == Exit.UPSTREAM
