"""A wheel file or an unpacked tree on the user's disk as the source of a release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from patchstack.base import (
    PACKAGE,
    Point,
    base_point,
    folder_files,
    import_any,
    open_store,
    wheel_files,
)
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.ground import Ground, Wanted, check_release, check_version
from patchstack.repository import Repository
from patchstack.upstream import file_sha256

_VERSION = re.compile(r"""^(?:__version__ = )?version = ['"]([^'"]+)['"]""", re.MULTILINE)
_METADATA_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class WheelSource:
    """A wheel file, pinned or not.

    Parameters
    ----------
    path
        The file.
    """

    path: Path

    @contextmanager
    def ground(self, context: Context, wanted: Wanted) -> Iterator[Ground]:
        """Give the base commit that the files of the wheel make."""
        try:
            name, version, _, _ = parse_wheel_filename(self.path.name)
        except InvalidWheelFilename:
            name, version = None, None
        if name != PACKAGE:
            raise ToolError(
                f"{self.path} is not a wheel of SGLang", "name another --source", Exit.UPSTREAM
            )
        check_version(str(version), wanted.revision, str(self.path))
        store = open_store(context.repository)
        wanted.progress.say(f"importing the files of {self.path.name}")
        base = import_any(store, wanted.revision, wheel_files(self.path), "another wheel")
        about = {"kind": "wheel", "wheel": self.path.name, "sha256": file_sha256(self.path)}
        yield _ground(store, base, wanted, str(self.path), about, self.path)


@dataclass(frozen=True)
class FolderSource:
    """A folder that holds ``sglang/`` or ``python/sglang/``, such as an unpacked wheel.

    Parameters
    ----------
    package
        The ``sglang`` folder in it.
    """

    package: Path

    @contextmanager
    def ground(self, context: Context, wanted: Wanted) -> Iterator[Ground]:
        """Give the base commit that the files of the folder make."""
        where = str(self.package)
        for version in _versions(self.package):
            check_version(version, wanted.revision, where)
        store = open_store(context.repository)
        wanted.progress.say(f"importing the files of {where}")
        base = import_any(store, wanted.revision, folder_files(self.package), "a folder")
        yield _ground(store, base, wanted, where, {"kind": "tree", "path": where}, None)


def _ground(
    store: Repository,
    base: Point,
    wanted: Wanted,
    where: str,
    about: dict[str, str],
    wheel: Path | None,
) -> Ground:
    exact = base == base_point(wanted.revision)
    if not exact:
        check_release(store, base.commit, wanted, where)
    return Ground(store, base, exact, about, wheel)


def _versions(package: Path) -> list[str]:
    """Return the versions that an unpacked package and the metadata beside it name."""
    found = []
    for path, pattern in [
        (package / "_version.py", _VERSION),
        *((path, _METADATA_VERSION) for path in package.parent.glob("sglang-*.dist-info/METADATA")),
    ]:
        if path.is_file() and (match := pattern.search(path.read_text("utf-8", "replace"))):
            found.append(match[1])
    return found
