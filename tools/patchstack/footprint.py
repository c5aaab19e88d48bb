"""How much of SGLang a series changes: what a maintainer has to carry to the next release.

Measured from the patches alone, without the release. Lines in SGLang's own files are counted patch
by patch, since each changed line is one that upstream can collide with. Files that the series
adds are built up in an empty repository: no line of them depends on the release.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from patchstack.errors import Exit, ToolError
from patchstack.repository import Repository
from patchstack.series import PatchFile

EXISTING_BUDGET = 60
NEW_BUDGET = 250

_CREATED = re.compile(r"^ create mode \d+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Footprint:
    """What one series changes.

    Parameters
    ----------
    revision
        The release.
    existing
        Lines added to or removed from files that the release has.
    new
        Lines of the files that the series adds.
    tree
        Git's id of those files, in the repository that they were measured in.
    touched
        The patches' slugs, each with a file of SGLang's that it changes.
    """

    revision: str
    existing: int
    new: int
    tree: str
    touched: frozenset[tuple[str, str]] = frozenset()

    @property
    def excesses(self) -> Iterator[str]:
        """What is over budget."""
        if self.existing > EXISTING_BUDGET:
            yield f"changes {self.existing} lines of SGLang's files, budget {EXISTING_BUDGET}"
        if self.new > NEW_BUDGET:
            yield f"has {self.new} lines in files of its own, budget {NEW_BUDGET}"


@dataclass(frozen=True)
class Change:
    """Lines that differ between the new files of two series.

    Parameters
    ----------
    before, after
        The releases.
    added, removed
        The lines of a diff between them.
    """

    before: str
    after: str
    added: int
    removed: int


def measure(scratch: Repository, revision: str, patches: tuple[PatchFile, ...]) -> Footprint:
    """Return the footprint of a series.

    Parameters
    ----------
    scratch
        An empty repository, which receives the new files.
    revision
        The release's name.
    patches
        The series.
    """
    existing, created, touched = 0, set[str](), set[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": os.fspath(Path(folder) / "index")}
        for patch in patches:
            created |= _created(scratch, patch)
            counts = _numstat(_ask(scratch, patch, "--numstat", "-z"))
            theirs = counts.keys() - created
            existing += sum(sum(counts[name]) for name in theirs)
            touched |= {(patch.slug, name) for name in theirs}
            if ours := created & counts.keys():
                wanted = [f"--include={_literal(name)}" for name in sorted(ours)]
                _ask(scratch, patch, "--cached", *wanted, env=index)
        tree = scratch.line("write-tree", env=index)
    new = sum(added for added, _ in _tree_numstat(scratch, _empty(scratch), tree).values())
    return Footprint(revision, existing, new, tree, frozenset(touched))


def changes(scratch: Repository, footprints: tuple[Footprint, ...]) -> Iterator[Change]:
    """Yield how the new files differ from each series to the next."""
    for before, after in pairwise(footprints):
        counts = _tree_numstat(scratch, before.tree, after.tree).values()
        added, removed = (sum(lines[side] for lines in counts) for side in (0, 1))
        yield Change(before.revision, after.revision, added, removed)


def _created(scratch: Repository, patch: PatchFile) -> set[str]:
    """Return the files that a patch adds."""
    summary = _ask(scratch, patch, "--summary").decode("utf-8", "surrogateescape")
    return {_unquoted(name) for name in _CREATED.findall(summary)}


def _unquoted(name: str) -> str:
    """Return a file's name of which git quotes what is not plain ASCII."""
    if not name.startswith('"'):
        return name
    plain = name[1:-1].encode().decode("unicode_escape").encode("latin-1")
    return plain.decode("utf-8", "surrogateescape")


def _ask(
    scratch: Repository, patch: PatchFile, *options: str, env: dict[str, str] | None = None
) -> bytes:
    answer = scratch.ask("apply", *options, "-", stdin=patch.data, env=env)
    if answer.status != 0:
        raise ToolError(
            f"{patch.name} cannot be measured: {answer.err.removeprefix('error: ')}",
            "write the series again with tools/export.py",
            Exit.UPSTREAM,
        )
    return answer.out


def _literal(name: str) -> str:
    """Return a pattern that matches ``name`` alone."""
    return "".join(f"\\{letter}" if letter in "*?[\\" else letter for letter in name)


def _empty(scratch: Repository) -> str:
    return scratch.line("mktree", stdin=b"")


def _tree_numstat(scratch: Repository, old: str, new: str) -> dict[str, tuple[int, int]]:
    return _numstat(scratch.run("diff-tree", "-r", "-z", "--numstat", "--no-renames", old, new))


def _numstat(output: bytes) -> dict[str, tuple[int, int]]:
    """Return the lines added and removed of each file; binary files have none."""
    counts = {}
    for entry in output.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        added, removed, name = entry.split("\t", 2)
        counts[name] = (0, 0) if added == "-" else (int(added), int(removed))
    return counts
