"""``patches/history.toml``, checked: it only grows, misses nothing, and each commit leads on.

That it only grows and misses nothing is seen in the project's own git history, where that is at
hand: in a clone that is not too shallow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from patchstack.changes import git_dir
from patchstack.commit_map import LostCommitError, end_of
from patchstack.context import Context
from patchstack.errors import ToolError
from patchstack.findings import Finding, first_difference
from patchstack.history import HISTORY, parse_history
from patchstack.lock import LOCK, read_lock
from patchstack.repository import Repository
from patchstack.revisions import Revisions
from patchstack.series import has_series

_PLACE = f"patches/{HISTORY}"
_TAKEN_OUT = re.compile(r'-commit = "([0-9a-f]{40})"')


def check_history(context: Context, revisions: Revisions) -> Iterator[Finding]:
    """Yield what is wrong with the history: in itself, beside the locks, and over time."""
    path = context.history_file
    data = path.read_bytes() if path.exists() else b""
    yield from _check_growth(context, data)
    try:
        rewrites = parse_history(HISTORY, data)
    except ToolError as error:
        yield Finding(_PLACE, 1, "history", error.message)
        return
    traced = {commit.old for past in rewrites for commit in past.commits}
    traced |= {past.base for past in rewrites}
    for revision in revisions.names:
        current = _current(context, revision)
        if current is None:
            continue  # that the lock cannot be read is a finding of its own
        named = (commit.old for past in rewrites if past.revision == revision
                 for commit in past.commits)  # fmt: skip
        for old in dict.fromkeys(named):
            try:
                end_of(rewrites, revision, old, current)
            except LostCommitError as lost:
                yield Finding(_PLACE, _line(data, old), "history", f"{old} {lost}")
        for old, commit in _replaced(context, revision).items():
            if old not in traced | current:
                what = f"{old} was in the lock of {revision} until {commit} and has no trace here"
                yield Finding(_PLACE, 1, "history", what)


def _current(context: Context, revision: str) -> set[str] | None:
    folder = context.series_dir(revision)
    if not has_series(folder):
        return set()
    try:
        locked = read_lock(folder)
        return {patch.commit for patch in locked.patches} | {locked.base.commit}
    except ToolError:
        return None


def _check_growth(context: Context, data: bytes) -> Iterator[Finding]:
    """Compare the file with each of its versions in the project's own history, if that is here."""
    for commit, earlier in _versions(context):
        if not data.startswith(earlier):
            line = first_difference(data.splitlines(), earlier.splitlines())
            what = f"is not what {commit[:12]} had with more at its end; git checkout {_PLACE}"
            yield Finding(_PLACE, line, "history", what)
            return


def _versions(context: Context) -> Iterator[tuple[str, bytes]]:
    """Yield the versions that the project's main line has had, the latest first."""
    for commit in _log(context, "--format=%H", "--", _PLACE).split():
        version = _project(context).ask("cat-file", "blob", f"{commit}:{_PLACE}")
        if version.status == 0:
            yield commit, version.out


def _replaced(context: Context, revision: str) -> dict[str, str]:
    """Return the commits that were taken out of a lock, each with the change that did it."""
    place = f"patches/{revision}/{LOCK}"
    found, change = dict[str, str](), ""
    for line in _log(context, "--format=change %h", "-p", "--no-renames", "--", place).splitlines():
        change = line.removeprefix("change ") if line.startswith("change ") else change
        if match := _TAKEN_OUT.fullmatch(line):
            found.setdefault(match[1], change)
    return found


def _log(context: Context, *arguments: str) -> str:
    """Return a log of the project's main line; of a project without one, nothing."""
    if git_dir(context.root) is None:
        return ""
    answer = _project(context).ask("log", "--first-parent", "--abbrev=12", *arguments)
    return answer.out.decode("utf-8", "replace") if answer.status == 0 else ""


def _project(context: Context) -> Repository:
    own = git_dir(context.root)
    assert own is not None
    return Repository(own, context.root)


def _line(data: bytes, commit: str) -> int:
    """Return the line that says what became of ``commit``, the last one."""
    lines = data.splitlines()
    numbers = [at for at, line in enumerate(lines, 1) if f'old = "{commit}"'.encode() in line]
    return (numbers or [1])[-1]
