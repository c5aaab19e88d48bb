#!/usr/bin/env python3
"""How long apply and export take on the pinned release, beside the tools that people use for it.

Every row is one command line, run as processes of its own, as a user waits for it. The rows of a
group end with the same files and are run in turn, round after round, and the median counts. What
each group compares:

cold     our apply with an empty cache but for the wheel. No peer starts from a wheel.
apply    from a repository (for quilt: a folder) that holds the release to a patched tree of its
         own in a new place, which needs the first no more. ``git clone`` and ``cp`` do the copying
         for the peers, and are a row alone, for it is what all need.
again    our apply where everything is done. No peer can tell.
export   from the commits to patch files. Ours proves each by applying it again.

The wheel comes from the user's cache if it is there, or is fetched once before anything is
measured; everything is written below a temporary folder.

Exit codes: 0 done, 1 a command failed, 2 usage, 4 the wheel cannot be had.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from patchstack.command import Parser, run  # noqa: E402
from patchstack.context import Context  # noqa: E402
from patchstack.errors import Exit, ToolError  # noqa: E402
from patchstack.report import Progress  # noqa: E402
from serving.delivery import refuse_unwritable, write_file  # noqa: E402

if TYPE_CHECKING:
    from patchstack.revisions import Revision

EXAMPLE = """\
examples:
  benchmarks/stack_speed.py                              the table
  benchmarks/stack_speed.py --repeats 3 --json out.json  and every time, in a file
"""

IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Somebody"), ("EMAIL", "somebody@localhost.invalid"))
}


@dataclass(frozen=True)
class Place:
    """Where the measurements work.

    Parameters
    ----------
    folder
        A temporary folder.
    revision
        The release.
    """

    folder: Path
    revision: Revision

    @property
    def cache(self) -> Path:
        """The cache of the tools."""
        return self.folder / "cache"

    @property
    def tree(self) -> Path:
        """Where a patched tree goes."""
        return self.folder / "tree"

    @property
    def applied(self) -> Path:
        """A patched tree that stays."""
        return self.folder / "applied"

    @property
    def release(self) -> Path:
        """A git repository that holds the release and nothing else."""
        return self.folder / "release.git"

    @property
    def files(self) -> Path:
        """A folder that holds the files of the release."""
        return self.folder / "files"

    @property
    def series(self) -> Path:
        """The folder of the patches."""
        return ROOT / "patches" / self.revision.name

    @property
    def patches(self) -> list[str]:
        """The patch files, in order."""
        from patchstack.series import read_series

        return [str(self.series / patch.name) for patch in read_series(self.series)]

    def put_aside(self, path: Path) -> None:
        """Take ``path`` out of the way. Deleting it would be felt in the next measurement."""
        if path.exists():
            path.rename(Path(tempfile.mkdtemp(dir=self.folder)) / path.name)

    def run(self, *command: str, **variables: str) -> None:
        """Run a command that must succeed, with no configuration of the user's."""
        environment = {key: value for key, value in os.environ.items() if key[:4] != "GIT_"}
        environment |= {"HIQCACHE_CACHE": str(self.cache), "GIT_CONFIG_GLOBAL": os.devnull}
        environment |= {"GIT_CONFIG_NOSYSTEM": "1", **IDENTITY, **variables}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = f"{done.stdout.strip()} {done.stderr.strip()}".strip()
            raise ToolError(f"{command[0]}: {said}", "put that right and run again", Exit.FINDINGS)


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Parameters
    ----------
    group
        The rows that it is compared with.
    what
        What the user does.
    prepare
        Brings a place into the situation that it starts from; not measured.
    run
        What is measured.
    needs
        A program that a machine may lack.
    """

    group: str
    what: str
    prepare: Callable[[Place], None]
    run: Callable[[Place], None]
    needs: str = "git"

    def seconds(self, place: Place) -> float:
        """Return how long one run takes."""
        self.prepare(place)
        start = time.perf_counter()
        self.run(place)
        return time.perf_counter() - start


def tool(place: Place, name: str, *arguments: str) -> None:
    """Run a tool of ours."""
    script = str(ROOT / "tools" / name)
    place.run(sys.executable, script, "--rev", place.revision.name, "-q", *arguments)


def apply(place: Place) -> None:
    """Make the patched tree."""
    tool(place, "apply.py", "--offline", "--target", str(place.tree))


def clone(place: Place) -> None:
    """Copy the release's repository and check it out: what a patched tree of its own needs."""
    place.run("git", "clone", "--quiet", "--no-hardlinks", str(place.release), str(place.tree))


def clone_and_am(place: Place) -> None:
    """And apply the patches to it, as mail."""
    clone(place)
    place.run("git", "-C", str(place.tree), "am", "--quiet", *place.patches)


def copy(place: Place) -> None:
    """Copy the release's files."""
    place.run("cp", "-r", str(place.files), str(place.tree))


def copy_and_push(place: Place) -> None:
    """And apply the patches to them."""
    copy(place)
    place.run(
        "sh", "-c", 'cd "$1" && quilt push -a -q', "sh", str(place.tree),
        QUILT_PATCHES=str(place.series), QUILT_PC=str(place.tree / ".pc"), QUILTRC="-",
    )  # fmt: skip


def export(place: Place) -> None:
    """Write the series from the patched tree."""
    tool(place, "export.py", "--tree", str(place.applied))


def format_patch(place: Place) -> None:
    """Let git write the patches."""
    place.put_aside(place.folder / "formatted")
    commits, out = "refs/hiqcache/base..HEAD", str(place.folder / "formatted")
    place.run("git", "-C", str(place.applied), "format-patch", "--quiet", commits, "-o", out)


def without_base(place: Place) -> None:
    """Leave only the wheel."""
    without_tree(place)
    place.put_aside(place.cache / "sglang.git")


def without_tree(place: Place) -> None:
    """Leave the cache, with the base if it was there."""
    place.put_aside(place.tree)


def with_tree(place: Place) -> None:
    """Have what apply makes where apply makes it."""
    if not (place.tree / ".git" / "refs" / "hiqcache").is_dir():
        without_tree(place)
        apply(place)


CASES = (
    Case("cold", "apply.py, from the wheel", without_base, apply),
    Case("apply", "apply.py", without_tree, apply),
    Case("apply", "git clone alone", without_tree, clone),
    Case("apply", "git clone; git am", without_tree, clone_and_am),
    Case("apply", "cp -r alone", without_tree, copy),
    Case("apply", "cp -r; quilt push -a", without_tree, copy_and_push, needs="quilt"),
    Case("again", "apply.py, up to date", with_tree, apply),
    Case("export", "export.py", lambda _: None, export),
    Case("export", "git format-patch", lambda _: None, format_patch),
)


def bring_wheel(place: Place) -> None:
    """Put the pinned wheel into the place's cache."""
    from patchstack.upstream import fetch_wheel, fitting_wheel

    user = Context.default()
    own = Context(user.root, user.patches, place.cache)
    wheel = fitting_wheel(place.revision) or place.revision.wheels[0]
    own.wheels.mkdir(parents=True)
    if (user.wheels / wheel.name).is_file():
        shutil.copy(user.wheels / wheel.name, own.wheels)
    fetch_wheel(own, place.revision, wheel, offline=False, progress=Progress())


def bring_release(place: Place) -> None:
    """Give the peers what they start from: the release as a repository and as files."""
    from patchstack.base import base_ref

    tool(place, "apply.py", "--offline", "--target", str(place.applied))
    place.run("git", "init", "--quiet", "--bare", "--initial-branch=main", str(place.release))
    base = f"{base_ref(place.revision)}:refs/heads/main"
    store = str(place.cache / "sglang.git")
    place.run("git", "-C", str(place.release), "fetch", "--quiet", store, base)
    place.run("git", "clone", "--quiet", str(place.release), str(place.files))
    shutil.rmtree(place.files / ".git")


def measure(place: Place, repeats: int) -> dict[Case, list[float]]:
    """Return how long each run of each case took, the rows of a group in turn."""
    cases = [case for case in CASES if shutil.which(case.needs)]
    times: dict[Case, list[float]] = {case: [] for case in cases}
    for group in dict.fromkeys(case.group for case in cases):
        rows = [case for case in cases if case.group == group]
        for turn in range(repeats):
            first = turn % len(rows)  # what a row leaves to the next falls on each alike
            for case in rows[first:] + rows[:first]:
                times[case].append(case.seconds(place))
    return times


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("stack_speed.py", description=__doc__, epilog=EXAMPLE)
    options.add_argument("--repeats", type=int, default=5, help="runs of each case (5)")
    options.add_argument("--json", type=Path, metavar="FILE", help="write every time there too")
    return options


def checked(given: Namespace) -> Namespace:
    """Refuse what would fail after the minutes that the cases take."""
    if given.repeats < 1:
        raise ToolError("--repeats must be 1 or more", "see --help", Exit.USAGE)
    refuse_unwritable("--json", given.json)
    return given


def print_table(times: Mapping[Case, Sequence[float]]) -> None:
    """Print a row for each case."""
    print(f"{'group':<8} {'what':<28} {'median s':>9} {'min s':>9} {'max s':>9}")
    for case in CASES:
        if case not in times:
            print(f"{case.group:<8} {case.what:<28} {case.needs + ' is not installed':>29}")
            continue
        numbers = (statistics.median(times[case]), min(times[case]), max(times[case]))
        columns = " ".join(f"{number:9.2f}" for number in numbers)
        print(f"{case.group:<8} {case.what:<28} {columns}")


def as_json(revision: Revision, times: Mapping[Case, Sequence[float]]) -> str:
    """Return every time."""
    rows = [
        {"group": case.group, "what": case.what, "seconds": list(found)}
        for case, found in times.items()
    ]
    return json.dumps({"revision": revision.name, "rows": rows}, indent=2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""

    def body() -> int:
        given = checked(parser().parse_args(argv))
        from patchstack.revisions import load_revisions

        revision = load_revisions(Context.default().revisions_file).get("pin")
        with tempfile.TemporaryDirectory() as folder:
            place = Place(Path(folder), revision)
            bring_wheel(place)
            bring_release(place)
            times = measure(place, given.repeats)
        patches = len(place.patches)
        print(f"{revision.name}, {patches} patches, {given.repeats} runs each")
        print_table(times)
        if given.json:
            write_file(given.json, as_json(revision, times))
        return Exit.DONE

    return run("stack_speed.py", body)


if __name__ == "__main__":
    sys.exit(main())
