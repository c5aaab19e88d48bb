"""The series moved between the supported releases: the whole of ``tools/moves.py``.

From the pin back to every other release, and from the oldest of them forward to the pin again.
What is right is known for each: the series that the release has. So the moves show what git merges
by itself, what needs a person, and that what a person did once is done again.

Everything happens in a project of its own, whose only series at the start is the pin's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchstack.applying import alone
from patchstack.base import PREFIX, base_point, open_store
from patchstack.build import build_stack
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.ground import touched_files
from patchstack.lock import read_lock
from patchstack.mail import changed_paths
from patchstack.rebase_report import Report
from patchstack.rebase_run import Options
from patchstack.rebase_state import open_tree, read_state
from patchstack.rebasing import Outcome, go_on, start
from patchstack.records import Records, read_records
from patchstack.report import Progress
from patchstack.revisions import Revisions, load_revisions
from patchstack.series import read_series
from patchstack.swap import claimed, replace_file

PAGE = "docs/moves.md"
MERGED, EDITED, CONFLICT = "merged", "edited", "conflict"
_QUIET = Progress(quiet=True)
_HEAD = """\
# The series, moved between the releases

`tools/moves.py --record` wrote this page and everything that it links to. It moves the pin's series
with `tools/rebase.py` to every other release, and from the oldest one forward to the pin again.
Where a patch needs a person it is given what the release's own series has, and rebase records that
under `patches/resolutions/`. Then all of it is done again, with what was recorded and nobody there.
That is what took the seconds, on a machine that had other work too. Every series came out as the
release's own, patch by patch and file by file; what is different is the message of a patch whose
own release words it otherwise. `tests/patchstack/test_rebase_real.py` does the same, and shows
where each move stops if nothing is recorded.
"""
_FILES = """\
What became of each file that either series touches. *merged*: git had it right by itself.
*conflict*: git could not merge it. *edited*: it merged, and was wrong on the new release. The new
files are the adapters, ours alone.
"""


@dataclass(frozen=True)
class Replay:
    """One move with what is recorded.

    Parameters
    ----------
    origin, target
        The names of the releases.
    seconds, busy
        How long it took, and for how much of that a processor was busy with it.
    files
        What became of each file of either series: one of the words above.
    added
        Those files that are not SGLang's.
    used
        The recorded files that were used.
    problem
        Why the result is not the target's own series, if it is not.
    """

    origin: str
    target: str
    seconds: float
    busy: float
    files: dict[str, str]
    added: frozenset[str]
    used: tuple[str, ...]
    problem: str


def moves_of(revisions: Revisions) -> list[tuple[str, str]]:
    """Return which moves there are: back from the pin to all, and forward from the oldest."""
    others = [revision.name for revision in revisions.in_order if revision.name != revisions.pin]
    back = [(revisions.pin, name) for name in reversed(others)]
    return [*back, *((name, revisions.pin) for name in others[:1])]


def replay(context: Context, progress: Progress, *, offline: bool) -> Iterator[Replay]:
    """Make the moves with what is recorded and yield what came of each, up to one that fails."""
    with _project(context) as project:
        if context.resolutions.exists():
            shutil.copytree(context.resolutions, project.resolutions)
        for origin, target in moves_of(load_revisions(context.revisions_file)):
            progress.say(f"{origin} onto {target}")
            before = time.monotonic(), _busy()
            outcome = _start(project, origin, target, Options(offline=offline))
            took = time.monotonic() - before[0], _busy() - before[1]
            if outcome.error:
                yield Replay(origin, target, *took, {}, frozenset(), (), outcome.error.message)
                return  # the next move may start from the series that this one did not write
            yield _replayed(context, project, outcome.reports[0], took)


def record(context: Context, progress: Progress, *, offline: bool) -> None:
    """Make the moves as a person would who has each target's series, and keep what is recorded."""
    moves = moves_of(load_revisions(context.revisions_file))
    with _project(context) as project:
        for origin, target in moves:
            progress.say(f"{origin} onto {target}, to be recorded")
            _move_by_hand(context, project, origin, target, offline=offline)
        records = read_records(project.resolutions)
    known = read_records(context.resolutions)
    old = [each.name for each in known if (each.origin, each.target) in moves]
    new = {each.name: each.to_bytes() for each in records}
    folder = context.resolutions
    with claimed(*(folder / name for name in new), progress=progress):
        for name, data in new.items():
            replace_file(folder / name, data)
        for name in old:
            if name not in new:
                (folder / name).unlink()


def prove(context: Context, progress: Progress, offline: bool, *, anew: bool) -> list[Replay]:
    """Return what came of every move; ``anew`` records them before, and writes the page after."""
    with alone(context, progress):
        if anew:
            record(context, progress, offline=offline)
        replays = list(replay(context, progress, offline=offline))
        if anew and not any(each.problem for each in replays):
            replace_file(context.root / PAGE, page(replays).encode())
        return replays


def page(replays: list[Replay]) -> str:
    """Return the whole of ``docs/moves.md``."""
    return "\n".join([_HEAD, _moves_table(replays), _FILES, _files_table(replays)])


@contextmanager
def _project(context: Context) -> Iterator[Context]:
    """Give a project that has the pin's series alone."""
    pin = load_revisions(context.revisions_file).pin
    with tempfile.TemporaryDirectory() as folder:
        project = Context(Path(folder), Path(folder) / "patches", context.cache)
        project.patches.mkdir()
        shutil.copy(context.revisions_file, project.patches)
        shutil.copytree(context.series_dir(pin), project.series_dir(pin))
        yield project


def _start(project: Context, origin: str, target: str, options: Options) -> Outcome:
    return start(project, origin, target, options, _QUIET, replaces=True)


def _move_by_hand(
    context: Context, project: Context, origin: str, target: str, *, offline: bool
) -> None:
    """Move a series, and make each patch on the way what the target's own series has."""
    slugs = tuple(patch.slug for patch in read_lock(project.series_dir(origin)).patches)
    options = Options(resolutions=False, offline=offline, edit=slugs)
    outcome = _start(project, origin, target, options)
    while outcome.error:
        if (state := read_state(project)) is None:
            raise outcome.error
        tree = open_tree(project, state)
        patches = read_series(context.series_dir(target))
        right = build_stack(tree, base_point(state.target), patches, _QUIET)
        content = [patch.tree for patch in right.patches if patch.slug == state.patch.slug]
        if not content:
            what = f"{target} has no patch {state.patch.slug}, which {origin} has"
            raise ToolError(what, "give it one with tools/export.py", Exit.FINDINGS)
        tree.run("read-tree", "--reset", "-u", *content)
        outcome = go_on(project, options, _QUIET)


def _busy() -> float:
    """Return the seconds that processors spent on this process and those that it started."""
    return sum(os.times()[:4])


def _replayed(
    context: Context, project: Context, report: Report, took: tuple[float, float]
) -> Replay:
    """Return what a move came to."""
    origin, target = report.origin, report.target.name
    store = open_store(context.repository)
    series = [read_series(project.series_dir(name)) for name in (origin, target)]
    touched = [file for patches in series for file in touched_files(store, patches)]
    known = Records.of(*read_records(project.resolutions)).reworks
    used = tuple(name for patch in report.patches for name in patch.recorded)
    diffs = [known[name].diff for name in used if name in known]
    edited = {path for diff in diffs if diff for path in changed_paths(store, diff)}
    conflicts = {path for patch in report.patches for path in patch.conflicts}
    files = dict.fromkeys((file.path for file in touched), MERGED)
    files |= dict.fromkeys(edited, EDITED) | dict.fromkeys(conflicts, CONFLICT)
    added = frozenset(file.path for file in touched if file.blob is None)
    ours, right = (read_lock(where.series_dir(target)).patches for where in (project, context))
    same = [(patch.slug, patch.tree) for patch in ours] == [(it.slug, it.tree) for it in right]
    problem = "" if same else f"it is not the series that {target} has"
    return Replay(origin, target, *took, files, added, used, problem)


def _moves_table(replays: list[Replay]) -> str:
    lines = ["| move | recorded, and used | seconds | of a processor |", "|---|---|---:|---:|"]
    for each in replays:
        names = [f"[{name}](../patches/resolutions/{name})" for name in each.used]
        result = each.problem or "<br>".join(names)
        lines.append(f"| {_title(each)} | {result} | {each.seconds:.1f} | {each.busy:.1f} |")
    return "\n".join(lines) + "\n"


def _files_table(replays: list[Replay]) -> str:
    lines = [f"| file | {' | '.join(map(_title, replays))} |", f"|---|{'---|' * len(replays)}"]
    added = {path for each in replays for path in each.added}
    paths = {path for each in replays for path in each.files}
    for path in sorted(paths, key=lambda path: (path in added, path)):
        name = f"`{path.removeprefix(f'{PREFIX}/')}`{' (new)' if path in added else ''}"
        lines.append(f"| {name} | {' | '.join(each.files.get(path, '') for each in replays)} |")
    return "\n".join(lines) + "\n"


def _title(replay: Replay) -> str:
    return f"{replay.origin} → {replay.target}"
