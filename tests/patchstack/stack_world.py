"""A small world for the patch-stack tools: a release on an index, a project, a cache, a user.

Everything is real: pip serves the wheel, git makes the trees. Only the release is small.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apply
import check
import export
import map as map_tool
import pytest
import write_docs

from patchstack.base import base_point
from patchstack.context import Context
from patchstack.revisions import PinnedWheel, Revision

VERSION = "9.9.9"
NAME = f"v{VERSION}"
WHEEL = f"sglang-{VERSION}-py3-none-any.whl"
PYTHON = "python/sglang"

# What upstream ships: every kind of file that has ever been a trap.
SOURCES = {
    "sglang/__init__.py": b"from sglang._version import version\n",
    "sglang/blocks.py": b"begin\n  same\nend\n" * 3,
    "sglang/crlf.txt": b"one\r\ntwo\r\nthree\r\n",
    "sglang/no_newline.txt": b"first\nlast",
    "sglang/run.sh": b"#!/bin/sh\necho run\n",
    "sglang/srt/engine.py": b"def start():\n    return 1\n",
    "sglang/srt/héllo wörld.txt": b"accents and a space\n",
    "sglang/srt/.gitignore": b"*.log\n",
}
GENERATED = {
    "sglang/_version.py": b"version = '9.9.9'\n",
    "sglang/srt/core.cpython-311-x86_64-linux-gnu.so": b"\x7fELF\x00compiled\xff" * 50,
}
METADATA = b"""Metadata-Version: 2.4
Name: sglang
Version: 9.9.9
Summary: A release
License: One line
        Version: 9.9.9
Requires-Python: >=3.11
Requires-Dist: numpy
Provides-Extra: test
Requires-Dist: pytest; extra == "test"
Dynamic: license-file

# SGLang
Version: 9.9.9
"""
DIST_INFO = {
    "sglang-9.9.9.dist-info/METADATA": METADATA,
    "sglang-9.9.9.dist-info/WHEEL": (
        b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n\n"
    ),
    "sglang-9.9.9.dist-info/entry_points.txt": b"[console_scripts]\nsglang = sglang:main\n",
}
EXECUTABLE = "sglang/run.sh"


def write_wheel(path: Path, files: dict[str, bytes], version: str = VERSION) -> Path:
    """Write a wheel the way upstream's build does: dates, modes, folders and a RECORD."""
    rows = []
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("sglang/", (2026, 10, 30, 1, 4, 36)), b"")
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2026, 10, 30, 1, 4, 36))
            info.external_attr = (0o100755 if name == EXECUTABLE else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            rows.append(f"{name},sha256={digest.decode()},{len(content)}\n")
        record = f"sglang-{version}.dist-info/RECORD"
        archive.writestr(record, "".join([*rows, f"{record},,\n"]))
    return path


def git(where: Path, *arguments: str, env: dict[str, str] | None = None, code: int = 0) -> str:
    """Run git as a user with no configuration would, for setting things up and looking at them."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    clean |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **(env or {})}
    who = ["-c", "user.name=Ann Author", "-c", "user.email=ann@example.org"]
    pinned = ["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"]
    pinned += ["-c", "core.autocrlf=false", "-c", "core.fsmonitor=false"]
    pinned += ["-c", "i18n.commitEncoding=utf-8", "-c", "core.excludesFile=/dev/null"]
    done = subprocess.run(
        ["git", *who, *pinned, *arguments], cwd=where, env=clean, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode().rstrip("\n")


def snapshot(*roots: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file below ``roots`` with its time of change and its content."""
    found = {}
    for root in roots:
        for path in sorted(root.rglob("*")):
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (path.lstat().st_mtime_ns, content)
    return found


@dataclass(frozen=True)
class Outcome:
    """What a tool said and returned."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The result, for a tool that was asked for JSON."""
        return json.loads(self.out)


@dataclass
class World:
    """One user's project, cache and index."""

    root: Path
    index: Path
    context: Context
    capture: pytest.CaptureFixture[str]
    before_each_run: Callable[[], None]

    @property
    def target(self) -> Path:
        """Where the tree goes by default."""
        return self.context.target(NAME)

    @property
    def series(self) -> Path:
        """The folder of the patches."""
        return self.context.series_dir(NAME)

    def apply(self, *arguments: str, rev: str = "pin") -> Outcome:
        """Run ``tools/apply.py``."""
        return self._run(apply.main, ["--rev", rev, *arguments])

    def export(self, *arguments: str, rev: str = "pin") -> Outcome:
        """Run ``tools/export.py``."""
        return self._run(export.main, ["--rev", rev, *arguments])

    def map(self, *arguments: str) -> Outcome:
        """Run ``tools/map.py``."""
        return self._run(map_tool.main, list(arguments))

    def check(self, *arguments: str) -> Outcome:
        """Run ``tools/check.py``."""
        return self._run(check.main, list(arguments))

    def write_docs(self, *arguments: str) -> Outcome:
        """Run ``tools/write_docs.py``."""
        return self._run(write_docs.main, list(arguments))

    def applied(self, *arguments: str) -> Path:
        """Apply, which must succeed, and return the tree."""
        outcome = self.apply(*arguments)
        assert outcome.code == 0, outcome.err
        return Path(outcome.out.rstrip("\n"))

    def exported(self, *arguments: str) -> dict[str, bytes]:
        """Export, which must succeed, and return the files of the series."""
        outcome = self.export(*arguments)
        assert outcome.code == 0, outcome.err
        return series_files(self.series)

    def refused(self, outcome: Outcome, code: int, *words: str) -> str:
        """Assert that a tool refused in one line that holds ``words``, and return the line."""
        assert outcome.code == code, outcome
        assert outcome.out == ""
        lines = outcome.err.splitlines()
        # Progress before the failure is allowed; the failure itself is the last line alone.
        assert "Traceback" not in outcome.err
        named = [bool(re.match(r"[a-z_]+\.py: ", line)) for line in lines]
        assert named[-1] and sum(named) == 1, outcome.err
        assert "; " in lines[-1], "no way out is named"
        for word in words:
            assert word in lines[-1], lines[-1]
        return lines[-1]

    def other_cache(self, cache: Path) -> World:
        """Return the same world with another cache."""
        context = Context(self.root, self.context.patches, cache)
        return World(self.root, self.index, context, self.capture, self.before_each_run)

    def edit_revisions(self, old: str, new: str) -> None:
        """Change ``revisions.toml``."""
        replace(self.context.revisions_file, old, new)

    def _run(self, main: Callable[..., int], arguments: list[str]) -> Outcome:
        self.before_each_run()
        self.capture.readouterr()
        code = main(arguments, self.context)
        said = self.capture.readouterr()
        return Outcome(code, said.out, said.err)


def replace(path: Path, old: str, new: str) -> None:
    """Replace ``old``, which must be there once, in a file."""
    text = path.read_bytes().decode()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {path}"
    path.write_bytes(text.replace(old, new).encode())


def series_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a series."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def message(slug: str, subject: str | None = None, body: str = "Why it is so.") -> str:
    """Return a commit message that export accepts."""
    return (
        f"{subject or f'[HiCache] Change {slug}'}\n\n{body}\n\n"
        f"HiQ-Patch: {slug}\nWhy: a test\nUpstream: none, a test\nDrop-when: never\n"
    )


def commit(
    tree: Path, text: str, files: dict[str, bytes | None], *, author: str = "Ann", when: int = 0
) -> str:
    """Commit ``files`` (None deletes) in ``tree`` and return the commit."""
    for name, content in files.items():
        path = tree / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    git(tree, "add", "--all", "--force", ".")
    identity = {"GIT_AUTHOR_NAME": author, "GIT_AUTHOR_EMAIL": "ann@example.org"}
    date = {"GIT_AUTHOR_DATE": f"{1_790_000_000 + when} +0330"}
    message_file = tree / ".git" / "MESSAGE"
    message_file.write_text(text, "utf-8")
    options = ("--cleanup=verbatim", "--allow-empty", "--no-verify", "--quiet")
    git(tree, "commit", *options, "-F", str(message_file), env=identity | date)
    return git(tree, "rev-parse", "HEAD")


def three_patches(tree: Path) -> None:
    """Commit a series that touches every trap: CRLF, no final newline, accents, new, deleted."""
    commit(tree, message("middle-block"), {
        f"{PYTHON}/blocks.py": b"begin\n  same\nend\nbegin\n  changed\nend\nbegin\n  same\nend\n",
    }, when=1)  # fmt: skip
    commit(tree, message("odd-files", "[a] [b] Accents: héllo", "Body, → too."), {
        f"{PYTHON}/crlf.txt": b"one\r\nTWO\r\nthree\r\nfour\n",
        f"{PYTHON}/no_newline.txt": b"first\nsecond\nlast",
        f"{PYTHON}/srt/héllo wörld.txt": b"changed\n",
        f"{PYTHON}/srt/new, with comma.py": b"new = True\n",
        f"{PYTHON}/srt/empty.py": b"",
        f"{PYTHON}/binary.dat": bytes(range(256)),
    }, author="Zoë Š.", when=2)  # fmt: skip
    commit(tree, message("drop-and-more"), {
        f"{PYTHON}/run.sh": None,
        f"{PYTHON}/srt/engine.py": b"def start():\n    return 2\n",
        "docs/outside.md": b"Outside of the package.\n",
    }, when=3)  # fmt: skip


def write_project(root: Path) -> None:
    """Write a project small enough to build in a moment."""
    package = root / "hiqcache"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("VALUE = 1\n")
    (root / "README.md").write_text("hiqcache\n")
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "hiqcache"\nversion = "0.7.0"\nrequires-python = ">=3.11"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["hiqcache"]\n'
    )


def tree_id(folder: Path, files: dict[str, bytes]) -> str:
    """Return git's id of a tree of ordinary files, made by git itself."""
    git(folder, "init", "--quiet", "sources")
    for name, content in files.items():
        path = folder / "sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git(folder / "sources", "add", "--all", "--force", ".")
    return git(folder / "sources", "write-tree", "--prefix=sglang/")


def write_revisions(patches: Path, tree: str, wheels: Iterable[Path]) -> Revision:
    """Write ``revisions.toml`` for the small release."""
    pins = tuple(
        PinnedWheel(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in wheels
    )
    date = datetime(2026, 10, 30, tzinfo=UTC)
    revision = Revision(NAME, VERSION, date, 1, tree, pins)
    lines = "".join(f'"{wheel.name}" = "{wheel.sha256}"\n' for wheel in pins)
    patches.mkdir(parents=True, exist_ok=True)
    (patches / "revisions.toml").write_text(
        f'pin = "{NAME}"\n[revisions."{NAME}"]\nversion = "{VERSION}"\n'
        f'date = 2026-10-30T00:00:00Z\nbuild = 1\ntree = "{tree}"\n'
        f'[revisions."{NAME}".wheels]\n{lines}'
    )
    assert base_point(revision).commit
    return revision


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder, which may be absent."""
    if source.exists():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
