"""What a new release changed where the patches are: in their files, and close to their lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchstack.picking import OURS, THEIRS, Conflicts, Entry
from patchstack.repository import Repository

NEAR = 10  # lines
_BASE = 1
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """Lines of a file that are changed.

    Parameters
    ----------
    start, removed
        Where in the old file, and how many of its lines; none where lines are only added.
    added
        How many lines come in their place.
    """

    start: int
    removed: int
    added: int

    @property
    def lines(self) -> int:
        """How much is changed, as a diff counts it."""
        return self.removed + self.added

    def is_near(self, other: Change) -> bool:
        """Return whether less than `NEAR` unchanged lines lie between both."""
        first, second = sorted((self, other), key=lambda change: change.start)
        return second.start - (first.start + first.removed) < NEAR


@dataclass(frozen=True)
class FileDrift:
    """What became of one file.

    Parameters
    ----------
    path
        The file in the old release.
    changed
        How many lines the new release changed.
    near
        How many of them close to a line that the patches change.
    fate
        ``same``, ``changed``, ``deleted``, ``added``, or ``renamed to`` and the new path.
    """

    path: str
    changed: int
    near: int
    fate: str


@dataclass(frozen=True)
class Drift:
    """What lies between two releases.

    Parameters
    ----------
    files
        The files that the patches touch and that upstream has.
    changed_files
        How many files differ in all.
    """

    files: tuple[FileDrift, ...]
    changed_files: int


def measure_drift(repository: Repository, old: str, patched: str, new: str) -> Drift:
    """Compare the commits of two releases where the patches from ``old`` to ``patched`` are."""
    touched = _statuses(repository, old, patched)
    changed = _statuses(repository, old, new)
    moved = _renames(repository, old, new) if _lost(touched, changed) else {}
    files = []
    for path, kind in touched.items():
        if kind == "A" and path not in changed:
            continue  # a file of the patches alone
        fate = {"D": "deleted", "A": "added"}.get(changed.get(path, "M"), "changed")
        if path not in changed:
            fate = "same"
        elif path in moved:
            fate = f"renamed to {moved[path]}"
        theirs = _changes(repository, f"{old}:{path}", f"{new}:{moved.get(path, path)}")
        ours = _changes(repository, f"{old}:{path}", f"{patched}:{path}")
        near = [change for change in theirs if any(map(change.is_near, ours))]
        files.append(FileDrift(path, _count(theirs), _count(near), fate))
    return Drift(tuple(files), len(changed))


def explain_conflict(repository: Repository, sides: dict[int, Entry], limit: int) -> list[str]:
    """Return what the new release changed in a conflicting file, close to the patch's lines.

    Parameters
    ----------
    repository
        Where the sides are.
    sides
        The file in the old release (1), the new release (2) and the patch (3).
    limit
        How many lines at most.
    """
    if _BASE not in sides:
        return ["the new release has a file of this name too"]
    if OURS not in sides:
        return ["the new release does not have this file (deleted, or moved too far to be found)"]
    text = _diff(repository, sides[_BASE].blob, sides[OURS].blob, context=3)
    ours = _changes(repository, sides[_BASE].blob, sides[THEIRS].blob) if THEIRS in sides else []
    lines: list[str] = []
    for hunk in re.split(r"^(?=@@ )", text, flags=re.MULTILINE)[1:]:
        lines += _near_lines(hunk, ours)
    if not lines:
        return ["the new release changed nothing close to the patch's lines"]
    if len(lines) > limit:
        return [*lines[:limit], f"… {len(lines) - limit} lines more"]
    return lines


def _near_lines(hunk: str, ours: list[Change]) -> list[str]:
    """Return the lines of a hunk that lie close to ``ours``, under its header; or nothing."""
    header, *lines = hunk.splitlines()
    match = _HUNK.match(header)
    assert match is not None
    number, near = int(match[1]), []
    for line in lines:
        if not ours or any(map(Change(number, 1, 0).is_near, ours)):
            near.append(line)
        number += not line.startswith("+")
    return [header, *near] if any(line[0] in "+-" for line in near) else []


def added_lines(repository: Repository, old: str, new: str) -> set[int]:
    """Return the numbers of the lines that ``new`` has more than ``old``, which may not exist."""
    diff = _diff(repository, _existing(repository, old), new, context=0)
    lines: set[int] = set()
    for _, _, start, added in _HUNK.findall(diff):
        lines.update(range(int(start), int(start) + int(added or 1)))
    return lines


def contained_upstream(repository: Repository, all_sides: Conflicts) -> bool:
    """Return whether the new release already has every line that the patch would add."""
    for sides in all_sides.values():
        if not {OURS, THEIRS} <= sides.keys():
            return False
        base = _lines(repository, sides.get(_BASE))
        if not _lines(repository, sides[THEIRS]) - base <= _lines(repository, sides[OURS]):
            return False
    return True


def _lines(repository: Repository, entry: Entry | None) -> set[bytes]:
    return set(repository.run("cat-file", "blob", entry.blob).split(b"\n")) if entry else set()


def _count(changes: list[Change]) -> int:
    return sum(change.lines for change in changes)


def _lost(touched: dict[str, str], changed: dict[str, str]) -> bool:
    return any(changed.get(path) == "D" for path in touched)


def _statuses(repository: Repository, old: str, new: str) -> dict[str, str]:
    fields = _fields(repository, "--no-renames", old, new)
    return dict(zip(fields[1::2], fields[::2], strict=True))


def _renames(repository: Repository, old: str, new: str) -> dict[str, str]:
    fields = _fields(repository, "--find-renames", "-l0", "--diff-filter=R", old, new)
    return dict(zip(fields[1::3], fields[2::3], strict=True))


def _fields(repository: Repository, *arguments: str) -> list[str]:
    listed = repository.run("diff-tree", "-r", "-z", "--name-status", *arguments)
    return listed.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _changes(repository: Repository, old: str, new: str) -> list[Change]:
    """Return the changes between two files; one that does not exist counts as empty."""
    sides = (_existing(repository, old), _existing(repository, new))
    return _parse(_diff(repository, *sides, context=0))


def _existing(repository: Repository, name: str) -> str:
    if repository.ask("cat-file", "-e", name).status == 0:
        return name
    return repository.line("hash-object", "-w", "--stdin", stdin=b"")


def _parse(diff: str) -> list[Change]:
    changes = []
    for start, lines, _, added in _HUNK.findall(diff):
        removed = int(lines or 1)
        # Git names the line before the place where lines are only added.
        changes.append(Change(int(start) + (removed == 0), removed, int(added or 1)))
    return changes


def _diff(repository: Repository, old: str, new: str, *, context: int) -> str:
    options = ("--no-ext-diff", "--no-textconv", f"--unified={context}")
    return repository.run("diff", *options, old, new).decode("utf-8", "replace")
