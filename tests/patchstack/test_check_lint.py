"""The rules of one patch file: a good patch keeps them, and each is broken once."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.context import ROOT
from patchstack.lint import lint_patch
from patchstack.patch_lines import Role, read_lines
from patchstack.repository import Repository
from patchstack.series import PatchFile, read_series

pytestmark = pytest.mark.usefixtures("isolated")

NAME = "0001-good-change.patch"
PLACE = f"patches/v9.9.9/{NAME}"
# Context lines end in " #": an editor would take the space of an empty one away.
GOOD = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: =?UTF-8?q?Zo=C3=AB?= <zoe@example.org>
Date: Mon, 30 Nov 2026 00:00:01 +0000
Subject: [HiCache] Change the second of three blocks
MIME-Version: 1.0
Content-Type: text/plain; charset=UTF-8
Content-Transfer-Encoding: 8bit

A reason, with a dash - and → an arrow.

HiQ-Patch: good-change
Why: a test
Upstream: none; a test
Drop-when: never

diff --git a/python/sglang/a.py b/python/sglang/a.py
index e1ad4c53994b428799c3597d1ccc4a03907e35bf..82f67bc86b50317127fe7855942a19ef3b58544d 100644
--- a/python/sglang/a.py
+++ b/python/sglang/a.py
@@ -1,4 +1,4 @@ begin
 same
 #
-same
+changed
 last
@@ -9 +9,2 @@ here
-- a list
+-- two
+more
\\ No newline at end of file
diff --git a/python/sglang/new.py b/python/sglang/new.py
new file mode 100644
index 0000000000000000000000000000000000000000..d289a1d18d0ac70669beab24fa279b03b4f27df0
--- /dev/null
+++ b/python/sglang/new.py
@@ -0,0 +1,3 @@
+one
+
+two
""".replace("#\n", "\n")
BINARY = """\
diff --git a/python/sglang/b.dat b/python/sglang/b.dat
new file mode 100644
index 0000000000000000000000000000000000000000..d289a1d18d0ac70669beab24fa279b03b4f27df0
GIT binary patch
literal 4
LcmZQzWMT#Y01f~L

literal 0
HcmV?d00001

"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a bare repository."""
    return Repository.create(tmp_path_factory.mktemp("lint") / "repository.git")


def lint(repository: Repository, text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [str(found) for found in lint_patch(repository, PLACE, PatchFile(NAME, data))]


def test_a_good_patch(repository: Repository) -> None:
    """The control of every test below."""
    assert lint(repository, GOOD) == []


def test_the_series_of_this_project(repository: Repository) -> None:
    folders = sorted(path.parent for path in (ROOT / "patches").glob("*/series"))
    assert folders
    for folder in folders:
        for patch in read_series(folder):
            assert list(lint_patch(repository, patch.name, patch)) == []


BROKEN = [
    # What is replaced by what, the line and the start of what is found.
    ("From 0000", "From 1000", 1, "form: does not start with 'From 0000"),
    ("Date: Mon, 30 Nov 2026 00:00:01 +0000\n", "", 1, "form: has 0 Date: headers"),
    ("MIME-Version", "X-Mailer: x\nMIME-Version", 5, "form: 'X-Mailer: x' is no header of ours"),
    ("Subject: [HiCache]", "Subject: [PATCH 1/3]", 4, "subject: [PATCH] in the subject"),
    ("[HiCache] Change", "Change", 4, "subject: 'Change the second of three blocks' is not of"),
    ("[HiCache] Change", "[HiCache] change", 4, "subject: '[HiCache] change"),
    ("three blocks", "three blocks.", 4, "subject: '[HiCache] Change the second of three bl"),
    ("three blocks", "three blocks" + " more" * 8, 4, "subject: the subject has 83 characters"),
    ("A reason,", "---\nA reason,", 9, "form: '---' ends the message"),
    ("HiQ-Patch: good-change\n", "", 13, "trailer: HiQ-Patch: is not in the last paragraph"),
    ("Why: a test\n", "", 13, "trailer: Why: is not in the last paragraph"),
    ("Upstream: none; a test\n", "", 13, "trailer: Upstream: is not in the last paragraph"),
    ("Drop-when: never\n", "", 13, "trailer: Drop-when: is not in the last paragraph"),
    ("Why: a test", "Why:", 12, "trailer: Why: is empty"),
    ("Why: a test", "Why: a test\nWhy: two", 12, "trailer: Why: is there more than once"),
    ("none; a test", "soon", 13, "trailer: Upstream: soon is neither an address nor"),
    ("none; a test", "none", 13, "trailer: Upstream: none is neither an address nor"),
    ("Patch: good-change", "Patch: other", 11, "slug: HiQ-Patch: other is not what the file"),
    ("\n same", "\nsame", 21, "form: 'same' belongs to no part of a patch"),
    ("@@ -1,4", "@@ -1,3", 25, "form: ' last' belongs to no part of a patch"),
    (" \n-same", "\n-same", 22, "form: '' belongs to no part of a patch"),
    ("82f67bc86b50317127fe7855942a19ef3b58544d", "82f67bc", 17, "form: 'index e1ad4c53994b428"),
    (
        "index e1ad",
        "similarity index 90%\nindex e1ad",
        17,
        "form: 'similarity index 90%': a rename",
    ),
    ("+changed", "+changed ", 24, "whitespace: trailing whitespace"),
    ("+changed", "+  \tchanged", 24, "whitespace: space before tab in indent"),
    ("+changed", "+<<<<<<< ours", 24, "whitespace: a conflict marker was left"),
    ("index e1ad", "old mode 100644\nnew mode 100755\nindex e1ad", 17, "mode: 'old mode 100644'"),
    ("new file mode 100644", "new file mode 100755", 32, "mode: 'new file mode 100755' is not"),
    ("544d 100644", "544d 120000", 17, "mode: 'index e1ad4c53994b428799c3597d1ccc4a0390"),
    ("a/python/sglang/a.py b/python/sglang/a.py", "a/setup.py b/setup.py", 16, "path: 'diff --"),
    ("a.py b/python/sglang/a.py", "a.py b/python/sglang/b.py", 16, "path: 'diff --git a/python"),
    ("+two\n", "+two\n-- \n2.39.5\n", 40, "form: '-- ' belongs to no part of a patch"),
    ("+two\n", "+two\n" + BINARY, 43, "binary: nobody can review a binary change"),
    ("+two\n", "+two", 39, "form: the last line has no line feed"),
]


@pytest.mark.parametrize(("old", "new", "line", "what"), BROKEN)
def test_a_broken_rule(repository: Repository, old: str, new: str, line: int, what: str) -> None:
    assert old in GOOD
    found = lint(repository, GOOD.replace(old, new, 1))
    assert any(text.startswith(f"{PLACE}:{line}: {what}") for text in found), found


def test_a_broken_rule_breaks_no_other(repository: Repository) -> None:
    """Most mistakes are one finding, so that a list of them can be worked through."""
    alone = [
        (old, new)
        for old, new, _, what in BROKEN
        if not any(
            word in what for word in ("does not start", "Date:", "'---'", "belongs", "old mode")
        )
    ]
    assert len(alone) > 20
    for old, new in alone:
        assert len(lint(repository, GOOD.replace(old, new, 1))) == 1, (old, new)


def test_everything_is_found_at_once(repository: Repository) -> None:
    text = GOOD.replace("Why: a test", "Why:").replace("+changed", "+changed ")
    text = text.replace("none; a test", "soon").replace("three blocks", "blocks.")
    assert [found.split(": ")[1] for found in lint(repository, text)] == [
        "subject", "trailer", "trailer", "whitespace",
    ]  # fmt: skip


def test_line_ends_are_one_finding(repository: Repository) -> None:
    found = lint(repository, GOOD.replace("\n", "\r\n").encode())
    assert f"{PLACE}:1: form: {GOOD.count(chr(10))} lines hold a carriage return" in found[0]
    assert not any("whitespace" in line for line in found)


@pytest.mark.parametrize("data", [b"", b"not a patch\n", b"\xff\xfe\x00", GOOD.encode()[:600]])
def test_what_is_no_patch(repository: Repository, data: bytes) -> None:
    assert lint(repository, data)


def test_every_line_has_one_role() -> None:
    lines = read_lines(GOOD.encode())
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert b"\n".join(line.text for line in lines) + b"\n" == GOOD.encode()
    roles = [line.role for line in lines]
    assert set(roles) == set(Role) - {Role.BINARY, Role.STRAY}
    assert roles.count(Role.FILE) == 2
    assert [line.text for line in lines if line.role is Role.REMOVED] == [b"-same", b"-- a list"]


def test_binary_data_is_not_read_as_a_diff() -> None:
    data = GOOD + BINARY.replace("LcmZQzWMT#Y01f~L", "+++ @@ -1 +1 @@") + BINARY
    roles = [line.role for line in read_lines(data.encode())]
    assert roles.count(Role.FILE) == 4
    assert Role.STRAY not in roles


def test_the_rules_name_lines_of_the_file(repository: Repository, tmp_path: Path) -> None:
    """What git says of a line is about the file, not about the diff in it."""
    text = GOOD.replace("+changed", "+changed ").replace("A reason", "One.\n\nTwo.\n\nA reason")
    (found,) = lint(repository, text)
    number = int(found.split(":")[1])
    assert text.splitlines()[number - 1] == "+changed "
