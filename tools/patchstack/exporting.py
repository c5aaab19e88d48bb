"""From the commits of a tree to ``patches/<revision>/``: the whole of ``tools/export.py``.

The commits are read through a scratch repository that holds a copy of them alone, so that nothing
in the tree's configuration, attributes or replacements can alter the patches. The patches are
applied again there and compared with the commits before any file of the project changes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchstack.base import Point, base_point
from patchstack.build import Stack, build_stack
from patchstack.changes import Tree, open_tree, refuse, summary, user_changes
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.files import resolved
from patchstack.history import is_reason, record
from patchstack.lock import LOCK, Upstream, read_lock, read_upstream, write_lock
from patchstack.mail import SLUG_TRAILER, TRAILERS, format_mail, read_trailers
from patchstack.report import Progress
from patchstack.repository import GitError, Repository
from patchstack.revisions import load_revisions
from patchstack.series import SERIES, PatchFile, patch_name
from patchstack.swap import claimed, copy_folder, replace_folder

_GITLINK = "160000"  # the mode of a nested repository
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FIRST_SECOND = 24 * 60 * 60  # in no time zone is this before 1970, where git's dates start
_REWORD = "reword the message without lines that mail reads as its own (---, From:, diff --git)"
_COMPARED = {
    "author": (
        "%an%n%ae",
        "give the author a plain name (git commit --amend --author)",
    ),
    "date": ("%ad", "give the commit another date (git commit --amend --date)"),
    "message": ("%B", _REWORD),
}


@dataclass(frozen=True)
class Commit:
    """A commit to export.

    Parameters
    ----------
    id
        The commit.
    title
        How a message names it: abbreviated id and subject.
    slug
        Its identity as a patch.
    """

    id: str
    title: str
    slug: str


def export_revision(
    context: Context,
    name: str,
    tree_path: Path | None,
    progress: Progress,
    reason: str | None = None,
) -> Path:
    """Write the series of a revision from the commits of a tree and return its folder."""
    if reason is not None and not is_reason(reason):
        raise ToolError(f"--reason {reason!r} is not one line", "say it in one line", Exit.USAGE)
    revision = load_revisions(context.revisions_file).get(name)
    base, folder = base_point(revision), context.series_dir(revision.name)
    path = resolved(tree_path or context.target(revision.name))
    with claimed(path, folder, progress=progress):
        tree = _open(path, base, revision.name)
        with _scratch(tree) as scratch:
            patches, stack = make_series(scratch, base, tree.head, tree.path)
        written = write_series(context, revision.name, patches, stack, reason)
    if written:
        progress.say(f"{len(patches)} patches written to {context.show(folder)}")
    else:
        progress.say(f"{context.show(folder)} is up to date")
    return folder


def make_series(
    scratch: Repository, base: Point, head: str, tree: Path
) -> tuple[tuple[PatchFile, ...], Stack]:
    """Return the commits from ``base`` to ``head`` as patches, proved to become them again.

    Parameters
    ----------
    scratch
        A repository of ours that holds the commits; the proof leaves commits there.
    base, head
        Where the patches start and end.
    tree
        Where the user finds the commits, for the errors.
    """
    commits = _commits(scratch, base, head, tree)
    patches = tuple(
        PatchFile(patch_name(number, commit.slug), format_mail(scratch, commit.id))
        for number, commit in enumerate(commits, 1)
    )
    return patches, _prove(scratch, base, commits, patches)


def _open(path: Path, base: Point, revision: str) -> Tree:
    tree = open_tree(path)
    if tree is None:
        raise ToolError(
            f"{path} is not a tree made by apply.py",
            f"run tools/apply.py --rev {revision}, or name the tree with --tree",
            Exit.USAGE,
        )
    if tree.base != base.commit:
        raise ToolError(
            f"{path} starts from {tree.base[:12]}, which is not the base of {revision}",
            "export it with the revision that it was made for, or run tools/apply.py again",
            Exit.UPSTREAM,
        )
    if found := user_changes(tree):
        raise refuse(path, f"has changes that no commit holds: {summary(found)}", "commit them")
    return tree


@contextmanager
def _scratch(tree: Tree) -> Iterator[Repository]:
    """Give a throw-away repository that holds the commits of ``tree`` and nothing else of it."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Repository.create(Path(folder) / "scratch.git")
        tree.repository.copy_history(tree.head, scratch)
        yield scratch


def _commits(scratch: Repository, base: Point, head: str, tree: Path) -> list[Commit]:
    """Return the commits on top of the base, each fit to become a patch."""
    span = f"{base.commit}..{head}"
    if scratch.ask("merge-base", "--is-ancestor", base.commit, head).status != 0:
        raise _finding(f"HEAD of {tree} does not build on the base", "rebase it")
    merges = scratch.line("rev-list", "--merges", span).split()
    if merges:
        raise _finding(f"{_title(scratch, merges[0])} is a merge", "rebase it into single commits")
    ids = scratch.line("rev-list", "--reverse", "--topo-order", span).split()
    if not ids:
        raise _finding(f"{tree} has no commits on top of the base", "commit your change there")
    commits = [check_commit(scratch, commit) for commit in ids]
    slugs = [commit.slug for commit in commits]
    for commit in commits:
        if slugs.count(commit.slug) > 1:
            raise _finding(
                f"{commit.title}: {SLUG_TRAILER}: {commit.slug} is used twice", "rename it"
            )
    return commits


def check_commit(scratch: Repository, commit: str) -> Commit:
    """Return a commit that is fit to become a patch, or refuse it."""
    title = _title(scratch, commit)
    trailers = read_trailers(scratch, scratch.run("log", "-1", "--format=%B", commit))
    missing = [name for name in TRAILERS if not trailers.get(name)]
    if missing:
        hint = "add it to the last paragraph of the message (git commit --amend, git rebase -i)"
        raise _finding(f"{title} has no {missing[0]}: trailer", hint)
    if not _SLUG.fullmatch(trailers[SLUG_TRAILER]):
        raise _finding(
            f"{title}: {SLUG_TRAILER}: {trailers[SLUG_TRAILER]} is not a slug",
            "use lower-case words joined by hyphens",
        )
    author, seconds = scratch.line("log", "-1", "--format=%an%n%at", commit).split("\n")
    if not author or int(seconds) < _FIRST_SECOND:
        hint = "give it both anew (git commit --amend --reset-author)"
        raise _finding(f"{title} has no author, or one before 1970", hint)
    if scratch.ask("diff-tree", "--quiet", f"{commit}^", commit).status == 0:
        raise _finding(f"{title} changes nothing", "drop it")
    if nested := _repositories(scratch, commit):
        raise _finding(f"{title} adds a repository, {nested[0]}", "add its files, or leave it out")
    return Commit(commit, title, trailers[SLUG_TRAILER])


def _repositories(scratch: Repository, commit: str) -> list[str]:
    """Return the nested repositories that a commit adds: a mail carries none of their files."""
    changes = scratch.line("diff-tree", "-r", f"{commit}^", commit).splitlines()
    return [line.split("\t", 1)[1] for line in changes if line.split()[1] == _GITLINK]


def _title(scratch: Repository, commit: str) -> str:
    return scratch.line("log", "-1", "--abbrev=12", "--format=%h (%s)", commit)


def _prove(
    scratch: Repository, base: Point, commits: list[Commit], patches: tuple[PatchFile, ...]
) -> Stack:
    """Apply the patches again and refuse what does not come back as it was."""
    try:
        stack = build_stack(scratch, base, patches, Progress(quiet=True))
    except GitError:
        raise
    except ToolError as error:
        raise _finding(f"what was exported cannot be read back: {error.message}", _REWORD) from None
    for commit, patch in zip(commits, stack.patches, strict=True):
        _compare(scratch, commit, patch.commit)
    return stack


def _compare(scratch: Repository, commit: Commit, again: str) -> None:
    """Refuse a commit that does not survive being a mail."""
    if scratch.line("rev-parse", f"{commit.id}^{{tree}}") != scratch.line(
        "rev-parse", f"{again}^{{tree}}"
    ):
        raise _finding(f"{commit.title} loses content as a mail patch", "split the change")
    for what, (pattern, hint) in _COMPARED.items():
        options = ("log", "-1", "--date=raw", f"--format={pattern}")
        if scratch.run(*options, commit.id) != scratch.run(*options, again):
            raise _finding(f"{commit.title} loses its {what} as a mail patch", hint)


def write_series(
    context: Context,
    revision: str,
    patches: tuple[PatchFile, ...],
    stack: Stack,
    reason: str | None,
) -> bool:
    """Put the series into its folder in one step; return whether anything changed."""
    folder = context.series_dir(revision)
    files = {patch.name: patch.data for patch in patches}
    files[SERIES] = _series_text(folder, patches).encode()
    files[LOCK] = write_lock(stack, _recorded_tag(folder)).encode()
    stale = {path.name for path in folder.glob("*.patch")} - files.keys()
    if not stale and all(_holds(folder / name, data) for name, data in files.items()):
        return False

    def fill(fresh: Path) -> None:
        if folder.exists():
            copy_folder(folder, fresh)  # a note beside the patches stays
        fresh.mkdir(exist_ok=True)
        for name in stale:
            (fresh / name).unlink()
        for name, data in files.items():
            (fresh / name).write_bytes(data)

    if old := _old_lock(folder):
        record(context.history_file, revision, old, stack, reason)
    replace_folder(folder, fill)
    return True


def _old_lock(folder: Path) -> Stack | None:
    """Return the lock that is replaced; one that is missing or damaged has no commits to keep."""
    try:
        return read_lock(folder)
    except ToolError:
        return None


def _recorded_tag(folder: Path) -> Upstream | None:
    """Return what the lock that is replaced says of the release's tag, which stays true."""
    try:
        return read_upstream(folder)
    except ToolError:
        return None


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _series_text(folder: Path, patches: tuple[PatchFile, ...]) -> str:
    """Return the new listing under the comment that the old one starts with."""
    listing = folder / SERIES
    lines = listing.read_text("utf-8", "replace").splitlines() if listing.is_file() else []
    comment = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment.append(line)
    return "".join(f"{line}\n" for line in [*comment, *(patch.name for patch in patches)])


def _finding(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, Exit.FINDINGS)
