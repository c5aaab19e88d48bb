"""What the user made of a patch that stopped: taken as a commit, and as recorded resolutions."""

from __future__ import annotations

import os

from patchstack.changes import IGNORED, summary
from patchstack.conflict import has_markers
from patchstack.errors import Exit, ToolError
from patchstack.exporting import check_commit
from patchstack.moving import Plan, conflict_text
from patchstack.picking import (
    Conflicts,
    commit_again,
    conflicts,
    merged_tree,
    pick,
    set_back,
    tree_of,
)
from patchstack.rebase_state import State
from patchstack.records import Record
from patchstack.repository import Repository
from patchstack.resolutions import Resolution
from patchstack.reworks import make_rework

BY_HAND = "by hand"


def users_commit(tree: Repository, state: State, plan: Plan) -> str:
    """Return the commit that the user made or staged; refuse one that is not ready.

    Parameters
    ----------
    tree
        The tree that was left to the user. A commit is added, and nothing else.
    state, plan
        The rebase that waits.
    """
    head = plan.head(state.moves)
    _require_staged(tree)
    content = tree.line("write-tree")
    _require_no_markers(tree, content, state.stopped.conflicts)
    if content == tree_of(tree, head):
        raise _not_ready("nothing of the patch is left", "run tools/rebase.py --skip REASON")
    return commit_again(tree, _words(tree, head, state.patch.commit), content, head)


def require_patch(tree: Repository, state: State, commit: str) -> None:
    """Refuse a commit of the user's that could not become the patch that stopped.

    Parameters
    ----------
    tree
        A scratch tree, for the user's may have settings that change how a message is read.
    state, commit
        The rebase that waits, and the commit.
    """
    if check_commit(tree, commit).slug != state.patch.slug:
        hint = "give the commit its old HiQ-Patch: trailer"
        raise ToolError(f"the commit is not patch {state.patch.slug}", hint, Exit.FINDINGS)


def learn(
    tree: Repository, state: State, plan: Plan, commit: str
) -> tuple[tuple[Record, ...], str]:
    """Return what is to be recorded of how the user made ``commit``, and what to tell about it.

    Parameters
    ----------
    tree
        A scratch tree with all commits; the patch is picked there again, as it was before.
    state, plan
        The rebase that waits.
    commit
        What the user made.
    """
    set_back(tree, plan.head(state.moves))
    unmerged = {} if pick(tree, state.patch.commit) else conflicts(tree)
    merged = merged_tree(tree, unmerged)
    if not unmerged and tree_of(tree, commit) == merged:
        return (), "taken as it merged"
    made: tuple[Record, ...] | None = _resolutions(tree, state, unmerged, commit)
    if made is None:
        between = (plan.origin, plan.target)
        made = (make_rework(tree, state.patch.slug, between, unmerged, merged, commit),)
    learned = tuple(record for record in made if not plan.records.holds(record))
    return learned, f"{BY_HAND}, and recorded" if learned else BY_HAND


def _resolutions(
    tree: Repository, state: State, unmerged: Conflicts, commit: str
) -> tuple[Resolution, ...] | None:
    """Return how every conflict was resolved, or None if that is not all that was done."""
    listed = tree.run("diff-index", "--cached", "--name-only", "-z", commit)
    changed = set(listed.decode("utf-8", "surrogateescape").split("\0")[:-1])
    made = [_resolution(tree, state, path, commit) for path in unmerged]
    whole = tuple(each for each in made if each is not None)
    return whole if len(whole) == len(made) and changed <= unmerged.keys() else None


def _resolution(tree: Repository, state: State, path: str, commit: str) -> Resolution | None:
    text = conflict_text(tree, path)
    answer = tree.ask("cat-file", "blob", f"{commit}:{path}")
    resolved = text.split(answer.out) if text and answer.status == 0 else None
    if text is None or resolved is None:
        return None
    between = (state.origin, state.target.name)
    made = Resolution(path, state.patch.slug, *between, text.hunks, resolved)
    try:
        return made if Resolution.parse(made.to_bytes()) == made else None
    except UnicodeError:
        return None


def _require_staged(tree: Repository) -> None:
    """Refuse what is unmerged or not staged: it is not clear what the user means by it."""
    if unmerged := conflicts(tree):
        raise _not_ready(f"{summary(sorted(unmerged))} is not resolved", "git add or git rm it")
    tree.ask("update-index", "-q", "--refresh")
    changed = tree.run("diff-files", "--name-only", "-z")
    patterns = [f"--exclude={pattern}" for pattern in IGNORED]
    others = tree.run("ls-files", "--others", "-z", *patterns)
    names = sorted({os.fsdecode(name) for name in (changed + others).split(b"\0") if name})
    if names:
        raise _not_ready(f"{summary(names)} is not staged", "git add it, or remove it")


def _require_no_markers(tree: Repository, content: str, paths: tuple[str, ...]) -> None:
    for path in paths:
        answer = tree.ask("cat-file", "blob", f"{content}:{path}")
        if answer.status == 0 and has_markers(answer.out):
            raise _not_ready(f"{path} has conflict markers", "resolve it and git add it")


def _words(tree: Repository, head: str, patch: str) -> str:
    """Return the commit whose message counts: the user's, or the patch's if there is none."""
    if tree.line("rev-list", f"HEAD..{head}"):
        raise _not_ready("HEAD does not build on the patches before", f"git reset --soft {head}")
    commits = tree.line("rev-list", f"{head}..HEAD").split()
    if len(commits) > 1:
        hint = f"git reset --soft {head}, and the patch is one again"
        raise _not_ready(f"the patch became {len(commits)} commits", hint)
    return commits[0] if commits else patch


def _not_ready(what: str, hint: str) -> ToolError:
    then = f"{hint}, then run tools/rebase.py --continue" if "rebase.py" not in hint else hint
    return ToolError(what, then, Exit.USER_CHANGES)
