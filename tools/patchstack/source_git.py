"""The release's tag in a real repository of SGLang, fetched into the cache.

The tag's commit is the base, without the commits before it. It is compared with the patches before
the content of files is fetched. ``lock.toml`` can record which commit the tag was; then a tag that
moves is noticed, and the recorded commit is used for as long as it can be had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from patchstack.base import Point, open_store
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.ground import Ground, Wanted, check_commit_version, check_release
from patchstack.lock import Upstream, read_upstream, record_upstream
from patchstack.repository import Repository
from patchstack.series import has_series
from patchstack.usergit import UserGit

SGLANG = "https://github.com/sgl-project/sglang.git"
_SECRET = re.compile(r"(?<=://)[^/@\s]*@")
_NO_REF = "couldn't find remote ref"


@dataclass(frozen=True)
class GitSource:
    """A repository that has the release's tag.

    Parameters
    ----------
    user
        The git to fetch with.
    record
        Whether to write into ``lock.toml`` which commit the tag is.
    url
        The repository.
    """

    user: UserGit
    record: bool = False
    url: str = SGLANG

    @property
    def shown(self) -> str:
        """The address as a message may have it: without a password."""
        return _SECRET.sub("", self.url)

    @contextmanager
    def ground(self, context: Context, wanted: Wanted) -> Iterator[Ground]:
        """Give the commit of the release's tag; record it when the block has succeeded."""
        folder, tag = context.series_dir(wanted.revision.name), wanted.revision.name
        if self.record and not has_series(folder):
            raise ToolError(
                f"{tag} has no lock yet to record its tag in",
                f"run tools/export.py --rev {tag} first, or leave --record out",
                Exit.USAGE,
            )
        clone = open_store(context.clone(self.url))
        recorded = read_upstream(folder) if has_series(folder) else None
        if wanted.offline:
            commit = recorded.commit if recorded else clone.resolve(_tag_ref(tag))
        else:
            wanted.progress.say(f"fetching {tag} from {self.shown}")
            commit = self._current(clone, tag, recorded, wanted)
        if commit is None or clone.resolve(commit) is None:
            raise self._refused(f"{tag} is not in the cache", "run again without --offline")
        where = f"{tag} of {self.shown}"
        check_release(clone, commit, wanted, where)
        self._complete(clone, commit, wanted)
        check_commit_version(clone, commit, wanted.revision, where)
        base = Point(commit, clone.line("rev-parse", f"{commit}^{{tree}}"))
        yield Ground(
            clone, base, False, {"kind": "git", "url": self.shown, "tag": tag, "commit": commit}
        )
        if self.record and recorded is None:
            record_upstream(folder, Upstream(tag, commit, f"{datetime.now(UTC):%Y-%m-%d}"))
            wanted.progress.say(f"recorded in {context.show(folder)}: {tag} is {commit}")

    def _current(
        self, clone: Repository, tag: str, recorded: Upstream | None, wanted: Wanted
    ) -> str:
        """Return the commit to use, fetched without the content of files."""
        found = self._fetch(clone, f"+refs/tags/{tag}:{_tag_ref(tag)}", tag)
        commit = clone.resolve(_tag_ref(tag)) if found else None
        if recorded is None:
            if commit is None:
                raise self._refused(f"{self.shown} has no tag {tag}", "name another repository")
            return commit
        if commit == recorded.commit:
            return commit
        now = f"moved from {recorded.commit[:12]} to {commit[:12]}" if commit else "is gone"
        kept = f"+{recorded.commit}:refs/hiqcache/recorded/{tag}"
        if clone.resolve(recorded.commit) is None and not self._fetch(clone, kept, tag):
            raise self._refused(
                f"tag {tag} of {self.shown} {now}, and the recorded commit cannot be had any more",
                "find out who moved it before you trust either",
            )
        wanted.progress.say(
            f"warning: tag {tag} of {self.shown} {now};"
            f" going on with {recorded.commit[:12]}, seen on {recorded.first_seen}"
        )
        return recorded.commit

    def _fetch(self, clone: Repository, refspec: str, tag: str) -> bool:
        """Fetch one commit; return False where the repository does not have it."""
        answer = self.user.fetch_commit(clone, self.url, refspec)
        if answer.status == 0:
            return True
        if _NO_REF in answer.err or "not our ref" in answer.err:
            return False
        raise self._unreachable(tag, answer.err)

    def _complete(self, clone: Repository, commit: str, wanted: Wanted) -> None:
        """Have the content of every file of ``commit``."""
        if not (missing := _missing(clone, commit)):
            return
        if wanted.offline:
            raise self._refused(
                f"{wanted.revision.name} is not whole in the cache", "run again without --offline"
            )
        answer = self.user.fetch_objects(clone, self.url, missing)
        if answer.status != 0:
            raise self._unreachable(wanted.revision.name, answer.err)
        if _missing(clone, commit):
            raise self._unreachable(wanted.revision.name, "it sent less than it was asked for")

    def _unreachable(self, tag: str, said: str) -> ToolError:
        lines = said.strip().splitlines() or ["git gave no reason"]
        reason = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
        return self._refused(
            f"{tag} cannot be fetched from {self.shown} ({_SECRET.sub('', reason)})",
            "check the network and git's settings for it, then run again",
        )

    def _refused(self, message: str, hint: str) -> ToolError:
        return ToolError(message, hint, Exit.UPSTREAM)


def _tag_ref(tag: str) -> str:
    return f"refs/tags/{tag}"


def _missing(clone: Repository, commit: str) -> list[str]:
    """Return the objects of ``commit`` that were not fetched yet."""
    options = ("--objects", "--no-object-names", "--missing=print", "--max-count=1")
    listing = clone.run("rev-list", *options, commit).decode()
    return [line[1:] for line in listing.splitlines() if line.startswith("?")]
