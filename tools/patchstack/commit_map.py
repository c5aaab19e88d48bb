"""The commit map, both ways: from a patch to its commits, and from a commit to its patch.

The locks say what is; the history says what was. Nothing is applied and git is not asked, so a
map is had without the release, the cache and a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import PurePath

from patchstack.base import base_point
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.history import Rewrite, read_history
from patchstack.lock import read_lock
from patchstack.revisions import Revisions, load_revisions
from patchstack.series import has_series

_ABBREVIATED = re.compile(r"[0-9a-f]{4,40}")


@dataclass(frozen=True)
class Ending:
    """How a commit came to be one that no series has any more.

    Parameters
    ----------
    date, reason
        When the series was written again, and why.
    head
        The head of the series that still had the commit.
    now
        What stands for it today: a commit, or None where its patch or its release is gone.
    """

    date: date
    reason: str
    head: str
    now: str | None


@dataclass(frozen=True)
class Entry:
    """One commit.

    Parameters
    ----------
    commit
        Its id.
    revision
        The release that it belongs to.
    base
        The commit of that release's own files, which it builds on.
    slug
        The patch, or None for the base itself.
    file
        The patch's file, or None where no series has the commit any more, and for a base.
    ended
        How it went out of the series, or None for a commit that is current.
    """

    commit: str
    revision: str
    base: str
    slug: str | None
    file: str | None
    ended: Ending | None = None

    def to_text(self) -> str:
        """Return the entry as a line for a person."""
        what = self.slug or "(the release itself)"
        line = f"{self.commit}  {self.revision} ({self.base[:12]})  {what}"
        if self.ended is None:
            return f"{line}  {self.file or ''}".rstrip()
        now = self.ended.now or "nothing"
        return f"{line}  until {self.ended.date}, now {now}: {self.ended.reason}"

    def to_fields(self) -> dict[str, object]:
        """Return the entry as JSON can hold it."""
        fields = asdict(self)
        if self.ended is not None:
            fields["ended"] = {**asdict(self.ended), "date": str(self.ended.date)}
        return fields


class LostCommitError(ValueError):
    """A commit of the history from which nothing leads to the present."""


@dataclass(frozen=True)
class CommitMap:
    """Every commit that a series has or had.

    Parameters
    ----------
    entries
        The current commits, base first, then those of the history, the latest first.
    """

    entries: tuple[Entry, ...]

    @property
    def current(self) -> tuple[Entry, ...]:
        """The commits that a series has, and the bases under them."""
        return tuple(entry for entry in self.entries if entry.ended is None)

    def find(self, name: str) -> tuple[Entry, ...]:
        """Return the commits of a patch, or the one commit that a (short) id stands for.

        Parameters
        ----------
        name
            A slug, a patch file's name or path, or at least four digits of a commit id.
        """
        path = PurePath(name)
        slug = re.sub(r"^[0-9]{4}-", "", path.stem) if path.suffix == ".patch" else name
        found = [entry for entry in self.entries if entry.slug == slug]
        if path.parent.name and path.suffix == ".patch":
            found = [entry for entry in found if entry.revision == path.parent.name]
        # What is current answers; the past does where a patch has been dropped everywhere.
        found = [entry for entry in found if entry.ended is None] or found
        return tuple(found) or (self._commit(name),)

    def _commit(self, name: str) -> Entry:
        matching = {
            entry.commit: entry
            for entry in reversed(self.entries)
            if _ABBREVIATED.fullmatch(name) and entry.commit.startswith(name)
        }
        if len(matching) > 1:
            ids = ", ".join(sorted(matching))
            raise ToolError(f"{name!r} is short for {ids}", "give more of it", Exit.USAGE)
        for entry in matching.values():
            return entry
        slugs = sorted({entry.slug for entry in self.entries if entry.slug})
        raise ToolError(
            f"{name!r} is no patch, and no commit that a series has or had",
            f"give four digits of a commit or more, or one of {', '.join(slugs)}",
            Exit.USAGE,
        )


def load_map(context: Context) -> CommitMap:
    """Return the map of a project."""
    revisions = load_revisions(context.revisions_file)
    current = tuple(_current(context, revisions))
    past = _past(read_history(context.history_file), current)
    return CommitMap(current + tuple(past))


def end_of(
    rewrites: Iterable[Rewrite], revision: str, commit: str, current: set[str]
) -> str | None:
    """Return the commit that ``commit`` has become, or None where its patch was dropped.

    Parameters
    ----------
    rewrites
        The history.
    revision
        The release.
    commit
        A commit that the history names.
    current
        The commits that its series has.

    Raises
    ------
    LostCommitError
        If the history does not lead to one or the other.
    """
    became = {
        replaced.old: replaced.new
        for rewrite in rewrites
        if rewrite.revision == revision
        for replaced in rewrite.commits
    }
    seen, here = {commit}, commit
    while here not in current:
        if here not in became:
            raise LostCommitError(f"leads to {here}, which no series has")
        following = became[here]
        if following is None:
            return None
        if following in seen:
            raise LostCommitError(f"leads back to {following}")
        seen.add(following)
        here = following
    return here


def _current(context: Context, revisions: Revisions) -> Iterator[Entry]:
    for revision in revisions.supported:
        base = base_point(revision).commit
        yield Entry(base, revision.name, base, None, None)
        folder = context.series_dir(revision.name)
        if has_series(folder):
            for patch in read_lock(folder).patches:
                file = f"patches/{revision.name}/{patch.file}"
                yield Entry(patch.commit, revision.name, base, patch.slug, file)


def _past(rewrites: tuple[Rewrite, ...], current: tuple[Entry, ...]) -> Iterator[Entry]:
    now = {entry.commit for entry in current}
    supported = {entry.revision for entry in current}
    for rewrite in reversed(rewrites):
        for replaced in rewrite.commits:
            if replaced.old in now:
                continue  # it came back
            ends = None
            if rewrite.revision in supported:
                ends = _end(rewrites, rewrite.revision, replaced.old, now)
            ended = Ending(rewrite.date, rewrite.reason, rewrite.head, ends)
            yield Entry(replaced.old, rewrite.revision, rewrite.base, replaced.slug, None, ended)


def _end(
    rewrites: tuple[Rewrite, ...], revision: str, commit: str, current: set[str]
) -> str | None:
    try:
        return end_of(rewrites, revision, commit, current)
    except LostCommitError as lost:
        raise ToolError(
            f"history.toml: {commit} of {revision} {lost}", "run tools/check.py", Exit.UPSTREAM
        ) from None
