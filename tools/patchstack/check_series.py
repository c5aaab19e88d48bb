"""A revision's folder, checked without the release: the series, its files and its lock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from patchstack.base import Point, base_point
from patchstack.context import Context
from patchstack.errors import ToolError
from patchstack.findings import Finding
from patchstack.lint import lint_patch
from patchstack.lock import LOCK, file_differences, read_lock
from patchstack.repository import Repository
from patchstack.revisions import Revision
from patchstack.series import SERIES, Entry, PatchFile, entries, has_series, is_patch_name

_NOTES = ".md"  # a note beside the patches is welcome


def check_series(
    context: Context, scratch: Repository, revision: Revision
) -> tuple[list[Finding], tuple[PatchFile, ...]]:
    """Return what is wrong in a revision's folder, and the patches that can be read.

    Parameters
    ----------
    context
        Where the folder is.
    scratch
        Any repository; nothing is written to it.
    revision
        The release.
    """
    folder = context.series_dir(revision.name)
    place = f"patches/{revision.name}"
    if not has_series(folder):
        hint = f"has no patches (tools/rebase.py --onto {revision.name} can bring them)"
        return [Finding(f"{place}/{SERIES}", 1, "series", hint)], ()
    listing = folder / SERIES
    listed = entries(listing.read_text("utf-8", "replace")) if listing.is_file() else []
    found = list(_check_listing(folder, place, listed))
    patches = _readable(folder, listed)
    for patch in patches:
        found += lint_patch(scratch, f"{place}/{patch.name}", patch)
    found += _check_lock(folder, place, base_point(revision), patches)
    return found, patches


def check_folders(context: Context, names: tuple[str, ...]) -> Iterator[Finding]:
    """Yield every folder of patches that belongs to none of the supported releases."""
    for listing in sorted(context.patches.glob(f"*/{SERIES}")):
        if listing.parent.name not in names:
            what = f"{listing.parent.name} is not in revisions.toml"
            yield Finding(f"patches/{listing.parent.name}/{SERIES}", 1, "series", what)


def _check_listing(folder: Path, place: str, listed: list[Entry]) -> Iterator[Finding]:
    def finding(line: int, what: str) -> Finding:
        return Finding(f"{place}/{SERIES}", line, "series", what)

    if not listed:
        yield finding(1, "is missing, or names no patch")
    first: dict[str, int] = {}
    for position, entry in enumerate(listed, 1):
        if entry.name in first:
            yield finding(entry.line, f"{entry.name} is listed in line {first[entry.name]} already")
            continue
        first[entry.name] = entry.line
        if not is_patch_name(entry.name):
            yield finding(entry.line, f"{entry.name!r} is not NNNN-slug.patch in lower case")
            continue
        if not (folder / entry.name).is_file():
            yield finding(entry.line, f"{entry.name} does not exist")
        if int(entry.name[:4]) != position:
            yield finding(entry.line, f"{entry.name} is patch number {position}")
    slugs = [name[5:] for name in first if is_patch_name(name)]
    for name in first:
        if is_patch_name(name) and slugs.count(name[5:]) > 1:
            yield finding(first[name], f"the slug of {name} is used twice")
    yield from _check_files(folder, place, first.keys() | {SERIES, LOCK})


def _check_files(folder: Path, place: str, known: set[str]) -> Iterator[Finding]:
    for path in sorted(folder.iterdir()):
        if path.name not in known and path.suffix != _NOTES:
            what = f"is not in {SERIES}" if path.suffix == ".patch" else "does not belong here"
            yield Finding(f"{place}/{path.name}", 1, "series", what)


def _readable(folder: Path, listed: list[Entry]) -> tuple[PatchFile, ...]:
    names = dict.fromkeys(entry.name for entry in listed if is_patch_name(entry.name))
    files = [folder / name for name in names if (folder / name).is_file()]
    return tuple(PatchFile(file.name, file.read_bytes()) for file in files)


def _check_lock(
    folder: Path, place: str, base: Point, patches: tuple[PatchFile, ...]
) -> Iterator[Finding]:
    def finding(file: str, what: str) -> Finding:
        return Finding(f"{place}/{file}", 1, "lock", what)

    try:
        locked = read_lock(folder)
    except ToolError as error:
        yield finding(LOCK, error.message)
        return
    for difference in file_differences(locked, base, patches):
        yield finding(difference.file, difference.what)
    points = [locked.base, *(Point(patch.commit, patch.tree) for patch in locked.patches)]
    if locked.head != points[-1]:
        yield finding(LOCK, f"its head is {locked.head.commit}, not its last patch")
