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
import zlib
from collections.abc import Iterable, Iterator
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
_LARGEST_RELEASE = 1 << 30  # bytes; releases unpack to about 130 MB
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
    """Return a bare repository of the cache, made if it is not there yet.

    The caller has claimed it. So a lock in it, or a pack half written, is a killed run's.
    """

    def make(fresh: Path) -> None:
        Repository.create(fresh)

    if not path.exists():
        replace_folder(path, make)
    for leavings in (
        path.glob("*.lock"),
        path.glob("refs/**/*.lock"),
        path.glob("objects/**/tmp_*"),
    ):
        for leaving in leavings:
            leaving.unlink()
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
    made, tree = _import(store, revision, wheel_files(wheel))
    if made != base_point(revision).commit:
        raise ToolError(
            f"the files of {wheel.name} make tree {tree}, but revisions.toml pins {revision.tree}",
            f"check the pin of {revision.name}",
            Exit.UPSTREAM,
        )
    store.run("update-ref", base_ref(revision), base_point(revision).commit)


def wheel_tree(store: Repository, revision: Revision, wheel: Path) -> str:
    """Return the id of the tree that ``wheel`` holds, for a release that is not pinned yet."""
    return _import(store, revision, wheel_files(wheel))[1]


def import_any(
    store: Repository, revision: Revision, files: Iterable[tuple[str, bytes]], what: str
) -> Point:
    """Return a base commit made of ``files``: the pinned one if they are the pinned files.

    Parameters
    ----------
    store, revision
        Where the commit goes and which release it stands for.
    files
        What `wheel_files` or `folder_files` gives.
    what
        What the files are, for the message of another commit than the pinned one.
    """
    made, _ = _import(store, revision, files)
    base = base_point(revision)
    if made == base.commit:
        store.run("update-ref", base_ref(revision), base.commit)
        return base
    tree = store.line("rev-parse", f"{made}^{{tree}}")
    text = f"SGLang {revision.version}\n\nThe files of {PACKAGE}/ in {what}.\n"
    date = f"{int(revision.date.timestamp())} +0000"
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    return Point(store.line("commit-tree", tree, "-F", "-", stdin=text.encode(), env=dates), tree)


def wheel_files(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of what a wheel holds for the base tree."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = sorted(archive.infolist(), key=lambda member: member.filename)
            if sum(info.file_size for info in members) > _LARGEST_RELEASE:
                raise _unreadable(wheel, "it unpacks to more than any release")
            for info in members:
                if is_source(info.filename):
                    _refuse_odd(wheel, info.filename, link=stat.S_ISLNK(info.external_attr >> 16))
                    yield info.filename, archive.read(info)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError) as error:
        raise _unreadable(wheel, str(error)) from None


def _unreadable(wheel: Path, why: str) -> ToolError:
    return ToolError(
        f"{wheel} is damaged: {why}", "fetch it again, or leave --source out", Exit.UPSTREAM
    )


def folder_files(package: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of what an unpacked package holds for the base tree."""
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package.parent).as_posix()
        if (
            path.suffix == ".pyc"
            or not is_source(name)
            or (path.is_dir() and not path.is_symlink())
        ):
            continue
        _refuse_odd(package, name, link=not stat.S_ISREG(path.lstat().st_mode))
        yield name, path.read_bytes()


def is_source(name: str) -> bool:
    """Return whether a member of a wheel belongs to the base tree."""
    return (
        name.startswith(f"{PACKAGE}/")
        and not name.endswith(("/", _COMPILED))
        and name != _GENERATED
    )


def _import(
    store: Repository, revision: Revision, files: Iterable[tuple[str, bytes]]
) -> tuple[str | None, str]:
    """Make a commit from ``files`` without a lasting name; return it and its ``sglang/``."""
    store.run("fast-import", "--quiet", "--force", stdin=_import_stream(revision, files))
    made = store.resolve(_IMPORT_REF)
    tree = store.line("rev-parse", f"{_IMPORT_REF}:{PREFIX}")
    store.run("update-ref", "-d", _IMPORT_REF)
    return made, tree


def _import_stream(revision: Revision, files: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the commands that make ``git fast-import`` write the base commit."""
    stream = io.BytesIO()
    message = _message(revision).encode()
    stream.write(f"feature done\ncommit {_IMPORT_REF}\n".encode())
    stream.write(f"committer {_signature(revision)}\ndata {len(message)}\n".encode() + message)
    for name, content in files:
        header = f'M 100644 inline "python/{name}"\ndata {len(content)}\n'
        stream.write(header.encode() + content + b"\n")
    stream.write(b"done\n")
    return stream.getvalue()


def _refuse_odd(source: Path, name: str, *, link: bool) -> None:
    """Refuse what no release has had: links, and names that git or a shell reads differently."""
    odd = link or not name.isprintable() or set(name) & set('"\\')
    if odd or {".", "..", ".git", ""} & set(name.split("/")):
        raise ToolError(
            f"{source.name} holds {name!r}, which is not an ordinary file",
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
