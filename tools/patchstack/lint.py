"""The rules that one patch file keeps.

Each rule is a function that yields what breaks it, and all rules are tried on every file. What
the message says is read as apply reads it, through git; where a line is, through `patch_lines`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from patchstack.base import PREFIX
from patchstack.errors import ToolError
from patchstack.findings import Finding
from patchstack.mail import SLUG_TRAILER, TRAILERS, read_mail, read_trailers
from patchstack.patch_lines import Line, Role, read_lines
from patchstack.repository import Repository
from patchstack.series import PatchFile

SUBJECT_LENGTH = 72

_FIRST = b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001"
_HEADERS = (b"From:", b"Date:", b"Subject:")
_MIME_HEADERS = (b"MIME-Version:", b"Content-Type:", b"Content-Transfer-Encoding:")
_SUBJECT = re.compile(r"\[[A-Z][A-Za-z0-9]*\] [A-Z]\S.*[^.\s]")
_UPSTREAM = re.compile(r"https?://\S+|none\W+\w.*")
_FULL_INDEX = re.compile(rb"index [0-9a-f]{40}\.\.[0-9a-f]{40}( [0-7]{6})?")
_MODE = re.compile(rb"(?:new file mode|deleted file mode|index \S+) ([0-7]{6})")
_PLAIN = re.compile(rf"diff --git a/({PREFIX}/[\w./+-]+) b/\1".encode())
_MARKER = re.compile(rb"\+(<{7} |>{7} |\|{7} |={7}$)")
_WHITESPACE = re.compile(r"<stdin>:(\d+): (.*)\.")


@dataclass(frozen=True)
class _Subject:
    """A patch as the rules look at it.

    Parameters
    ----------
    place
        The file as findings name it.
    slug
        What the file's name says.
    lines
        Its lines.
    """

    place: str
    slug: str
    lines: tuple[Line, ...]

    def of(self, *roles: Role) -> list[Line]:
        """Return the lines that play one of the ``roles``."""
        return [line for line in self.lines if line.role in roles]

    def line_of(self, start: bytes, *roles: Role) -> int:
        """Return where a line starts with ``start``; the last line of ``roles`` if none does."""
        candidates = self.of(*roles)
        found = [line.number for line in candidates if line.text.startswith(start)]
        filled = [line.number for line in candidates if line.text.strip()]
        return (found or filled[-1:] or [1])[0]

    def finding(self, line: int, rule: str, what: str) -> Finding:
        """Return a finding in this file."""
        return Finding(self.place, line, rule, what)


def lint_patch(repository: Repository, place: str, patch: PatchFile) -> Iterator[Finding]:
    """Yield everything that is wrong with one patch.

    Parameters
    ----------
    repository
        Any repository; nothing is written to it.
    place
        The file as findings name it.
    patch
        The file.
    """
    subject = _Subject(place, patch.slug, read_lines(patch.data))
    yield from _form(subject, patch.data)
    yield from _header(subject)
    yield from _message(repository, subject, patch)
    yield from _whitespace(repository, subject, patch)
    yield from _files(subject)


def _form(subject: _Subject, data: bytes) -> Iterator[Finding]:
    carriage = [line.number for line in subject.lines if b"\r" in line.text]
    if carriage:
        what = f"{len(carriage)} lines hold a carriage return (CRLF line ends)"
        yield subject.finding(carriage[0], "form", what)
    if subject.lines and not data.endswith(b"\n"):
        yield subject.finding(len(subject.lines), "form", "the last line has no line feed")
    for line in subject.of(Role.STRAY):
        what = f"{_show(line)} belongs to no part of a patch (an edit by hand, a signature?)"
        yield subject.finding(line.number, "form", what)
    for line in subject.of(Role.META):
        if line.text.startswith(b"index ") and not _FULL_INDEX.fullmatch(line.text):
            yield subject.finding(line.number, "form", f"{_show(line)} has no full blob ids")
        if line.text.startswith((b"similarity ", b"dissimilarity ", b"rename ", b"copy ")):
            what = f"{_show(line)}: a rename is written as a deletion and a new file"
            yield subject.finding(line.number, "form", what)


def _header(subject: _Subject) -> Iterator[Finding]:
    lines = subject.of(Role.HEADER)
    if not lines or lines[0].text != _FIRST:
        yield subject.finding(1, "form", f"does not start with {_FIRST.decode()!r}")
    for line in lines[1:]:
        known = (*_HEADERS, *_MIME_HEADERS, b" ", b"\t")
        if line.text.strip() and not line.text.startswith(known):
            yield subject.finding(line.number, "form", f"{_show(line)} is no header of ours")
    for name in _HEADERS:
        count = sum(line.text.startswith(name) for line in lines)
        if count != 1:
            yield subject.finding(1, "form", f"has {count} {name.decode()} headers, wants 1")


def _message(repository: Repository, subject: _Subject, patch: PatchFile) -> Iterator[Finding]:
    for line in subject.of(Role.MESSAGE):
        if line.text.rstrip() == b"---":
            what = "'---' ends the message for mail programs; what follows it is lost"
            yield subject.finding(line.number, "form", what)
    try:
        mail = read_mail(repository, patch.name, patch.data)
    except ToolError as error:
        yield subject.finding(1, "form", error.message)
        return
    title = mail.message.split(b"\n", 1)[0].decode("utf-8", "replace")
    yield from _title(subject, title)
    yield from _trailers(subject, read_trailers(repository, mail.message))


def _title(subject: _Subject, title: str) -> Iterator[Finding]:
    line = subject.line_of(b"Subject:", Role.HEADER)
    if b"[PATCH" in subject.lines[line - 1].text:  # git leaves it out of the message
        what = "[PATCH] in the subject; write it with tools/export.py"
        yield subject.finding(line, "subject", what)
    elif not _SUBJECT.fullmatch(title):
        what = f"{title!r} is not of the form '[Area] Do one thing', without a final stop"
        yield subject.finding(line, "subject", what)
    if len(title) > SUBJECT_LENGTH:
        what = f"the subject has {len(title)} characters, wants {SUBJECT_LENGTH} at most"
        yield subject.finding(line, "subject", what)


def _trailers(subject: _Subject, trailers: dict[str, str]) -> Iterator[Finding]:
    for name in TRAILERS:
        start = f"{name}:".encode()
        line = subject.line_of(start, Role.MESSAGE)
        if name not in trailers:
            yield subject.finding(line, "trailer", f"{name}: is not in the last paragraph")
        elif not trailers[name]:
            yield subject.finding(line, "trailer", f"{name}: is empty")
        if sum(other.text.startswith(start) for other in subject.of(Role.MESSAGE)) > 1:
            yield subject.finding(line, "trailer", f"{name}: is there more than once")
    slug = trailers.get(SLUG_TRAILER)
    if slug and slug != subject.slug:
        line = subject.line_of(f"{SLUG_TRAILER}:".encode(), Role.MESSAGE)
        what = f"{SLUG_TRAILER}: {slug} is not what the file is called, {subject.slug}"
        yield subject.finding(line, "slug", what)
    upstream = trailers.get("Upstream")
    if upstream and not _UPSTREAM.fullmatch(upstream):
        line = subject.line_of(b"Upstream:", Role.MESSAGE)
        what = f"Upstream: {upstream} is neither an address nor 'none' with a reason"
        yield subject.finding(line, "trailer", what)


def _whitespace(repository: Repository, subject: _Subject, patch: PatchFile) -> Iterator[Finding]:
    answer = repository.ask("apply", "--numstat", "--whitespace=error-all", "-", stdin=patch.data)
    for number, what in _WHITESPACE.findall(answer.err):
        line = subject.lines[int(number) - 1]
        if not line.text.endswith(b"\r"):  # one finding says that of all lines
            yield subject.finding(line.number, "whitespace", what)
    for line in subject.of(Role.ADDED):
        if _MARKER.match(line.text):
            yield subject.finding(line.number, "whitespace", "a conflict marker was left")


def _files(subject: _Subject) -> Iterator[Finding]:
    for line in subject.of(Role.FILE):
        if not _PLAIN.fullmatch(line.text):
            what = f"{_show(line)} is not a file of plain name below {PREFIX}/"
            yield subject.finding(line.number, "path", what)
    for line in subject.of(Role.META):
        if line.text.startswith((b"old mode ", b"new mode ")):
            yield subject.finding(line.number, "mode", f"{_show(line)} changes a file's mode")
        elif (match := _MODE.fullmatch(line.text)) and match[1] != b"100644":
            yield subject.finding(line.number, "mode", f"{_show(line)} is not an ordinary file")
    yield from _binary(subject, subject.of(Role.BINARY))


def _binary(subject: _Subject, lines: Iterable[Line]) -> Iterator[Finding]:
    for line in lines:
        if line.text.startswith((b"GIT binary patch", b"Binary files ")):
            yield subject.finding(line.number, "binary", "nobody can review a binary change")


def _show(line: Line) -> str:
    return repr(line.text[:100].decode("utf-8", "replace"))
