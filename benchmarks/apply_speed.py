#!/usr/bin/env python3
"""How long it takes to get the patched tree of the pinned release, as a user waits for it.

Each case runs the command as a process of its own, several times, and the median counts. The
wheel comes from the user's cache if it is there, or is fetched once before anything is measured;
everything is written below a temporary folder.

A peer (another tool that brings the same patches onto the same files) is one more `Case`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from patchstack.context import Context  # noqa: E402
from patchstack.report import Progress  # noqa: E402
from patchstack.revisions import load_revisions  # noqa: E402
from patchstack.upstream import fetch_wheel, fitting_wheel  # noqa: E402


@dataclass(frozen=True)
class Place:
    """Where one measurement works.

    Parameters
    ----------
    folder
        A temporary folder: ``cache`` with the wheel in it, and the target ``tree``.
    """

    folder: Path

    @property
    def cache(self) -> Path:
        """The cache of the tools."""
        return self.folder / "cache"

    @property
    def tree(self) -> Path:
        """Where the patched tree goes."""
        return self.folder / "tree"

    def put_aside(self, path: Path) -> None:
        """Take ``path`` out of the way. Deleting it would be felt in the next measurement."""
        if path.exists():
            path.rename(Path(tempfile.mkdtemp(dir=self.folder)) / path.name)


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Parameters
    ----------
    tool
        Who does it.
    situation
        What is there already.
    prepare
        Brings a place into that situation; not measured.
    run
        What is measured.
    """

    tool: str
    situation: str
    prepare: Callable[[Place], None]
    run: Callable[[Place], None]

    def seconds(self, place: Place) -> float:
        """Return how long one run takes."""
        self.prepare(place)
        start = time.perf_counter()
        self.run(place)
        return time.perf_counter() - start


def apply(place: Place) -> None:
    """Run ``tools/apply.py``."""
    command = [sys.executable, str(ROOT / "tools" / "apply.py"), "--rev", "pin", "--offline", "-q"]
    environment = {**os.environ, "HIQCACHE_CACHE": str(place.cache)}
    done = subprocess.run(
        [*command, "--target", str(place.tree)], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())


def without_base(place: Place) -> None:
    """Leave only the wheel."""
    without_tree(place)
    place.put_aside(place.cache / "sglang.git")


def without_tree(place: Place) -> None:
    """Leave the cache, with the base if it was there."""
    place.put_aside(place.tree)


def as_it_is(place: Place) -> None:
    """Leave everything."""


# In this order: each case finds what the one before it left.
CASES = (
    Case("apply.py", "cold, without the download", without_base, apply),
    Case("apply.py", "base in the cache, no target", without_tree, apply),
    Case("apply.py", "up to date", as_it_is, apply),
)


def bring_wheel(place: Place) -> None:
    """Put the pinned wheel into the place's cache."""
    user = Context.default()
    own = Context(user.root, user.patches, place.cache)
    revision = load_revisions(own.revisions_file).get("pin")
    wheel = fitting_wheel(revision) or revision.wheels[0]
    own.wheels.mkdir(parents=True)
    if (user.wheels / wheel.name).is_file():
        shutil.copy(user.wheels / wheel.name, own.wheels)
    fetch_wheel(own, revision, wheel, offline=False, progress=Progress())


def main() -> int:
    """Measure every case and print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5, help="runs of each case (5)")
    repeats = options.parse_args().repeats
    if repeats < 1:
        options.error("--repeats must be 1 or more")
    print(f"{'tool':<10} {'situation':<30} {'median s':>9} {'min s':>9} {'max s':>9}")
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        bring_wheel(place)
        for case in CASES:
            times = [case.seconds(place) for _ in range(repeats)]
            numbers = (statistics.median(times), min(times), max(times))
            columns = " ".join(f"{number:9.2f}" for number in numbers)
            print(f"{case.tool:<10} {case.situation:<30} {columns}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
