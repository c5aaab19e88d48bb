"""``patches/history.toml``: what became of the commits that a series no longer has.

A result is measured at a commit. When a series is written again its commits change, and the lock
forgets the old ones; this file does not. It is append-only: `record` adds to its end what a new
lock replaces, before the lock changes, so that no moment exists at which a commit has no trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from patchstack.build import Stack
from patchstack.errors import Exit, ToolError
from patchstack.files import parse_toml
from patchstack.swap import replace_file

HISTORY = "history.toml"
DROPPED = "dropped"
_HEADER = """\
# What became of the commits that a series no longer has, for results that were measured at one.
# Written by tools/export.py, at the end alone; not for editing. tools/map.py follows it.
"""
_ID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Replaced:
    """A commit that another took the place of.

    Parameters
    ----------
    slug
        The patch.
    old
        The commit that it was.
    new
        The commit that it became, or None where the patch was dropped.
    """

    slug: str
    old: str
    new: str | None

    def __post_init__(self) -> None:
        if not self.slug or not _ID.fullmatch(self.old) or self.old == self.new:
            raise ValueError(f"{self} replaces nothing")
        if self.new is not None and not _ID.fullmatch(self.new):
            raise ValueError(f"{self.new!r} is no commit")


@dataclass(frozen=True)
class Rewrite:
    """A series that was written again.

    Parameters
    ----------
    revision
        The release.
    date, reason
        When, and why in one line.
    base, head
        The base commit and the head that the old lock had.
    commits
        The commits that changed, in the old order.
    """

    revision: str
    date: date
    reason: str
    base: str
    head: str
    commits: tuple[Replaced, ...]

    def __post_init__(self) -> None:
        if type(self.date) is not date:
            raise ValueError(f"{self.date!r} is not a date")
        if not is_reason(self.reason):
            raise ValueError(f"the reason {self.reason!r} is not one line")
        if not _ID.fullmatch(self.base) or not _ID.fullmatch(self.head) or not self.commits:
            raise ValueError(f"{self.revision} of {self.date} records nothing")

    def repeats(self, other: Rewrite) -> bool:
        """Return whether both say the same: a run was killed after it wrote and ran again."""
        return (self.revision, self.head, self.commits) == (
            other.revision,
            other.head,
            other.commits,
        )


def is_reason(text: str) -> bool:
    """Return whether ``text`` can stand as a reason: one line, not empty."""
    return bool(text.strip()) and text.isprintable()


def read_history(path: Path) -> tuple[Rewrite, ...]:
    """Read the file, which need not exist."""
    if not path.exists():
        return ()
    return parse_history(path.name, path.read_bytes())


def parse_history(name: str, data: bytes) -> tuple[Rewrite, ...]:
    """Read what a file called ``name`` holds."""
    try:
        rewrites = parse_toml(data.decode("utf-8")).get("rewrites", [])
        return tuple(_parse(rewrite) for rewrite in rewrites)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ToolError(
            f"{name} cannot be read: {error}", "restore it with git checkout", Exit.UPSTREAM
        ) from None


def record(path: Path, revision: str, old: Stack, new: Stack, reason: str | None) -> bool:
    """Add to the end of the file what ``new`` replaces of ``old``; return whether it had to.

    Parameters
    ----------
    path
        The file.
    revision
        The release whose series is written again.
    old, new
        The lock as it is and as it will be.
    reason
        Why, or None to say what changed.
    """
    commits = tuple(_replaced(old, new))
    if not commits:
        return False
    today = datetime.now(UTC).date()
    why = reason or _what_changed(old, new)
    rewrite = Rewrite(revision, today, why, old.base.commit, old.head.commit, commits)
    earlier = [known for known in read_history(path) if known.revision == revision]
    if earlier and rewrite.repeats(earlier[-1]):
        return False
    text = path.read_text("utf-8") if path.exists() else _HEADER
    replace_file(path, f"{text}\n{_text(rewrite)}".encode())
    return True


def _replaced(old: Stack, new: Stack) -> Iterator[Replaced]:
    now = {patch.slug: patch.commit for patch in new.patches}
    for patch in old.patches:
        if now.get(patch.slug) != patch.commit:
            yield Replaced(patch.slug, patch.commit, now.get(patch.slug))


def _what_changed(old: Stack, new: Stack) -> str:
    before = {patch.slug: patch.patch_id for patch in old.patches}
    after = {patch.slug: patch.patch_id for patch in new.patches}
    kept = [slug for slug in before if slug in after]
    found = {
        "changed": [slug for slug in kept if before[slug] != after[slug]],
        "dropped": [slug for slug in before if slug not in after],
        "added": [slug for slug in after if slug not in before],
    }
    parts = [f"{what} {', '.join(slugs)}" for what, slugs in found.items() if slugs]
    if old.base != new.base:
        parts.append("moved to another base")
    return "; ".join(parts) or "reworded or reordered"


def _text(rewrite: Rewrite) -> str:
    # The reason is the only value that can hold a quote or a backslash; TOML reads JSON's escapes.
    lines = [
        "[[rewrites]]",
        f'revision = "{rewrite.revision}"',
        f"date = {rewrite.date}",
        f"reason = {json.dumps(rewrite.reason, ensure_ascii=False)}",
        f'base = "{rewrite.base}"',
        f'head = "{rewrite.head}"',
        "commits = [",
    ]
    for commit in rewrite.commits:
        new = commit.new or DROPPED
        lines.append(f'  {{ slug = "{commit.slug}", old = "{commit.old}", new = "{new}" }},')
    return "\n".join([*lines, "]\n"])


def _parse(table: dict[str, Any]) -> Rewrite:
    commits = tuple(
        Replaced(item["slug"], item["old"], None if item["new"] == DROPPED else item["new"])
        for item in table["commits"]
    )
    return Rewrite(**{**table, "commits": commits})
