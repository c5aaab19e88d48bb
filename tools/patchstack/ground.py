"""What a stack stands on: a base commit, and how sure it is that this is the release.

The pinned wheel gives the base commit that the lock has, so everything above is compared with the
lock to the last id: ``exact``. Any other source gives another commit. There the patches vouch for
the files that they touch: the release's version, the content of each such file before the patches
and after them, and the change that each patch makes: ``content``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from packaging.version import InvalidVersion, Version

from patchstack.base import PREFIX, Point
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.files import parse_toml
from patchstack.mail import blob_ids, changed_paths, read_mail
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.revisions import Revision
from patchstack.series import PatchFile

_ABSENT = "0" * 40
_FILE = re.compile(rb"^(?=diff --git )", re.MULTILINE)


@dataclass(frozen=True)
class Ground:
    """Where a stack starts.

    Parameters
    ----------
    repository
        Holds the base commit; the patches become commits there.
    base
        The base commit.
    exact
        Whether it is the commit that the revision pins.
    about
        What a program is told of the source; ``kind`` is always there.
    wheel
        The release's wheel, if it was asked for.
    """

    repository: Repository
    base: Point
    exact: bool
    about: Mapping[str, str] = field(compare=False)
    wheel: Path | None = None

    @property
    def lock(self) -> str:
        """How the result is compared with the lock."""
        return "exact" if self.exact else "content"


@dataclass(frozen=True)
class Wanted:
    """What a source is asked for.

    Parameters
    ----------
    revision
        The release.
    patches
        What will be applied to it.
    wheel
        Whether the release's wheel is needed too.
    offline
        Whether to use the cache alone.
    progress
        Where progress goes.
    """

    revision: Revision
    patches: tuple[PatchFile, ...]
    wheel: bool
    offline: bool
    progress: Progress


class Source(Protocol):
    """Where a release comes from."""

    def ground(self, context: Context, wanted: Wanted) -> AbstractContextManager[Ground]:
        """Give the base commit of a release for as long as the block lasts."""


@dataclass(frozen=True)
class Touched:
    """A file as the patches meet it first.

    Parameters
    ----------
    path
        The file.
    blob
        What it holds, by its id; None where a patch adds it.
    patch
        The name of the patch.
    """

    path: str
    blob: str | None
    patch: str


def touched_files(repository: Repository, patches: tuple[PatchFile, ...]) -> list[Touched]:
    """Return every file that ``patches`` change, with the content that they start from."""
    first: dict[str, Touched] = {}
    for patch in patches:
        mail = read_mail(repository, patch.name, patch.data)
        paths = changed_paths(repository, mail.diff)
        parts = [part for part in _FILE.split(mail.diff) if part.startswith(b"diff --git ")]
        for path, part in zip(paths, parts, strict=True):
            for old, _ in blob_ids(part):
                blob = None if old == _ABSENT else old
                first.setdefault(path, Touched(path, blob, patch.name))
    return list(first.values())


def check_release(repository: Repository, commit: str, wanted: Wanted, where: str) -> None:
    """Refuse a commit whose version or files are not those of the release.

    Parameters
    ----------
    repository, commit
        What is looked at. Only trees are read, and the files that name a version.
    wanted
        The release, and the patches whose files count.
    where
        What a message calls it.
    """
    if repository.ask("rev-parse", "--quiet", "--verify", f"{commit}:{PREFIX}").status != 0:
        raise ToolError(f"{where} holds no {PREFIX}/", "name a copy of SGLang", Exit.UPSTREAM)
    touched = touched_files(repository, wanted.patches)
    paths = [file.path for file in touched]
    found = _blobs(repository, commit, paths) if paths else {}
    odd = [file for file in touched if found.get(file.path) != file.blob]
    if not odd:
        return
    more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
    raise ToolError(
        f"{where} is not {wanted.revision.name} as released: {odd[0].path} is not what"
        f" {odd[0].patch} starts from{more}",
        f"take an unchanged copy of {wanted.revision.name}, or leave --source out",
        Exit.UPSTREAM,
    )


def check_version(found: str, revision: Revision, where: str) -> None:
    """Refuse another version than the release's."""
    try:
        same = Version(found) == Version(revision.version)
    except InvalidVersion:
        same = False
    if not same:
        raise ToolError(
            f"{where} is SGLang {found}, not {revision.version}",
            f"choose the source or --rev that fits {found}",
            Exit.UPSTREAM,
        )


def check_commit_version(
    repository: Repository, commit: str, revision: Revision, where: str
) -> None:
    """Refuse a commit whose project file names another version, where it names one at all."""
    answer = repository.ask("cat-file", "blob", f"{commit}:python/pyproject.toml")
    if answer.status != 0:
        return
    try:
        project = parse_toml(answer.out.decode()).get("project", {})
    except ValueError:
        raise ToolError(
            f"{where} has a damaged python/pyproject.toml", "name another --source", Exit.UPSTREAM
        ) from None
    if "version" in project:
        check_version(str(project["version"]), revision, where)


def _blobs(repository: Repository, commit: str, paths: list[str]) -> dict[str, str]:
    listing = repository.run(
        "ls-tree", "-z", "--full-tree", commit, "--", *paths, env={"GIT_LITERAL_PATHSPECS": "1"}
    ).decode("utf-8", "surrogateescape")
    # Each entry is "mode type id", a tab and the path.
    entries = [entry.split("\t", 1) for entry in listing.split("\0")[:-1]]
    return {path: facts.split(" ")[2] for facts, path in entries}
