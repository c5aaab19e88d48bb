"""One commit as one mail patch, and back, in a form that is the same whoever writes it.

The form is that of ``git format-patch`` without what changes by itself: no commit id, no number
or ``[PATCH]`` in the subject, no git version at the end, no diffstat, no rename detection, blob
ids in full. Reading goes through ``git mailinfo``, which keeps ``[brackets]`` in a subject.

Mail cannot carry every message (a ``---`` line, a body that starts like a header); whoever
writes patches must therefore read them back and compare, as `patchstack.exporting` does.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import Exit, ToolError
from patchstack.repository import Repository

SLUG_TRAILER = "HiQ-Patch"
TRAILERS = (SLUG_TRAILER, "Why", "Upstream", "Drop-when")

_FORMAT = (
    "--stdout",
    "--keep-subject",
    "--zero-commit",
    "--no-signature",
    "--encode-email-headers",
    "--no-numbered",
    "--no-to",
    "--no-cc",
    "--no-from",
    "--no-add-header",
    "--no-attach",
    "--no-thread",
    "--no-signoff",
    "--no-notes",
    "--no-cover-letter",
    "--no-base",
    "--no-stat",
)
DIFF = (
    "--binary",
    "--full-index",
    "--unified=3",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--indent-heuristic",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
    "-O/dev/null",
)
_INDEX_LINE = re.compile(rb"^index ([0-9a-f]{40})\.\.([0-9a-f]{40})(?: [0-7]{6})?$", re.MULTILINE)


@dataclass(frozen=True)
class Mail:
    """A mail patch, read.

    Parameters
    ----------
    author, email, date
        Who wrote the change and when, as the mail has it.
    message
        The commit message.
    diff
        The change.
    """

    author: str
    email: str
    date: str
    message: bytes
    diff: bytes


def blob_ids(diff: bytes) -> list[tuple[str, str]]:
    """Return the full ids of contents that a diff, or a part of one, claims: before and after."""
    return [(old.decode(), new.decode()) for old, new in _INDEX_LINE.findall(diff)]


def changed_paths(repository: Repository, diff: bytes) -> list[str]:
    """Return the files that a diff changes, in its order."""
    listing = repository.run("apply", "--numstat", "-z", "-", stdin=diff)
    names = [entry.split(b"\t")[2] for entry in listing.split(b"\0")[:-1]]
    return [name.decode("utf-8", "surrogateescape") for name in names]


def format_mail(repository: Repository, commit: str) -> bytes:
    """Return ``commit`` as a mail patch."""
    return repository.run("format-patch", *_FORMAT, *DIFF, "-1", commit)


def read_mail(repository: Repository, name: str, data: bytes) -> Mail:
    """Read a mail patch.

    Parameters
    ----------
    repository
        Any repository; nothing is written to it.
    name
        The file's name, for the error.
    data
        The file's bytes.
    """
    with tempfile.TemporaryDirectory() as folder:
        body, diff = Path(folder) / "body", Path(folder) / "diff"
        answer = repository.ask(
            "mailinfo",
            "-b",
            "--no-scissors",
            "--encoding=UTF-8",
            "--quoted-cr=nowarn",
            str(body),
            str(diff),
            stdin=data,
        )
        if answer.status != 0:
            raise _unreadable(name, answer.err or "git cannot read it")
        lines = answer.out.decode("utf-8", "surrogateescape").splitlines()
        header = dict(line.split(": ", 1) for line in lines if ": " in line)
        if not {"Author", "Email", "Subject", "Date"} <= header.keys():
            raise _unreadable(name, "it lacks an author, a subject or a date")
        text = header["Subject"].encode("utf-8", "surrogateescape") + b"\n\n" + body.read_bytes()
        change = diff.read_bytes()
    if not change.strip():
        raise _unreadable(name, "it holds no change")
    message = repository.run("stripspace", stdin=text)
    return Mail(header["Author"], header["Email"], header["Date"], message, change)


def read_trailers(repository: Repository, message: bytes) -> dict[str, str]:
    """Return the trailers of a commit message, the first of each name."""
    options = ("--parse", "--no-divider")
    parsed = repository.run("interpret-trailers", *options, stdin=message)
    text = parsed.decode("utf-8", "surrogateescape")
    pairs = [line.split(":", 1) for line in text.splitlines() if ":" in line]
    return {key.strip(): value.strip() for key, value in reversed(pairs)}


def patch_id(repository: Repository, data: bytes) -> str:
    """Return git's stable id of the change in a mail patch."""
    return repository.line("patch-id", "--stable", stdin=data).split(" ")[0]


def _unreadable(name: str, reason: str) -> ToolError:
    return ToolError(
        f"{name} is not a usable mail patch: {reason}",
        "write it with tools/export.py",
        Exit.UPSTREAM,
    )
