"""A folder or file is replaced whole or not at all: made beside its place, then renamed.

A folder needs two renames, and a run can be killed between them. What it leaves is beside the
place under a name of ours, and `claimed`, with which every run begins, puts it right: the old
folder comes back unless the new one has taken its place, and the rest is removed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from patchstack.locking import held
from patchstack.report import Progress

_OURS = ".hiqcache-"
_LEFT = re.compile(rf"\.(.+){re.escape(_OURS)}[a-z0-9_]{{8}}")
# Beside a place: what will be there, what was there (whole), and what is being removed.
_NEW, _OLD, _GONE = "new", "old", "gone"


@contextmanager
def claimed(*places: Path, progress: Progress) -> Iterator[None]:
    """Keep other runs away from ``places``, around which it is as if none had been killed."""
    folders = {place.parent for place in places}
    with held(folders, progress):
        # Whoever left something here has ended: the folder is ours alone.
        for folder in sorted(folders):
            _recover(folder, progress)
        yield


@contextmanager
def beside(place: Path) -> Iterator[Path]:
    """Give a temporary folder next to ``place``, which the caller has claimed."""
    prefix = f".{place.name}{_OURS}"
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=prefix) as folder:
        yield Path(folder)


def replace_folder(
    place: Path, fill: Callable[[Path], None], check: Callable[[Path], None] | None = None
) -> None:
    """Put a new folder at ``place`` and remove what was there.

    Parameters
    ----------
    place
        Where the folder goes. What is there stays as it is until the new one is complete, and
        comes back if that cannot take its place.
    fill
        Makes the new folder at the path that it is given, which does not exist yet.
    check
        Looks once more at what was there, at the path where nobody else finds it any more. If it
        raises, all is as it was.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with beside(place) as folder:
        fresh, old = folder / _NEW, folder / _OLD
        fill(fresh)
        try:
            if place.exists():
                place.rename(old)
                if check:
                    check(old)
            fresh.rename(place)
        finally:
            _bring_back(old, place)


def replace_file(place: Path, data: bytes) -> None:
    """Put a file with ``data`` at ``place``, on the disk before it has the name."""
    with beside(place) as folder:
        fresh = folder / _NEW
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(place)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder; the first thing that fails is the error."""
    target.mkdir()
    for path in source.iterdir():
        if path.is_dir() and not path.is_symlink():
            copy_folder(path, target / path.name)
        else:
            shutil.copy2(path, target / path.name, follow_symlinks=False)


def _recover(folder: Path, progress: Progress) -> None:
    for left in sorted(folder.iterdir()):
        if (match := _LEFT.fullmatch(left.name)) and left.is_dir() and not left.is_symlink():
            place = folder / match[1]
            if _bring_back(left / _OLD, place):
                progress.say(f"brought {place} back, which a killed run had moved away")
            shutil.rmtree(left)


def _bring_back(old: Path, place: Path) -> bool:
    """Return ``old`` to ``place`` if nothing took that; or else give up its name."""
    if not old.exists():
        return False
    if place.exists():
        old.rename(old.with_name(_GONE))  # a folder half removed is never called old
        return False
    old.rename(place)
    return True
