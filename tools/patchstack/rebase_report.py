"""What a rebase did, for a person (Markdown) and for a program (JSON)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from patchstack.base import base_point
from patchstack.build import Applied
from patchstack.drift import NEAR, Drift, measure_drift
from patchstack.mail import format_mail
from patchstack.moving import Move, Plan
from patchstack.repository import Repository
from patchstack.revisions import Revision
from patchstack.smoke import FAILED, SUSPECT, Check

UNCHANGED, MOVED, CHANGED, RESOLVED = "unchanged", "moved", "changed", "resolved"
DROPPED, CONFLICT, WAITING = "dropped", "conflict", "not tried"
_MARKS = {UNCHANGED: "=", MOVED: "~", CHANGED: "!", RESOLVED: "!", DROPPED: "-", CONFLICT: "x"}
_PLACE = (b"@@ ", b"index ", b"diff --git ", b"--- ", b"+++ ")


@dataclass(frozen=True)
class PatchReport:
    """What became of one patch.

    Parameters
    ----------
    number, file, slug
        The patch in the old series.
    status
        One of the words above.
    old, new
        Its commits; ``new`` is None where it has none.
    details
        The reason, the paths and the resolutions, in words.
    conflicts
        The paths that did not merge.
    recorded
        The files under ``patches/resolutions/`` that were used.
    checks
        What the smoke gate found.
    """

    number: int
    file: str
    slug: str
    status: str
    old: str
    new: str | None
    details: tuple[str, ...]
    conflicts: tuple[str, ...]
    recorded: tuple[str, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Report:
    """What a rebase did.

    Parameters
    ----------
    origin
        The name of the old release.
    target
        The new release.
    pinned
        Whether ``revisions.toml`` had it before.
    dry_run
        Whether nothing was to be written.
    patches
        Every patch of the old series, in order.
    drift
        What upstream changed.
    range_diff
        Git's comparison of both series.
    """

    origin: str
    target: Revision
    pinned: bool
    dry_run: bool
    patches: tuple[PatchReport, ...]
    drift: Drift
    range_diff: str

    @property
    def counts(self) -> dict[str, int]:
        """How many patches have each status."""
        found = [patch.status for patch in self.patches]
        return {status: found.count(status) for status in dict.fromkeys(found)}

    @property
    def has_findings(self) -> bool:
        """Whether a patch needs the user: for a conflict, or for what a check found."""
        results = {check.result for patch in self.patches for check in patch.checks}
        conflict = any(patch.status == CONFLICT for patch in self.patches)
        return conflict or bool(results & {FAILED, SUSPECT})

    def to_table(self) -> dict[str, Any]:
        """Return the report for a program to read."""
        target = self.target
        return {
            "from": self.origin,
            "onto": {
                "revision": target.name,
                "pinned_before": self.pinned,
                "date": target.date.isoformat(),
                "tree": target.tree,
                "base": asdict(base_point(target)),
                "wheels": {wheel.name: wheel.sha256 for wheel in target.wheels},
            },
            "dry_run": self.dry_run,
            "counts": self.counts,
            "patches": [asdict(patch) for patch in self.patches],
            "drift": asdict(self.drift),
            "range_diff": self.range_diff,
        }

    def to_markdown(self) -> str:
        """Return the report for a person to read."""
        kind = "Dry run: " if self.dry_run else ""
        counts = ", ".join(f"{number} {status}" for status, number in self.counts.items())
        lines = [f"# {kind}{self.origin} onto {self.target.name}", ""]
        lines += [f"{len(self.patches)} patches: {counts or 'none'}.", ""]
        lines += [*self._identity(), *self._patches(), *self._drift()]
        if self.range_diff:
            lines += ["## Range-diff", "", *fenced(self.range_diff)]
        return "\n".join(lines).rstrip() + "\n"

    def _identity(self) -> list[str]:
        point = base_point(self.target)
        lines = [f"Base commit `{point.commit}`, `sglang/` tree `{self.target.tree}`.", ""]
        if self.pinned:
            return lines
        lines += ["The release was not pinned before. Its wheels:", "", "| Wheel | sha256 |"]
        lines += ["|---|---|"]
        lines += [f"| {wheel.name} | `{wheel.sha256}` |" for wheel in self.target.wheels]
        return [*lines, ""]

    def _patches(self) -> list[str]:
        lines = ["## Patches", "", "| | Patch | | Result | Smoke gate |", "|---|---|---|---|---|"]
        for patch in self.patches:
            mark = _MARKS.get(patch.status, " ")
            result = "; ".join([patch.status, *patch.details])
            checks = _in_words(patch.checks)
            cells = (str(patch.number), patch.file, mark, result, checks)
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
        return [*lines, ""]

    def _drift(self) -> list[str]:
        drift = self.drift
        lines = ["## Upstream drift", ""]
        lines += [f"{drift.changed_files} files differ between the releases.", ""]
        if drift.files:
            lines += [f"| File of the series | Fate | Lines changed | Within {NEAR} of ours |"]
            lines += ["|---|---|---:|---:|"]
            for file in drift.files:
                cells = (file.path, file.fate, str(file.changed), str(file.near))
                lines.append(f"| {' | '.join(map(_cell, cells))} |")
            lines.append("")
        return lines


def make_report(
    repository: Repository,
    plan: Plan,
    target: Revision,
    moves: tuple[Move, ...],
    *,
    pinned: bool,
    dry_run: bool,
) -> Report:
    """Compare both series, as far as the new one goes.

    Parameters
    ----------
    repository
        Where the commits of both are.
    plan, target, moves
        What was moved, and what became of it.
    pinned, dry_run
        What the report says about the run.
    """
    old = plan.old
    waiting = [None] * (len(old.patches) - len(moves))
    patches = tuple(
        _patch_report(repository, number, patch, move)
        for number, (patch, move) in enumerate(zip(old.patches, [*moves, *waiting], strict=True), 1)
    )
    drift = measure_drift(repository, old.base.commit, old.head.commit, plan.base)
    spans = (f"{old.base.commit}..{old.head.commit}", f"{plan.base}..{plan.head(moves)}")
    text = ""
    if plan.kept(moves):  # git fails on an empty range
        text = repository.run("range-diff", "--no-color", *spans).decode("utf-8", "replace")
    return Report(plan.origin, target, pinned, dry_run, patches, drift, text)


def classify(repository: Repository, old: str, new: str) -> str:
    """Return how the patch that was ``old`` differs from what it became.

    Git's patch-id ignores white space, which means something in Python; so the lines of the
    changes are compared, without their places.
    """
    if _blobs(repository, old) == _blobs(repository, new):
        return UNCHANGED
    same = _lines(repository, old) == _lines(repository, new)
    return MOVED if same and _paths(repository, old) == _paths(repository, new) else CHANGED


def _patch_report(
    repository: Repository, number: int, patch: Applied, move: Move | None
) -> PatchReport:
    status, details = WAITING, list[str]()
    if move is not None:
        status, details = _fate(repository, patch, move)
    given = move or Move(None, dropped=WAITING)
    return PatchReport(
        number=number,
        file=patch.file,
        slug=patch.slug,
        status=status,
        old=patch.commit,
        new=given.commit,
        details=tuple(details),
        conflicts=given.conflicts,
        recorded=given.recorded,
        checks=given.checks,
    )


def _fate(repository: Repository, patch: Applied, move: Move) -> tuple[str, list[str]]:
    details = [move.note] if move.note else []
    if move.recorded:
        details.append(f"by the recorded {', '.join(move.recorded)}")
    if move.dropped:
        return DROPPED, [move.dropped, *details]
    if move.commit is None:
        return CONFLICT, [f"in {', '.join(move.conflicts)}", *details]
    gone = _paths(repository, patch.commit) - _paths(repository, move.commit)
    new = _paths(repository, move.commit) - _paths(repository, patch.commit)
    if gone or new:
        here = f"{', '.join(sorted(gone)) or 'nothing'} -> {', '.join(sorted(new)) or 'nothing'}"
        details.append(f"other files: {here}")
    if move.conflicts:
        return RESOLVED, [f"conflict in {', '.join(move.conflicts)}", *details]
    return classify(repository, patch.commit, move.commit), details


def _blobs(repository: Repository, commit: str) -> bytes:
    return repository.run("diff-tree", "-r", "-z", "--no-commit-id", commit)


def _paths(repository: Repository, commit: str) -> set[str]:
    listed = repository.run("diff-tree", "-r", "-z", "--no-commit-id", "--name-only", commit)
    return set(listed.decode("utf-8", "surrogateescape").split("\0")[:-1])


def _lines(repository: Repository, commit: str) -> list[bytes]:
    diff = format_mail(repository, commit).partition(b"\ndiff --git ")[2]
    return [line for line in diff.split(b"\n") if not line.startswith(_PLACE)]


def _in_words(checks: tuple[Check, ...]) -> str:
    """Return what the gate found, with checks that end alike together."""
    together: dict[str, list[str]] = {}
    for check in checks:
        result = check.result + (f" ({check.detail})" if check.detail else "")
        together.setdefault(result, []).append(check.name)
    return "; ".join(f"{', '.join(names)}: {result}" for result, names in together.items())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def fenced(text: str) -> list[str]:
    """Return ``text`` as a block of Markdown, whatever fences it holds itself."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}text", text.rstrip("\n"), fence]
