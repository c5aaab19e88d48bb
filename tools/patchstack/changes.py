"""What a user did to a tree that the tools made, looked for in every place where work can hide.

The tree's own index, settings and attributes are not trusted: each of them can make git overlook
an edit. The files are compared from outside, with nothing of the tree's repository but its
objects. Nothing under the tree is written.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.errors import Exit, ToolError
from patchstack.repository import Repository

BASE_REF = "refs/hiqcache/base"
HEAD_REF = "refs/hiqcache/head"
# What running the code leaves behind; everything else in a tree is somebody's work.
IGNORED = ("__pycache__/", "*.pyc")

_SHOWN = 3
_KINDS = {"D": "deleted", "M": "modified", "T": "modified"}
_UNFINISHED = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-apply",
    "rebase-merge",
    "sequencer",
    "index.lock",
)


@dataclass(frozen=True)
class Tree:
    """A tree that the tools made.

    Parameters
    ----------
    repository
        Its git repository and files.
    base, recorded, head
        The base commit, the head that the tools left, and where ``HEAD`` is now.
    """

    repository: Repository
    base: str
    recorded: str
    head: str

    @property
    def path(self) -> Path:
        """The folder of the files."""
        assert self.repository.work_tree is not None
        return self.repository.work_tree


def open_tree(path: Path) -> Tree | None:
    """Return the tree at ``path`` if the tools made it, or None for any other folder."""
    own = git_dir(path)
    if own is None:
        return None
    repository = Repository(own, path)
    base, recorded, head = (repository.resolve(name) for name in (BASE_REF, HEAD_REF, "HEAD"))
    if base is None or recorded is None or head is None:
        return None
    return Tree(repository, base, recorded, head)


def user_changes(tree: Tree) -> list[str]:
    """Return every uncommitted or unfinished thing in ``tree``, each in a few words."""
    git_dir = tree.repository.git_dir
    unfinished = [f"{name} (unfinished)" for name in _UNFINISHED if (git_dir / name).exists()]
    return unfinished + _changed_files(tree)


def other_work(tree: Tree) -> list[str]:
    """Return what only ``tree`` holds besides its files: branches, stashes, linked trees."""
    names = tree.repository.line("for-each-ref", "--format=%(refname)", f"--no-merged={tree.head}")
    ours = (BASE_REF, HEAD_REF)
    work = [name for name in names.splitlines() if name not in ours]
    linked = tree.repository.git_dir / "worktrees"
    if linked.is_dir():
        work += [f"linked worktree {path.name}" for path in sorted(linked.iterdir())]
    return work


def summary(found: list[str]) -> str:
    """Return the first few of ``found`` and how many more there are."""
    more = len(found) - _SHOWN
    return ", ".join(found[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def refuse(path: Path, what: str, hint: str) -> ToolError:
    """Return the error that leaves ``path`` to the user."""
    return ToolError(f"{path} {what}; nothing was touched", hint, Exit.USER_CHANGES)


def git_dir(path: Path) -> Path | None:
    """Return the repository of a tree; a linked worktree has a file in its place."""
    own = path / ".git"
    if own.is_dir():
        return own
    if own.is_file() and (text := own.read_text("utf-8", "replace")).startswith("gitdir: "):
        return path / text.removeprefix("gitdir: ").strip()
    return None


def _changed_files(tree: Tree) -> list[str]:
    staged = tree.repository.run("diff-index", "--cached", "--name-status", "-z", tree.head)
    found = dict.fromkeys(_statuses(staged), "staged") | _differences(tree)
    return [f"{name} ({kind})" for name, kind in sorted(found.items())]


def _differences(tree: Tree) -> dict[str, str]:
    """Return how the files differ from HEAD, seen through a repository that is not the user's."""
    patterns = [f"--exclude={pattern}" for pattern in IGNORED]
    lent = tree.repository.lend()
    with tempfile.TemporaryDirectory() as folder:
        eye = replace(Repository.create(Path(folder) / "eye.git"), work_tree=tree.path)
        eye.keep_bytes()
        eye.run("read-tree", tree.head, env=lent)
        eye.ask("update-index", "-q", "--refresh", env=lent)
        found = _statuses(eye.run("diff-files", "--name-status", "-z", env=lent))
        others = eye.run("ls-files", "--others", "-z", *patterns)
    names = others.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return dict.fromkeys(names, "untracked") | found


def _statuses(output: bytes) -> dict[str, str]:
    fields = output.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return {
        name: _KINDS.get(status, "changed")
        for status, name in zip(fields[::2], fields[1::2], strict=True)
    }
