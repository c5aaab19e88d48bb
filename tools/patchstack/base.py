"""The base commit: a release's files under ``python/sglang/``, the same commit for everyone.

Everything that goes into the commit is fixed by ``revisions.toml``, so its id is known before
anything is fetched. The commit that an import makes must have that id.

The platforms' wheels hold the same bytes but disagree about executable bits (they were packed on
different machines), so every file is recorded with mode 100644. What the build generates is left
out: ``sglang/_version.py`` and the compiled extensions, which differ from platform to platform.
"""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from patchstack.errors import Exit, ToolError
from patchstack.gitenv import IDENTITY_EMAIL, IDENTITY_NAME
from patchstack.repository import Repository
from patchstack.revisions import Revision
from patchstack.swap import replace_folder

PACKAGE = "sglang"
PREFIX = f"python/{PACKAGE}"
_GENERATED = f"{PACKAGE}/_version.py"
_COMPILED = ".so"
_IMPORT_REF = "refs/hiqcache/import"


@dataclass(frozen=True)
class Point:
    """A commit and its tree.

    Parameters
    ----------
    commit
        The commit's id.
    tree
        The id of the tree that it records.
    """

    commit: str
    tree: str


def base_point(revision: Revision) -> Point:
    """Return what the base commit of ``revision`` must be, computed from the pinned tree."""
    tree = revision.tree
    for folder in reversed(PurePosixPath(PREFIX).parts):
        tree = _object_id("tree", f"40000 {folder}\0".encode() + bytes.fromhex(tree))
    who = _signature(revision)
    text = f"tree {tree}\nauthor {who}\ncommitter {who}\n\n{_message(revision)}"
    return Point(_object_id("commit", text.encode()), tree)


def open_store(path: Path) -> Repository:
    """Return the bare repository of the cache, made if it is not there yet."""

    def make(fresh: Path) -> None:
        Repository.create(fresh)

    if not path.exists():
        replace_folder(path, make)
    return Repository(path, remedy=f"remove {path}, which can be made again, and run again")


def has_base(store: Repository, revision: Revision) -> bool:
    """Return whether ``store`` holds the base commit of ``revision``, whole."""
    # The name is given last, after an import has written and checked every object.
    return store.resolve(base_ref(revision)) == base_point(revision).commit


def base_ref(revision: Revision) -> str:
    """Return the name that keeps the base commit of ``revision`` in the cache."""
    return f"refs/hiqcache/base/{revision.name}"


def import_base(store: Repository, revision: Revision, wheel: Path) -> None:
    """Make the base commit from ``wheel``; refuse one whose files are not the pinned ones."""
    made, tree = _import(store, revision, wheel)
    if made != base_point(revision).commit:
        raise ToolError(
            f"the files of {wheel.name} make tree {tree}, but revisions.toml pins {revision.tree}",
            f"check the pin of {revision.name}",
            Exit.UPSTREAM,
        )
    store.run("update-ref", base_ref(revision), base_point(revision).commit)


def wheel_tree(store: Repository, revision: Revision, wheel: Path) -> str:
    """Return the id of the tree that ``wheel`` holds, for a release that is not pinned yet."""
    return _import(store, revision, wheel)[1]


def is_source(name: str) -> bool:
    """Return whether a member of a wheel belongs to the base tree."""
    return (
        name.startswith(f"{PACKAGE}/")
        and not name.endswith(("/", _COMPILED))
        and name != _GENERATED
    )


def _import(store: Repository, revision: Revision, wheel: Path) -> tuple[str | None, str]:
    """Make a commit from ``wheel`` without a lasting name; return it and its ``sglang/``."""
    store.run("fast-import", "--quiet", "--force", stdin=_import_stream(revision, wheel))
    made = store.resolve(_IMPORT_REF)
    tree = store.line("rev-parse", f"{_IMPORT_REF}:{PREFIX}")
    store.run("update-ref", "-d", _IMPORT_REF)
    return made, tree


def _import_stream(revision: Revision, wheel: Path) -> bytes:
    """Return the commands that make ``git fast-import`` write the base commit."""
    stream = io.BytesIO()
    message = _message(revision).encode()
    stream.write(f"feature done\ncommit {_IMPORT_REF}\n".encode())
    stream.write(f"committer {_signature(revision)}\ndata {len(message)}\n".encode() + message)
    with zipfile.ZipFile(wheel) as archive:
        for info in sorted(archive.infolist(), key=lambda member: member.filename):
            if not is_source(info.filename):
                continue
            _refuse_odd_member(wheel, info)
            content = archive.read(info)
            header = f'M 100644 inline "python/{info.filename}"\ndata {len(content)}\n'
            stream.write(header.encode() + content + b"\n")
    stream.write(b"done\n")
    return stream.getvalue()


def _refuse_odd_member(wheel: Path, info: zipfile.ZipInfo) -> None:
    """Refuse what no release has had: links, and names that git or a shell reads differently."""
    name = info.filename
    odd = stat.S_ISLNK(info.external_attr >> 16) or not name.isprintable() or set(name) & set('"\\')
    if odd or {".", "..", ".git", ""} & set(name.split("/")):
        raise ToolError(
            f"{wheel.name} holds {name!r}, which is not an ordinary file",
            "this release needs a look by hand",
            Exit.UPSTREAM,
        )


def _message(revision: Revision) -> str:
    return (
        f"SGLang {revision.version}\n\n"
        f"The files of {PACKAGE}/ in the release's wheel, without what its build generates.\n"
    )


def _signature(revision: Revision) -> str:
    return f"{IDENTITY_NAME} <{IDENTITY_EMAIL}> {int(revision.date.timestamp())} +0000"


def _object_id(kind: str, content: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()
