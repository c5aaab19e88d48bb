"""What a rebase tells the user who has to see to a patch."""

from __future__ import annotations

from patchstack.context import Context
from patchstack.drift import contained_upstream, explain_conflict
from patchstack.errors import Exit, ToolError
from patchstack.picking import conflicts
from patchstack.rebase_report import PatchReport
from patchstack.rebase_state import State
from patchstack.repository import Repository
from patchstack.smoke import FAILED, SUSPECT

COMMANDS = (
    ("tools/rebase.py --continue", "go on with what is staged in the tree"),
    ("tools/rebase.py --skip REASON", "drop the patch, and say why"),
    ("tools/rebase.py --abort", "give up; nothing under patches/ has changed"),
)
_LINES = 40  # of a file's upstream change


def stop_error(patch: PatchReport, total: int, place: str) -> ToolError:
    """Return the one line that a run ends with when a patch needs the user."""
    title = f"patch {patch.number}/{total} {patch.file}"
    if failed := _details(patch, FAILED):
        what = f"{title} merges but fails the smoke gate: {failed}"
        return ToolError(what, f"repair it in {place}, then {_next()}", Exit.FINDINGS)
    if doubts := _details(patch, SUSPECT):
        hint = f"look at it in {place}, git add what you change, then {_next()}"
        return ToolError(f"{title} merges, but {doubts}", hint, Exit.USER_CHANGES)
    what = f"{title} is in conflict in {', '.join(patch.conflicts)}"
    hint = f"resolve it in {place} and git add it, then {_next()}"
    return ToolError(what, hint, Exit.USER_CHANGES)


def stop_words(tree: Repository, patch: PatchReport, total: int, place: str) -> tuple[str, ...]:
    """Return what explains the patch that stopped, line by line.

    Parameters
    ----------
    tree
        Where it stopped.
    patch, total
        The patch, and how many there are.
    place
        How the user finds the tree.
    """
    lines = [f"patch {patch.number}/{total}: {patch.file} ({patch.slug})", f"tree: {place}"]
    unmerged = conflicts(tree)
    for path, sides in unmerged.items():
        lines += [f"conflict: {path}", "  what the new release changed there:"]
        lines += [f"    {line}" for line in explain_conflict(tree, sides, _LINES)]
    lines += [f"resolved by {name}" for name in patch.recorded]
    lines += [f"{check.name}: {check.result} {check.detail}" for check in patch.checks]
    if unmerged and contained_upstream(tree, unmerged):
        lines.append("the new release has every line that the patch adds there: perhaps --skip it")
    return (*lines, "next:", *(f"  {command:30} {what}" for command, what in COMMANDS))


def _details(patch: PatchReport, result: str) -> str:
    return "; ".join(check.detail for check in patch.checks if check.result == result)


def open_rebase(context: Context, state: State) -> ToolError:
    """Return the refusal to start a second rebase."""
    what = f"a rebase of {state.origin} onto {state.target.name} waits at {state.patch.file}"
    place = context.show(context.rebase / state.tree)
    return ToolError(f"{what} in {place}", _next(), Exit.USER_CHANGES)


def _next() -> str:
    return "run " + ", or ".join(command for command, _ in COMMANDS)
