"""What is told on standard error: a bar for a person, an occasional line for a log."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

#: Seconds between two lines that only count.
QUIET_S = 5.0


#: What a bar shows of its task in words: the stage, and how far it is.
_TEXTS = ("description", "fields[count]")


class Progress(ABC):
    """Tells what is going on."""

    @abstractmethod
    def say(self, line: str) -> None:
        """State a fact, once."""

    @abstractmethod
    def stage(self, text: str) -> None:
        """Name what is waited for from now on."""

    @abstractmethod
    def count(self, text: str, done: int, total: int) -> None:
        """Tell how far something is."""


class Lines(Progress):
    """Plain lines, with counts at intervals."""

    def __init__(self, quiet_s: float = QUIET_S) -> None:
        self._quiet_s = quiet_s
        self._last = time.monotonic()

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
        self._last = time.monotonic()

    def stage(self, text: str) -> None:
        self.say(text)

    def count(self, text: str, done: int, total: int) -> None:
        if time.monotonic() - self._last >= self._quiet_s:
            self.say(f"{text} {done}/{total}")


class Bar(Progress):
    """One line that moves."""

    def __init__(self, bar: RichProgress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, count="")

    def say(self, line: str) -> None:
        self._bar.console.print(line, markup=False, highlight=False)

    def stage(self, text: str) -> None:
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(text, total=None, count="")

    def count(self, text: str, done: int, total: int) -> None:
        count = f"{done}/{total}"
        self._bar.update(self._task, description=text, completed=done, total=total, count=count)


@contextmanager
def on_standard_error() -> Iterator[Progress]:
    """Show progress as standard error can."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    text, count = (TextColumn(f"{{task.{field}}}", markup=False) for field in _TEXTS)
    columns = (SpinnerColumn(), text, BarColumn(), count, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Bar(bar)
