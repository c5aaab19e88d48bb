"""A series moved commit by commit onto another release, as far as it goes by itself.

Nothing here knows of files of the project or of an earlier run: what is to be moved goes in, what
became of each patch comes out, and the repository that is worked in is thrown away or kept by the
caller. A dry run, a first run and a continued one are therefore the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.build import Applied, Stack
from patchstack.conflict import ConflictText, conflict_key, parse_conflict
from patchstack.picking import (
    Conflicts,
    commit_again,
    conflicts,
    merged_tree,
    pick,
    set_back,
    tree_of,
)
from patchstack.records import Records
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.resolutions import Resolution
from patchstack.reworks import redo
from patchstack.smoke import FAILED, SUSPECT, Check, Gate, accepted

_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}


@dataclass(frozen=True)
class Move:
    """What became of one patch.

    Parameters
    ----------
    commit
        The new commit; None for a patch that was dropped, or whose conflict is not resolved.
    dropped
        Why it was dropped.
    conflicts
        The paths that did not merge.
    recorded
        The files under ``patches/resolutions/`` that were used.
    checks
        What the smoke gate found.
    note
        What the reader of a report should know besides.
    """

    commit: str | None
    dropped: str = ""
    conflicts: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    note: str = ""

    @property
    def in_conflict(self) -> bool:
        """Whether the user has to resolve it."""
        return self.commit is None and not self.dropped

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that it fails."""
        return tuple(check for check in self.checks if check.result == FAILED)

    @property
    def doubts(self) -> tuple[Check, ...]:
        """The checks that the user has to look at."""
        return tuple(check for check in self.checks if check.result == SUSPECT)

    @property
    def stops(self) -> bool:
        """Whether the series cannot stand on it without the user."""
        return self.in_conflict or bool(self.failed or self.doubts)


@dataclass(frozen=True)
class Plan:
    """What is moved where.

    Parameters
    ----------
    old
        The series as commits on its own release.
    base
        The commit of the new release.
    origin, target
        The names of both releases.
    records
        What was recorded and may be used.
    edit
        The slugs of patches that the user wants to see to even if they merge.
    """

    old: Stack
    base: str
    origin: str
    target: str
    records: Records
    edit: tuple[str, ...] = ()

    def kept(self, moves: tuple[Move, ...]) -> list[str]:
        """Return the new commits, in order."""
        return [move.commit for move in moves if move.commit is not None]

    def head(self, moves: tuple[Move, ...]) -> str:
        """Return the commit that the next patch goes onto."""
        return [self.base, *self.kept(moves)][-1]

    def next(self, moves: tuple[Move, ...]) -> Applied:
        """Return the patch whose turn it is."""
        return self.old.patches[len(moves)]


def move_all(
    tree: Repository,
    plan: Plan,
    gate: Gate,
    moves: tuple[Move, ...],
    progress: Progress,
    *,
    stop: bool,
) -> tuple[Move, ...]:
    """Return what became of every patch, or of those up to the one that stops the run.

    Parameters
    ----------
    tree
        Where to work. It is left as the last patch left it.
    plan, gate
        What to move, and what each patch must pass.
    moves
        What became of the first patches already.
    progress
        Where progress goes.
    stop
        Whether to stop at the first patch that needs the user. Otherwise a patch in conflict is
        left out and the next ones go on without it.
    """
    total = len(plan.old.patches)
    for number in range(len(moves) + 1, total + 1):
        progress.say(f"[{number}/{total}] {plan.next(moves).file}")
        moves = (*moves, move_next(tree, plan, gate, moves))
        if stop and moves[-1].stops:
            break
    return moves


def move_next(tree: Repository, plan: Plan, gate: Gate, moves: tuple[Move, ...]) -> Move:
    """Move the patch whose turn it is; a conflict is left in the files of ``tree``."""
    patch = plan.next(moves)
    set_back(tree, plan.head(moves))
    unmerged = {} if pick(tree, patch.commit) else conflicts(tree)
    merged = merged_tree(tree, unmerged)
    found = Move(None, conflicts=tuple(unmerged))
    for rework in plan.records.reworks.values():
        wanted = (rework.slug, rework.target) == (patch.slug, plan.target)
        if wanted and (content := redo(tree, rework, unmerged, merged)):
            found = replace(found, recorded=(rework.name,))
            return _settle(tree, plan, gate, moves, content, found)
    if unmerged:
        recorded = _resolve_recorded(tree, unmerged, plan.records.resolutions)
        found = replace(found, recorded=recorded)
        if conflicts(tree):
            return found
        merged = tree.line("write-tree")
    return _settle(tree, plan, gate, moves, merged, found)


def _settle(
    tree: Repository,
    plan: Plan,
    gate: Gate,
    moves: tuple[Move, ...],
    content: str,
    found: Move,
) -> Move:
    """Return the move of a patch that became the tree ``content``."""
    patch, head = plan.next(moves), plan.head(moves)
    if content == tree_of(tree, head):
        return replace(found, dropped=f"already in {plan.target}: it changes nothing there")
    commit = commit_again(tree, patch.commit, content, head)
    set_back(tree, commit)
    checks = gate.check([*plan.kept(moves), commit], patch.commit)
    return replace(found, commit=commit, checks=_for_the_user(plan, patch.slug, checks, found))


def _for_the_user(
    plan: Plan, slug: str, checks: tuple[Check, ...], found: Move
) -> tuple[Check, ...]:
    """Return ``checks`` with what else the user has to look at, and without what is seen to."""
    reworks = plan.records.reworks
    if reworks.keys() & set(found.recorded):
        checks = accepted(checks)
    for each in reworks.values():
        same = (each.slug, each.origin, each.target) == (slug, plan.origin, plan.target)
        if same and each.name not in found.recorded:
            checks += (Check("recorded", SUSPECT, f"{each.name} was for another merge"),)
    if slug in plan.edit:
        checks += (Check("edit", SUSPECT, "you want to edit it"),)
    return checks


def conflict_text(tree: Repository, path: str) -> ConflictText | None:
    """Return a conflicting file as git left it, or None where it has no conflict to read."""
    file = _place(tree, path)
    if file.is_symlink() or not file.is_file():
        return None
    return parse_conflict(file.read_bytes())


def _resolve_recorded(
    tree: Repository, unmerged: Conflicts, resolutions: dict[str, Resolution]
) -> tuple[str, ...]:
    """Put recorded resolutions in place of the conflicts that they are for; return their names."""
    used = []
    for path in unmerged:
        text = conflict_text(tree, path)
        known = resolutions.get(conflict_key(path, text.hunks)) if text else None
        if text and known:
            _place(tree, path).write_bytes(text.resolve(known.resolved))
            tree.run("add", "--force", "--", path, env=_LITERAL)
            used.append(known.name)
    return tuple(used)


def _place(tree: Repository, path: str) -> Path:
    assert tree.work_tree is not None
    return tree.work_tree / path
