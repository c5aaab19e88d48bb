"""A checkout on the user's disk, at any commit, as the source of a release.

Its commit is the base, without the commits before it. Nothing is written into it; only what is
committed counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchstack.base import Point
from patchstack.changes import git_dir
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.ground import (
    Ground,
    Wanted,
    check_commit_version,
    check_release,
    check_version,
)
from patchstack.repository import Repository


@dataclass(frozen=True)
class CheckoutSource:
    """A git repository with files.

    Parameters
    ----------
    path
        The folder that holds ``.git``.
    """

    path: Path

    @contextmanager
    def ground(self, context: Context, wanted: Wanted) -> Iterator[Ground]:
        """Give the commit that is checked out, read where it is."""
        theirs, commit = self._head()
        where = f"{self.path} at {commit[:12]}"
        tags = theirs.line("tag", "--points-at", commit, "--list", "v[0-9]*").split()
        if tags and wanted.revision.name not in tags:
            check_version(tags[0].removeprefix("v"), wanted.revision, where)
        wanted.progress.say(f"taking commit {commit[:12]} of {self.path}, and no change besides")
        with tempfile.TemporaryDirectory() as folder:
            ours = Repository.create(Path(folder) / "ground.git")
            ours.cut(commit)
            ours.borrow(theirs)
            check_release(ours, commit, wanted, where)
            check_commit_version(ours, commit, wanted.revision, where)
            base = Point(commit, ours.line("rev-parse", f"{commit}^{{tree}}"))
            about = {"kind": "checkout", "path": str(self.path), "commit": commit}
            yield Ground(ours, base, False, about)

    def _head(self) -> tuple[Repository, str]:
        own = git_dir(self.path)
        theirs = Repository(own, self.path) if own else None
        commit = theirs.resolve("HEAD") if theirs else None
        if theirs is None or commit is None or len(commit) != 40:
            raise ToolError(
                f"{self.path} has no SHA-1 commit checked out",
                "check out a commit of SGLang there, or name another --source",
                Exit.UPSTREAM,
            )
        return theirs, commit
