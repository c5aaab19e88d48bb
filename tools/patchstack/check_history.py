"""``patches/history.toml``, checked: it only grows, misses nothing, and each commit leads on.

That it only grows and misses nothing is seen in the project's own git history, where that is at
hand: in a clone that is not too shallow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from patchstack.changes import git_dir
from patchstack.commit_map import LostCommitError, end_of
from patchstack.context import Context
from patchstack.errors import ToolError
from patchstack.files import parse_toml
from patchstack.findings import Finding, first_difference
from patchstack.history import HISTORY, parse_history
from patchstack.lock import LOCK, read_lock
from patchstack.repository import Repository
from patchstack.revisions import Revisions
from patchstack.series import has_series

_PLACE = f"patches/{HISTORY}"


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
        for old, change in _former(context, revision).items():
            if old not in traced | current:
                what = f"{old}, in the lock of {revision} at {change[:12]}, has no trace here"
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
    for commit, earlier in _versions(context, _PLACE):
        if not data.startswith(earlier):
            line = first_difference(data.splitlines(), earlier.splitlines())
            what = f"is not what {commit[:12]} had with more at its end; git checkout {_PLACE}"
            yield Finding(_PLACE, line, "history", what)
            return


def _versions(context: Context, place: str) -> Iterator[tuple[str, bytes]]:
    """Yield the versions that a file has had on the project's main line, the latest first."""
    for commit in _log(context, "--format=%H", "--", place).split():
        version = _project(context).ask("cat-file", "blob", f"{commit}:{place}")
        if version.status == 0:
            yield commit, version.out


def _former(context: Context, revision: str) -> dict[str, str]:
    """Return the commits that a lock ever had, each with the last change at which it had them."""
    found = dict[str, str]()
    for change, data in _versions(context, f"patches/{revision}/{LOCK}"):
        with suppress(KeyError, TypeError, ValueError):  # a lock that was damaged at the time
            table = parse_toml(data.decode("utf-8"))
            for part in (table["base"], *table["patches"]):
                found.setdefault(part["commit"], change)
    return found


def _log(context: Context, *arguments: str) -> str:
    """Return a log of the project's main line; of a project without one, nothing."""
    if git_dir(context.root) is None:
        return ""
    answer = _project(context).ask("log", "--first-parent", *arguments)
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
