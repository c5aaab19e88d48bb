"""One commit moved onto another, by git's own three-way merge: ``cherry-pick``.

``git am`` and ``git apply`` place a hunk by its context and may find another, equal place; a
merge of both sides with the commit's own parent does not. What was picked is committed again
with the commit's own words, so that nothing but the content can change.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patchstack.repository import GitError, Repository

BASE, OURS, THEIRS = 1, 2, 3
# Every setting that decides how git merges, and how it writes what it cannot merge.
_MERGE = (
    *("-c", "merge.conflictStyle=diff3"),
    *("-c", "merge.renames=true"),
    *("-c", "merge.renameLimit=0"),
    *("-c", "merge.directoryRenames=conflict"),
    *("-c", "rerere.enabled=false"),
    *("-c", "core.editor=true"),
)


@dataclass(frozen=True)
class Entry:
    """A file in one side of a conflict.

    Parameters
    ----------
    mode, blob
        Its mode and content.
    """

    mode: str
    blob: str


# Each conflicting path: the sides that have it, by git's numbers (1 base, 2 ours, 3 theirs).
Conflicts = dict[str, dict[int, Entry]]


def pick(tree: Repository, commit: str) -> bool:
    """Merge ``commit`` into the files and the index; return whether all of it could be.

    Parameters
    ----------
    tree
        A repository whose files and index are those of ``HEAD``.
    commit
        The commit to move. After a conflict ``CHERRY_PICK_HEAD`` names it.
    """
    options = ("--keep-redundant-commits", "--allow-empty-message", "--strategy=ort")
    answer = tree.ask(*_MERGE, "cherry-pick", *options, commit)
    if answer.status == 0:
        return True
    if answer.status != 1 or not conflicts(tree):
        raise GitError("cherry-pick", tree.git_dir, answer, tree.remedy)
    return False


def conflicts(tree: Repository) -> Conflicts:
    """Return the paths that are not merged."""
    found: Conflicts = {}
    listed = tree.run("ls-files", "--unmerged", "-z").decode("utf-8", "surrogateescape")
    for line in listed.split("\0")[:-1]:
        entry, path = line.split("\t", 1)
        mode, blob, stage = entry.split(" ")
        found.setdefault(path, {})[int(stage)] = Entry(mode, blob)
    return found


def merged_tree(tree: Repository, unmerged: Conflicts) -> str:
    """Return the tree that git merged, with the new release's side of each conflict."""
    lines = []
    for path, sides in unmerged.items():
        lines.append(f"0 {'0' * 40}\t{path}\0")
        if ours := sides.get(OURS):
            lines.append(f"{ours.mode} {ours.blob}\t{path}\0")
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        shutil.copyfile(tree.git_dir / "index", index)
        env = {"GIT_INDEX_FILE": str(index)}
        stdin = "".join(lines).encode("utf-8", "surrogateescape")
        tree.run("update-index", "-z", "--index-info", stdin=stdin, env=env)
        return tree.line("write-tree", env=env)


def set_back(tree: Repository, commit: str) -> None:
    """Make the files and the index those of ``commit``, and forget an unfinished pick."""
    tree.ask("cherry-pick", "--quit")
    tree.run("update-ref", "--no-deref", "HEAD", commit)
    tree.run("reset", "--hard", "--quiet")
    tree.run("clean", "-ffdxq")


def commit_again(repository: Repository, words: str, content: str, parent: str) -> str:
    """Return a commit with the tree ``content``, and all else but the parent as in ``words``.

    The committer becomes the author, as for every commit of a series.
    """
    head, _, message = repository.run("cat-file", "commit", words).partition(b"\n\n")
    fields = dict(line.split(b" ", 1) for line in head.split(b"\n") if b" " in line)
    lines = [f"tree {content}".encode(), f"parent {parent}".encode()]
    lines += [b"author " + fields[b"author"], b"committer " + fields[b"author"]]
    if b"encoding" in fields:
        lines.append(b"encoding " + fields[b"encoding"])
    text = b"\n".join(lines) + b"\n\n" + message
    return repository.line("hash-object", "-t", "commit", "-w", "--stdin", stdin=text)


def tree_of(repository: Repository, commit: str) -> str:
    """Return the tree of a commit."""
    return repository.line("rev-parse", f"{commit}^{{tree}}")
