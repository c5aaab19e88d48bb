"""A world of several releases: a series on the oldest, and whatever upstream did afterwards."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apply
import export
import pytest
import rebase
from stack_world import (
    NAME,
    PYTHON,
    Outcome,
    World,
    commit,
    git,
    message,
    series_files,
    tree_id,
    write_project,
    write_revisions,
    write_wheel,
)

from patchstack.context import Context
from patchstack.release import pin_release
from patchstack.revisions import PinnedWheel, Revision

NEXT, LATER, LAST = "v9.9.10", "v9.9.11", "v9.9.12"
LINES = [f"line {number}\n" for number in range(1, 61)]
BLOCK = b"begin\n  same\nend\n"
SERVER = b"""\
import argparse

from sglang.srt import hook
from sglang.srt.args import OPTIONS

parser = argparse.ArgumentParser()
for option in OPTIONS:
    parser.add_argument(option)
hook.check()
parser.parse_args()
"""
RELEASE: dict[str, bytes] = {
    "sglang/__init__.py": b"from sglang._version import version\n",
    "sglang/blocks.txt": BLOCK * 3,
    "sglang/launch_server.py": SERVER,
    "sglang/srt/__init__.py": b"",
    "sglang/srt/args.py": b'OPTIONS = ["--model"]\n\n\nDEFAULT = "none"\n',
    "sglang/srt/hook.py": b"def check():\n    pass\n",
    "sglang/srt/other.py": b"OTHER = 1\n",
    "sglang/srt/text.txt": "".join(LINES).encode(),
}
FLAG = b'OPTIONS = ["--model"]\nOPTIONS += ["--codec"]\n\n\nDEFAULT = "none"\n'
BLOCKS = BLOCK + b"begin\n  changed\nend\n" + BLOCK


def text(changes: dict[int, str], above: int = 0) -> bytes:
    """Return the text file with some lines changed, and lines put above all."""
    lines = list(LINES)
    for number, line in changes.items():
        lines[number - 1] = line
    return "".join([*(f"above {number}\n" for number in range(above)), *lines]).encode()


def series(tree: Path) -> None:
    """Commit the series: a flag, the middle one of equal blocks, a line and a new file."""
    shows = message("flag").replace("HiQ-Patch", "Shows: --codec\nHiQ-Patch")
    commit(tree, shows, {f"{PYTHON}/srt/args.py": FLAG}, when=1)
    commit(tree, message("block"), {f"{PYTHON}/blocks.txt": BLOCKS}, when=2)
    files: dict[str, bytes | None] = {
        f"{PYTHON}/srt/text.txt": text({30: "line 30, patched\n"}),
        f"{PYTHON}/srt/new.py": b"NEW = True\n",
    }
    commit(tree, message("text"), files, author="Zoë Š", when=3)


SLUGS = ("flag", "block", "text")
FILES = tuple(f"{number:04d}-{slug}.patch" for number, slug in enumerate(SLUGS, 1))


def release_files(changes: dict[str, bytes | None]) -> dict[str, bytes]:
    """Return the sources of a release: the oldest ones with ``changes``; None deletes."""
    files = {**RELEASE, **changes}
    return {name: content for name, content in files.items() if content is not None}


def write_release(folder: Path, version: str, sources: dict[str, bytes]) -> Path:
    """Write a release's wheel."""
    built = {"sglang/_version.py": f"version = {version!r}\n".encode()}
    info = f"sglang-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n\n".encode()
    kind = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n\n"
    files = {**sources, **built, f"{info}/METADATA": metadata, f"{info}/WHEEL": kind}
    folder.mkdir(parents=True, exist_ok=True)
    return write_wheel(folder / f"sglang-{version}-py3-none-any.whl", files, version)


def write_rebase_project(folder: Path) -> None:
    """Write a project with the series, its cache and the index that serves the release."""
    wheel = write_release(folder / "index", "9.9.9", RELEASE)
    root = folder / "project"
    write_project(root)
    write_revisions(root / "patches", tree_id(folder, RELEASE), [wheel])
    context = Context(root, root / "patches", folder / "cache")
    tree = folder / "tree"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder / "index"))
        assert apply.main(["--rev", "pin", "--target", str(tree)], context) == 0
        series(tree)
        assert export.main(["--rev", "pin", "--tree", str(tree)], context) == 0


@dataclass
class RebaseWorld(World):
    """A world whose releases go on."""

    def release(
        self,
        changes: dict[str, bytes | None] | None = None,
        name: str = NEXT,
        *,
        pinned: bool = True,
    ) -> None:
        """Publish a release.

        Parameters
        ----------
        changes
            What it changes against the oldest one, by names in the wheel; None deletes.
        name
            The name, ``v9.9.10``.
        pinned
            Whether ``revisions.toml`` has it, and the cache its wheel.
        """
        version = name.removeprefix("v")
        sources = release_files(changes or {})
        wheel = write_release(self.index, version, sources)
        if pinned:
            cached = write_release(self.context.wheels, version, sources)
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            assert digest == hashlib.sha256(cached.read_bytes()).hexdigest()
            pins = (PinnedWheel(wheel.name, digest),)
            date = datetime(2026, 10, 30, tzinfo=UTC)
            revision = Revision(name, version, date, 1, self.tree_id_of(changes or {}), pins)
            pin_release(self.context.revisions_file, revision)

    def tree_id_of(self, changes: dict[str, bytes | None]) -> str:
        """Return git's own id of the files of a release."""
        with tempfile.TemporaryDirectory() as folder:
            return tree_id(Path(folder), release_files(changes))

    def rebase(self, *arguments: str) -> Outcome:
        """Run ``tools/rebase.py``."""
        return self._run(rebase.main, list(arguments))

    def move(self, *arguments: str, onto: str = NEXT, code: int = 0) -> Any:
        """Move the series and return the report, read by a program."""
        outcome = self.rebase("--from", NAME, "--onto", onto, "--json", *arguments)
        assert outcome.code == code, outcome.err
        return outcome.json["reports"][0]

    def go_on(self, *arguments: str, code: int = 0) -> Any:
        """Continue, skip or abort, and return the report."""
        outcome = self.rebase(*arguments, "--json")
        assert outcome.code == code, outcome.err
        return outcome.json["reports"][0]

    def look(self, onto: str = NEXT, *, code: int = 0) -> Any:
        """Move the series in a dry run and return the report."""
        return self.move("--dry-run", onto=onto, code=code)

    def moved(self, name: str = NEXT) -> dict[str, bytes]:
        """Return the files of a moved series."""
        return series_files(self.context.series_dir(name))

    def tree_of(self, name: str = NEXT) -> Path:
        """Return the patched tree of a release."""
        return self.applied_revision(name) / PYTHON

    def applied_revision(self, name: str) -> Path:
        """Apply a release's series and return the tree."""
        outcome = self.apply(rev=name)
        assert outcome.code == 0, outcome.err
        return Path(outcome.out.rstrip("\n"))

    @property
    def waiting(self) -> Path:
        """The tree of the patch that waits for the user."""
        trees = [path for path in self.context.rebase.iterdir() if path.is_dir()]
        assert len(trees) == 1, trees
        return trees[0]

    def resolve(self, files: dict[str, bytes | None]) -> None:
        """Write files into the waiting tree and stage them; None deletes."""
        tree = self.waiting
        for name, content in files.items():
            if content is None:
                git(tree, "rm", "--quiet", "--force", name)
            else:
                (tree / name).write_bytes(content)
                git(tree, "add", "--force", name)


def statuses(report: Any) -> dict[str, str]:
    """Return what became of each patch."""
    return {patch["slug"]: patch["status"] for patch in report["patches"]}


def details(report: Any, slug: str) -> str:
    """Return what the report says about a patch."""
    (patch,) = (patch for patch in report["patches"] if patch["slug"] == slug)
    return "; ".join(patch["details"])


def checks(report: Any, slug: str) -> dict[str, str]:
    """Return what the smoke gate found about a patch."""
    (patch,) = (patch for patch in report["patches"] if patch["slug"] == slug)
    return {check["name"]: check["result"] for check in patch["checks"]}
