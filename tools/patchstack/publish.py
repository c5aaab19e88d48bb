"""A patched tree in the place that the user wants it, or nothing changed there at all.

The tree is a repository of its own, made under another name beside its place and renamed into
it, so that it is never seen half done and does not need the cache afterwards. What is already
there is replaced only if the tools made it and it holds nothing of the user's.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from patchstack.build import Stack
from patchstack.changes import (
    BASE_REF,
    HEAD_REF,
    IGNORED,
    Tree,
    open_tree,
    other_work,
    refuse,
    summary,
    user_changes,
)
from patchstack.repository import Repository
from patchstack.swap import replace_folder

_FINGERPRINT = "--format=%T%n%an%n%ae%n%ad%n%B"


def inspect_target(target: Path, revision: str, where: Path | None = None) -> Tree | None:
    """Return the tree that is at ``target``, or None where there is nothing.

    Parameters
    ----------
    target, revision
        The user's name of the place, and the release that goes there.
    where
        Where the tree is, if it was moved away.

    Raises
    ------
    ToolError
        If it is not a tree of ours, or if the user has changed its files.
    """
    elsewhere = "choose another folder with --target, or move this one away"
    where = where or target
    if where.is_dir():
        if not any(where.iterdir()):
            return None
    elif not where.exists():
        return None
    else:
        raise refuse(target, "is not a folder", elsewhere)
    tree = open_tree(where) if (where / ".git").is_dir() else None
    if tree is None:
        raise refuse(target, "is not empty and was not made by apply.py", elsewhere)
    keep = f"commit and run tools/export.py --rev {revision}, or move the folder away"
    if found := user_changes(tree):
        raise refuse(target, f"has changes of yours: {summary(found)}", keep)
    if found := other_work(tree):
        raise refuse(target, f"has work that is not in HEAD: {summary(found)}", keep)
    return tree


def is_current(tree: Tree, stack: Stack) -> bool:
    """Return whether ``tree`` already is what would be published."""
    head, base = stack.head.commit, stack.base.commit
    return (tree.head, tree.recorded, tree.base) == (head, head, base)


def refuse_commits(
    tree: Tree, target: Path, stack: Stack, store: Repository, revision: str
) -> None:
    """Refuse to replace commits that the user has not exported yet."""
    if tree.head in (tree.recorded, stack.head.commit):
        return
    if _fingerprints(tree.repository, tree.base, tree.head) == _fingerprints(
        store, stack.base.commit, stack.head.commit
    ):
        return  # the user's commits are the series itself, exported
    span = f"{tree.recorded}..{tree.head}"
    subjects = tree.repository.run("log", "--format=%s", span).decode("utf-8", "replace")
    found = summary(subjects.splitlines()) or f"HEAD was moved to {tree.head[:12]}"
    hint = f"run tools/export.py --rev {revision}, or move the folder away"
    raise refuse(target, f"has commits of yours: {found}", hint)


def publish(store: Repository, stack: Stack, target: Path, revision: str) -> None:
    """Put the tree of ``stack`` at ``target``, in place of what is there.

    The caller has made sure that nothing of the user's is there. But making the tree takes its
    time, in which a user may save a file or commit, so it is looked for once more.
    """

    def check(old: Path) -> None:
        if tree := inspect_target(target, revision, old):
            refuse_commits(tree, target, stack, store, revision)

    replace_folder(target, lambda path: _make_tree(store, stack, path), check)


def _make_tree(store: Repository, stack: Stack, path: Path) -> None:
    path.mkdir()
    base, head = stack.base.commit, stack.head.commit
    pack = _packed_base(store, base)
    remedy = f"remove {pack}, which can be made again, and run again"
    tree = replace(Repository.create(path / ".git", path), remedy=remedy)
    if store.is_cut:
        tree.cut(base)
    for part in pack.iterdir():
        shutil.copyfile(part, tree.git_dir / "objects" / "pack" / part.name)
    if head != base:
        store.copy_history([head, f"^{base}"], tree)
    tree.run("update-ref", BASE_REF, base)
    tree.run("update-ref", HEAD_REF, head)
    info = tree.git_dir / "info"
    info.mkdir(exist_ok=True)
    (info / "exclude").write_text("".join(f"{pattern}\n" for pattern in IGNORED), "utf-8")
    tree.keep_bytes()  # of the user's commits too
    tree.run("update-ref", "--no-deref", "HEAD", head)
    tree.run("read-tree", "-m", "-u", "HEAD")


def _packed_base(store: Repository, base: str) -> Path:
    """Return the folder of a pack of the base alone, which is copied into every tree.

    It is made once: packing thousands of files anew would be most of what publishing costs
    beyond writing the files themselves.
    """
    place = store.git_dir.with_name(f"pack-{base}")
    if not place.exists():
        replace_folder(place, lambda fresh: store.pack(base, fresh))
    return place


def _fingerprints(repository: Repository, base: str, head: str) -> bytes:
    """Return what each commit says and holds, whoever committed it."""
    options = ("--reverse", "--topo-order", "--date=raw", "-z", _FINGERPRINT)
    return repository.run("log", *options, f"{base}..{head}")
