"""What the user made of a merge beyond its conflicts, used again when git merges the same again.

A patch can merge and still have to change: a file that it adds calls what the new release calls
otherwise, or the release needs one line more. Then the conflicts alone do not say what was done.
So the whole of it is kept, as a diff from what git merged, with the new release's side in place
of each conflict, to what the user left. It belongs to the release that it was made for, since the
same adapter may need one change for this release and another for that. And the diff names each
file's content in full before and after: it is used where all of that is the same, or not at all.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patchstack.build import apply_exactly
from patchstack.mail import DIFF
from patchstack.picking import BASE, THEIRS, Conflicts
from patchstack.repository import Repository

_HEADER = """\
What a merge by git left to do. Written by tools/rebase.py, which does it when git merges the same.

"""
_FIELDS = ("patch", "from", "onto", "conflicts")
_NONE = "none"
_DIFF_START = re.compile(rb"^(?=diff --git )", re.MULTILINE)


@dataclass(frozen=True)
class Rework:
    """What was done to one patch between two releases.

    Parameters
    ----------
    slug
        The patch.
    origin, target
        The names of the releases.
    conflicts
        The identity of what git could not merge, from `conflicts_key`.
    diff
        What was done.
    """

    slug: str
    origin: str
    target: str
    conflicts: str
    diff: bytes

    @property
    def name(self) -> str:
        """The name of the file that keeps it; what is done anew takes its place."""
        return f"{self.slug}-{self.origin}-{self.target}.patch"

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        values = (self.slug, self.origin, self.target, self.conflicts)
        fields = [f"{key}: {value}\n" for key, value in zip(_FIELDS, values, strict=True)]
        return "".join([_HEADER, *fields, "\n"]).encode() + self.diff

    @classmethod
    def parse(cls, data: bytes) -> Rework:
        """Read the content of a file; ValueError for one that cannot be right."""
        header, *diff = _DIFF_START.split(data, maxsplit=1)
        lines = header.decode().removeprefix(_HEADER).splitlines()
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        slug, origin, target, conflicts = (fields[key] for key in _FIELDS)
        made = cls(slug, origin, target, conflicts, b"".join(diff))
        if made.to_bytes() != data:
            raise ValueError(f"it has more than {', '.join(_FIELDS)} and a diff")
        return made


def conflicts_key(unmerged: Conflicts) -> str:
    """Return the identity of what git could not merge: each file as two of its three sides have it.

    The third, the new release's, is what the diff starts from.
    """
    if not unmerged:
        return _NONE
    digest = hashlib.sha256()
    for path, sides in sorted(unmerged.items()):
        digest.update(path.encode("utf-8", "surrogateescape"))
        for side in (BASE, THEIRS):
            entry = sides.get(side)
            digest.update(b"\0" + (f"{entry.mode} {entry.blob}" if entry else "").encode())
        digest.update(b"\0")
    return digest.hexdigest()


def make_rework(
    tree: Repository,
    slug: str,
    between: tuple[str, str],
    unmerged: Conflicts,
    merged: str,
    commit: str,
) -> Rework:
    """Return how ``commit`` differs from what git merged.

    Parameters
    ----------
    tree
        Where the commits are.
    slug, between
        The patch and the names of the releases.
    unmerged, merged
        What git could not merge, and the tree with the new release's side of that.
    commit
        What the user left.
    """
    diff = tree.run("diff-tree", "-p", "-r", *DIFF, merged, commit)
    return Rework(slug, *between, conflicts_key(unmerged), diff)


def redo(tree: Repository, rework: Rework, unmerged: Conflicts, merged: str) -> str | None:
    """Return the tree that ``rework`` makes of a merge, or None if that is another merge."""
    if rework.conflicts != conflicts_key(unmerged):
        return None
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        tree.run("read-tree", merged, env=index)
        # Git has no patch without a change, but a user may have taken the new release's side.
        if rework.diff and apply_exactly(tree, index, merged, rework.diff):
            return None
        return tree.line("write-tree", env=index)
