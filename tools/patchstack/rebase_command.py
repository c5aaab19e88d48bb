"""What the options of ``tools/rebase.py`` mean together, and where the result goes."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from patchstack import rebasing
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.files import resolved
from patchstack.rebase_run import Options
from patchstack.rebasing import Outcome
from patchstack.report import Progress
from patchstack.swap import replace_file


def main(given: Namespace, context: Context) -> int:
    """Do what was asked for and return the exit code."""
    _check(given)
    progress = Progress(given.quiet)
    if given.abort:
        rebasing.abort(context, progress)
        progress.say("the rebase is given up; nothing under patches/ has changed")
        return 0
    outcome = _run(given, context, progress)
    _tell(given, outcome)
    if outcome.error is not None:
        raise outcome.error
    return 0


def _check(given: Namespace) -> None:
    """Refuse options that do not go together."""
    resumes = given.go_on or given.abort or given.skip is not None
    starts = given.origin is not None or given.onto is not None or given.edit is not None
    if resumes and (starts or given.dry_run or given.replace):
        raise _usage("--continue, --skip and --abort go with the rebase that waits, and no other")
    if not resumes and (given.origin is None or not given.onto):
        raise _usage("--from and --onto are needed to start a rebase")
    if not resumes and len(given.onto) > 1 and not given.dry_run:
        raise _usage("more than one --onto goes with --dry-run alone")
    if given.report and not _can_be_written(given.report.absolute()):
        raise _usage(f"--report {given.report} is not a file, or below one")


def _can_be_written(file: Path) -> bool:
    """Return whether ``file`` can be made, or written to if it is there."""
    there = next(parent for parent in file.parents if parent.exists())
    return there.is_dir() and not file.is_dir()


def _run(given: Namespace, context: Context, progress: Progress) -> Outcome:
    options = Options(
        # Not resolved: the python of a virtual environment is a link, and must stay one.
        python=given.python.absolute() if given.python else None,
        resolutions=not given.no_resolutions,
        smoke=not given.no_smoke,
        offline=given.offline,
        edit=tuple(given.edit or ()),
    )
    if given.go_on:
        return rebasing.go_on(context, options, progress)
    if given.skip is not None:
        return rebasing.skip(context, given.skip, options, progress)
    if given.dry_run:
        return rebasing.dry_run(context, given.origin, given.onto, options, progress)
    return rebasing.start(
        context, given.origin, given.onto[0], options, progress, replaces=given.replace
    )


def _tell(given: Namespace, outcome: Outcome) -> None:
    """Put the result on standard output and the report where it was asked for."""
    text = "\n".join(report.to_markdown() for report in outcome.reports)
    always = Progress()
    for line in outcome.words:
        always.say(line)
    if given.report:
        _write(given.report, text)
    elif not given.json and not outcome.words:
        always.say(text.rstrip("\n"))
    if given.json:
        fields = {
            "reports": [report.to_table() for report in outcome.reports],
            "series": None if outcome.folder is None else str(outcome.folder),
            "stopped": list(outcome.words) or None,
        }
        print(json.dumps(fields, indent=2))
    elif outcome.folder is not None:
        print(outcome.folder)


def _write(file: Path, text: str) -> None:
    file, data = resolved(file), text.encode("utf-8", "surrogateescape")
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and not file.is_file():
        file.write_bytes(data)  # a device or a pipe is written to, never replaced
    else:
        replace_file(file, data)


def _usage(message: str) -> ToolError:
    return ToolError(message, "see rebase.py --help", Exit.USAGE)
