"""One run at a time in a folder.

It is the folder itself that is locked, so no lock file is ever left behind. The lock is the
kernel's and ends with the process, whatever ended that: a lock that is held has a living holder.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from patchstack.errors import Exit, ToolError
from patchstack.files import resolved
from patchstack.report import Progress

# What this thread holds, by device and number: a lock taken twice would wait for itself.
_HELD: ContextVar[frozenset[tuple[int, int]]] = ContextVar("held", default=frozenset())


@contextmanager
def held(folders: Iterable[Path], progress: Progress) -> Iterator[None]:
    """Keep other runs out of ``folders``, after those that are in them have ended.

    A folder that is missing is made, and removed again if nothing was put into it.
    """
    with ExitStack() as stack:
        for folder in sorted({resolved(folder) for folder in folders}):
            stack.enter_context(_held(folder, progress))
        yield


@contextmanager
def _held(folder: Path, progress: Progress) -> Iterator[None]:
    while True:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            key = _key(os.fstat(number))
            if key in _HELD.get():
                yield
                return
            _lock(number, folder, progress)
            if not folder.exists() or _key(folder.stat()) != key:
                continue  # removed by the run that was waited for
            before = _HELD.set(_HELD.get() | {key})
            try:
                yield
            finally:
                _HELD.reset(before)
                for path in made:
                    with suppress(OSError):  # something is in it now
                        path.rmdir()
            return
        finally:
            os.close(number)


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _lock(number: int, folder: Path, progress: Progress) -> None:
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"waiting for another run to end, which works in {folder}")
            fcntl.flock(number, fcntl.LOCK_EX)
    except OSError as error:
        raise ToolError(
            f"{folder} cannot be locked ({error.strerror})", "use a local disk", Exit.USAGE
        ) from None
