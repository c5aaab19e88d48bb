"""From one release's series to another's: the whole of ``tools/rebase.py``.

The commits of the old series are moved in a repository of their own. If all of them stand, the new
series is written; if one needs the user, that repository is left to the user and nothing else has
changed. Either way a run that is killed changed nothing, and can be run again.
"""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.applying import alone
from patchstack.base import base_point
from patchstack.build import Stack
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.exporting import make_series, write_series
from patchstack.lock import read_lock
from patchstack.moving import Move, move_all
from patchstack.rebase_report import Report
from patchstack.rebase_run import Options, Run, copy_tree, fill_tree, prepare
from patchstack.rebase_state import (
    STATE,
    State,
    forget,
    hold,
    open_tree,
    read_state,
    scratch_tree,
    sweep,
    tree_name,
)
from patchstack.rebase_words import open_rebase, stop_error, stop_words
from patchstack.records import Record
from patchstack.release import pin_release
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.resolving import learn, require_patch, users_commit
from patchstack.revisions import load_revisions
from patchstack.series import has_series
from patchstack.smoke import accepted
from patchstack.swap import claimed, replace_file


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Parameters
    ----------
    reports
        One for each target.
    folder
        The new series, if one was written.
    error
        What the run ends with, if not with success.
    words
        What the user is told about the patch that stopped.
    """

    reports: tuple[Report, ...]
    folder: Path | None = None
    error: ToolError | None = None
    words: tuple[str, ...] = ()


def start(
    context: Context,
    origin: str,
    onto: str,
    options: Options,
    progress: Progress,
    *,
    replaces: bool,
) -> Outcome:
    """Move the series of ``origin`` onto the release ``onto`` and write it there.

    Parameters
    ----------
    context
        Every path.
    origin, onto
        A supported release; and any release, by name or version.
    options, progress
        How to work, and where progress goes.
    replaces
        Whether a series that ``onto`` has already may be replaced.
    """
    with _claimed(context, progress):
        state = read_state(context)
        sweep(context, state)
        if state:
            raise open_rebase(context, state)
        run = prepare(context, origin, onto, options, progress, dry_run=False)
        with claimed(context.series_dir(run.target.name), progress=progress):
            if not replaces:
                _refuse_series(context, run.target.name)
            with scratch_tree(context.rebase) as tree:
                fill_tree(run, tree)
                return _go(run, tree, (), (), replaces=replaces)


def dry_run(
    context: Context, origin: str, onto: list[str], options: Options, progress: Progress
) -> Outcome:
    """Report how the series of ``origin`` would move onto each of several releases."""
    reports = []
    with alone(context, progress), tempfile.TemporaryDirectory() as folder:
        for name in onto:
            run = prepare(context, origin, name, options, progress, dry_run=True)
            progress.say(f"{run.origin.name} onto {run.target.name}")
            with scratch_tree(Path(folder)) as tree:
                fill_tree(run, tree)
                with run.gate(tree) as gate:
                    moves = move_all(tree, run.plan(), gate, (), progress, stop=False)
                reports.append(run.report(tree, moves, dry_run=True))
    error = None
    if found := [report.target.name for report in reports if report.has_findings]:
        what = f"the series of {origin} does not move onto {', '.join(found)} by itself"
        hint = f"run tools/rebase.py --from {origin} --onto {found[0]} and resolve it there"
        error = ToolError(what, hint, Exit.FINDINGS)
    return Outcome(tuple(reports), error=error)


def go_on(context: Context, options: Options, progress: Progress) -> Outcome:
    """Take what the user made of the patch that stopped, and go on with the next.

    Parameters
    ----------
    context, progress
        Every path, and where progress goes.
    options
        How to work; an interpreter is kept from the start if none is given.
    """
    with _claimed(context, progress):
        state, run = _waiting(context, options, progress)
        users, plan = open_tree(context, state), run.plan()
        commit = users_commit(users, state, plan)
        with scratch_tree(context.rebase) as tree:
            copy_tree(run, users, tree, [commit])
            require_patch(tree, state, commit)
            learned, note = learn(tree, state, plan, commit)
            with run.gate(tree) as gate:
                checks = gate.check([*plan.kept(state.moves), commit], state.patch.commit)
            move = replace(state.stopped, commit=commit, note=note, checks=accepted(checks))
            if move.failed:
                return _stopped(run, users, state.moves, move)
            moves = (*state.moves, move)
            return _go(run, tree, moves, (*state.learned, *learned), replaces=state.replaces)


def skip(context: Context, reason: str, options: Options, progress: Progress) -> Outcome:
    """Drop the patch that stopped, for ``reason``, and go on with the next."""
    if not reason.strip() or not reason.isprintable():
        raise ToolError(f"--skip {reason!r} is not a reason", "say it in one line", Exit.USAGE)
    with _claimed(context, progress):
        state, run = _waiting(context, options, progress)
        users, plan = open_tree(context, state), run.plan()
        move = Move(None, dropped=reason, conflicts=state.stopped.conflicts)
        with scratch_tree(context.rebase) as tree:
            copy_tree(run, users, tree, plan.kept(state.moves))
            return _go(run, tree, (*state.moves, move), state.learned, replaces=state.replaces)


def abort(context: Context, progress: Progress) -> None:
    """End the rebase that waits for the user; nothing of it stays."""
    with _claimed(context, progress):
        if not (context.rebase.is_dir() and any(context.rebase.iterdir())):
            raise _no_rebase()
        forget(context)


def _go(
    run: Run,
    tree: Repository,
    moves: tuple[Move, ...],
    learned: tuple[Record, ...],
    *,
    replaces: bool,
) -> Outcome:
    """Move what is left; then write the series, or leave the tree to the user."""
    plan = run.plan(learned)
    with run.gate(tree) as gate:
        moves = move_all(tree, plan, gate, moves, run.progress, stop=True)
    if not moves[-1].stops:
        return _finish(run, tree, moves, learned, replaces=replaces)
    *done, last = moves
    outcome = _stopped(run, tree, tuple(done), last)
    state = State(
        origin=run.origin.name,
        target=run.target,
        replaces=replaces,
        python=run.options.python,
        resolutions=run.options.resolutions,
        edit=run.options.edit,
        old=run.old,
        moves=tuple(done),
        stopped=last,
        learned=learned,
    )
    hold(run.context, state, tree)
    return outcome


def _stopped(run: Run, tree: Repository, done: tuple[Move, ...], last: Move) -> Outcome:
    """Return what the user is told about the patch that stopped."""
    report = run.report(tree, (*done, last), dry_run=False)
    patch = report.patches[len(done)]
    place = run.context.show(run.context.rebase / tree_name(run.old.patches[len(done)]))
    words = stop_words(tree, patch, len(report.patches), place)
    return Outcome((report,), error=stop_error(patch, len(report.patches), place), words=words)


def _finish(
    run: Run,
    tree: Repository,
    moves: tuple[Move, ...],
    learned: tuple[Record, ...],
    *,
    replaces: bool,
) -> Outcome:
    """Write what the run was for. The series comes last: with it the rebase is done."""
    context, name = run.context, run.target.name
    assert len(moves) == len(run.old.patches), "a patch was lost"
    report = run.report(tree, moves, dry_run=False)
    plan = run.plan()
    if not plan.kept(moves):
        forget(context)
        run.progress.say(f"every patch was dropped, so there is no series for {name}")
        return Outcome((report,))
    base, folder = base_point(run.target), context.series_dir(name)
    patches, stack = make_series(tree, base, plan.head(moves), context.rebase)
    files = {context.resolutions / each.name: each.to_bytes() for each in learned}
    with claimed(folder, *files, progress=run.progress):
        if not replaces and has_series(folder):
            _require_same(context, name, stack)
        for file, data in files.items():
            replace_file(file, data)
        if not run.pinned:
            pin_release(context.revisions_file, run.target)
        write_series(context, name, patches, stack, f"moved from {run.origin.name}")
    forget(context)
    run.progress.say(f"{len(patches)} patches written to {context.show(folder)}")
    return Outcome((report,), folder)


def _claimed(context: Context, progress: Progress) -> AbstractContextManager[None]:
    """Keep other runs from the cache, from the rebase that waits and from ``patches/``."""
    state = context.rebase / STATE
    places = (context.repository, state, context.revisions_file, context.history_file)
    return claimed(*places, progress=progress)


def _refuse_series(context: Context, name: str) -> None:
    """Refuse to write over a series."""
    if has_series(context.series_dir(name)):
        raise ToolError(
            f"{name} has a series already",
            "look with --dry-run, or replace it with --replace",
            Exit.USER_CHANGES,
        )


def _require_same(context: Context, name: str, stack: Stack) -> None:
    """Refuse a series that is not the one to be written: somebody else wrote it meanwhile."""
    if read_lock(context.series_dir(name)) != stack:
        _refuse_series(context, name)


def _waiting(context: Context, options: Options, progress: Progress) -> tuple[State, Run]:
    """Return the rebase that waits for the user, ready to go on."""
    state = read_state(context)
    if state is None:
        raise _no_rebase()
    sweep(context, state)
    options = replace(
        options,
        python=options.python or state.python,
        resolutions=options.resolutions and state.resolutions,
        edit=state.edit,
    )
    revisions = load_revisions(context.revisions_file)
    origin, pinned = revisions.get(state.origin), state.target.name in revisions.names
    return state, Run(context, options, progress, origin, state.target, pinned, state.old)


def _no_rebase() -> ToolError:
    hint = "start one with tools/rebase.py --from REVISION --onto RELEASE"
    return ToolError("no rebase waits to be continued", hint, Exit.USAGE)
