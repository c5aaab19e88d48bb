"""Patches become commits in the object database, with ids that depend on the patches alone.

No file is checked out and no hook, signature or state of ``git am`` is involved: a temporary
index receives each patch, and ``commit-tree`` makes the commit, whose committer is its author.

``git apply`` would accept a patch that fits at another place of the same file, so each patch must
prove that it is exact: the blob ids that it names in full must be those of the tree before and
after it. No patch can land in the wrong one of two equal blocks and still give the right blob.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patchstack.base import Point
from patchstack.errors import Exit, ToolError
from patchstack.mail import SLUG_TRAILER, Mail, blob_ids, patch_id, read_mail, read_trailers
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.series import PatchFile


@dataclass(frozen=True)
class Applied:
    """One patch, applied.

    Parameters
    ----------
    file, slug, sha256
        The patch's file, its identity across renames, and the file's digest.
    patch_id
        Git's stable id of the change alone.
    commit, tree
        The commit that the patch became and the tree that it records.
    """

    file: str
    slug: str
    sha256: str
    patch_id: str
    commit: str
    tree: str


@dataclass(frozen=True)
class Stack:
    """A base commit with patches on top.

    Parameters
    ----------
    base
        Where the patches start.
    patches
        The patches, in order.
    head
        Where they end.
    """

    base: Point
    patches: tuple[Applied, ...]
    head: Point


def build_stack(
    repository: Repository, base: Point, patches: tuple[PatchFile, ...], progress: Progress
) -> Stack:
    """Apply ``patches`` to ``base`` and return the commits that they became."""
    applied: list[Applied] = []
    head = base
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": os.fspath(Path(folder) / "index")}
        repository.run("read-tree", base.commit, env=index)
        for number, patch in enumerate(patches, 1):
            progress.say(f"[{number}/{len(patches)}] {patch.name}")
            try:
                done = _apply_one(repository, index, head, patch)
            except ToolError as error:
                left = len(patches) - number
                raise ToolError(
                    f"patch {number}/{len(patches)}: {error.message} ({left} more not tried)",
                    error.hint,
                    error.exit_code,
                ) from None
            applied.append(done)
            head = Point(done.commit, done.tree)
    return Stack(base, tuple(applied), head)


def _apply_one(
    repository: Repository, index: dict[str, str], parent: Point, patch: PatchFile
) -> Applied:
    mail = read_mail(repository, patch.name, patch.data)
    _check_slug(repository, patch, mail)
    if problem := apply_exactly(repository, index, parent.commit, mail.diff):
        raise _refused(patch, problem)
    tree = repository.line("write-tree", env=index)
    commit = _commit(repository, parent, tree, mail)
    change = patch_id(repository, patch.data)
    return Applied(patch.name, patch.slug, patch.sha256, change, commit, tree)


def _check_slug(repository: Repository, patch: PatchFile, mail: Mail) -> None:
    slug = read_trailers(repository, mail.message).get(SLUG_TRAILER)
    if slug != patch.slug:
        raise _refused(patch, f"says {SLUG_TRAILER}: {slug}, which is not its name")


def apply_exactly(
    repository: Repository, index: dict[str, str], before: str, diff: bytes
) -> str | None:
    """Apply a diff that names the files' contents in full; return what is wrong, if anything.

    Parameters
    ----------
    repository, index
        Where to apply it, and the environment that names the index.
    before
        The commit or tree that the index holds.
    diff
        The change.
    """
    answer = repository.ask("apply", "--cached", "-", stdin=diff, env=index)
    if answer.status != 0:
        return f"does not apply: {answer.err.removeprefix('error: ')}"
    raw = repository.run(
        "diff-index", "--cached", "--raw", "-z", "--no-renames", "--full-index", before, env=index
    ).decode("utf-8", "surrogateescape")
    # Each entry is ":mode mode old new status", then the path: change of mode alone has no blobs.
    entries = [entry.split(" ") for entry in raw.split("\0")[:-1:2]]
    blobs = sorted((old, new) for _, _, old, new, _ in entries if old != new)
    if blobs != sorted(blob_ids(diff)):
        return "does not start from, or end at, the file contents that it names"
    return None


def _commit(repository: Repository, parent: Point, tree: str, mail: Mail) -> str:
    identity = {}
    for role in ("AUTHOR", "COMMITTER"):
        identity[f"GIT_{role}_NAME"] = mail.author
        identity[f"GIT_{role}_EMAIL"] = mail.email
        identity[f"GIT_{role}_DATE"] = mail.date
    arguments = ("commit-tree", tree, "-p", parent.commit, "-F", "-")
    return repository.line(*arguments, stdin=mail.message, env=identity)


def _refused(patch: PatchFile, what: str) -> ToolError:
    return ToolError(
        f"{patch.name} {what}", "write the series again with tools/export.py", Exit.UPSTREAM
    )
