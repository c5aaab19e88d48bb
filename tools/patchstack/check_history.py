"""``patches/history.toml``, checked: nothing was taken away, and each commit leads somewhere."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.changes import git_dir
from patchstack.commit_map import LostCommitError, end_of
from patchstack.context import Context
from patchstack.errors import ToolError
from patchstack.findings import Finding, first_difference
from patchstack.history import HISTORY, parse_history
from patchstack.lock import read_lock
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


def _current(context: Context, revision: str) -> set[str] | None:
    folder = context.series_dir(revision)
    if not has_series(folder):
        return set()
    try:
        return {patch.commit for patch in read_lock(folder).patches}
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
    own = git_dir(context.root)
    if own is None:
        return
    repository = Repository(own, context.root)
    options = ("--first-parent", "--format=%H", "HEAD", "--", _PLACE)
    answer = repository.ask("log", *options)
    for commit in answer.out.decode().split() if answer.status == 0 else []:
        version = repository.ask("cat-file", "blob", f"{commit}:{_PLACE}")
        if version.status == 0:
            yield commit, version.out


def _line(data: bytes, commit: str) -> int:
    """Return the line that says what became of ``commit``, the last one."""
    lines = data.splitlines()
    numbers = [at for at, line in enumerate(lines, 1) if f'old = "{commit}"'.encode() in line]
    return (numbers or [1])[-1]
