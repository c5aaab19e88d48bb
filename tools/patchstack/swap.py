"""A folder or file is replaced whole or not at all: made beside its place, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def replace_folder(place: Path, fill: Callable[[Path], None]) -> None:
    """Put a new folder at ``place`` and remove what was there.

    Parameters
    ----------
    place
        Where the folder goes. What is there stays as it is until the new one is complete, and
        comes back if that cannot take its place.
    fill
        Makes the new folder at the path that it is given, which does not exist yet.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as folder:
        fresh, old = Path(folder) / "new", Path(folder) / "old"
        fill(fresh)
        replaced = place.exists()
        if replaced:
            place.rename(old)
        try:
            fresh.rename(place)
        except BaseException:
            if replaced:
                old.rename(place)
            raise


def replace_file(place: Path, data: bytes) -> None:
    """Put a file with ``data`` at ``place``, on the disk before it has the name."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as folder:
        fresh = Path(folder) / "new"
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(place)
