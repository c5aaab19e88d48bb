"""A commit becomes a mail patch and comes back the same, whatever the files hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_world import message

from patchstack.base import Point
from patchstack.build import build_stack
from patchstack.mail import format_mail, read_trailers
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.series import PatchFile

# Short lines that patches and mails read as their own, and bytes that text tools trip over.
LINES = st.sampled_from([
    b"same", b"other", b"", b" ", b"\t", b"---", b"--- a/file", b"+++ b/file", b"-- ", b"-",
    b"@@ -1 +1 @@", b"diff --git a/x b/x", b"index 0..1", b"From 0 Mon Sep 17 00:00:00 2001",
    b"From: x <x@y>", b"Subject: x", b">From", b"\\ No newline at end of file", b"\r", b"a\rb",
    b"\xff\xfe", "é".encode(), b"trailing  ", b"=3D=\t", b"begin 644 x",
])  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\r\n", b""])
TEXT = st.builds(
    lambda lines, end, last: end.join(lines) + last, st.lists(LINES, max_size=12), ENDS, ENDS
)
CONTENT = TEXT | st.binary(max_size=40)


def two_commits(repository: Repository, before: bytes, after: bytes) -> tuple[Point, Point]:
    """Commit ``before`` and on top of it ``after``, with no help from a work tree."""
    points = []
    parent: list[str] = []
    for content in (before, after):
        blob = repository.line("hash-object", "-w", "--stdin", stdin=content)
        tree = repository.line("mktree", stdin=f"100644 blob {blob}\tfile\n".encode())
        text = message("some-change").encode()
        commit = repository.line("commit-tree", tree, *parent, "-F", "-", stdin=text)
        points.append(Point(commit, tree))
        parent = ["-p", commit]
    return points[0], points[1]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a bare repository."""
    return Repository.create(tmp_path_factory.mktemp("mail") / "repository.git")


@pytest.mark.usefixtures("isolated")
@settings(max_examples=40, deadline=None)
@given(before=CONTENT, after=CONTENT)
def test_any_content_survives(repository: Repository, before: bytes, after: bytes) -> None:
    base, change = two_commits(repository, before, after)
    if base.tree == change.tree:
        return
    data = format_mail(repository, change.commit)
    patch = PatchFile("0001-some-change.patch", data)
    stack = build_stack(repository, base, (patch,), Progress(quiet=True))
    assert stack.head.tree == change.tree
    assert format_mail(repository, stack.head.commit) == data


@pytest.mark.usefixtures("isolated")
def test_trailers(repository: Repository) -> None:
    text = message("slug").replace("Why: a test", "Why: a test\n  on two lines")
    text += "Why: again\nSigned-off-by: Ann <ann@example.org>\n"
    assert read_trailers(repository, text.encode()) == {
        "HiQ-Patch": "slug",
        "Why": "a test on two lines",
        "Upstream": "none, a test",
        "Drop-when": "never",
        "Signed-off-by": "Ann <ann@example.org>",
    }


def test_a_patch_file_has_a_name_of_one_form() -> None:
    for name in ("x.patch", "1-x.patch", "0001-X.patch", "0001-x.diff", "../0001-x.patch"):
        with pytest.raises(ValueError, match=r"not NNNN-slug\.patch"):
            PatchFile(name, b"")
    assert PatchFile("0012-a-b2.patch", b"").slug == "a-b2"
