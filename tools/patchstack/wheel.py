"""The patched release as a wheel, and hiqcache's own wheel: what an operator installs.

The patched wheel is upstream's with the patched files put in their places. What the build
compiled stays as it is, so nothing has to be compiled again. The metadata differ in two lines:
the version, and a requirement on the one hiqcache that the patches were written for. Equal input
gives equal bytes.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from patchstack.base import PREFIX
from patchstack.build import Stack
from patchstack.children import ends_with_us
from patchstack.command import INSTALL
from patchstack.errors import Exit, ToolError
from patchstack.files import parse_toml, read_text
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.revisions import Revision
from patchstack.swap import beside, claimed

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip file can hold
_FILE_MODE = 0o100644
_BUILD_OWN = "import sys, hatchling.build as h; print(h.build_wheel(sys.argv[1]))"


def patched_files(store: Repository, stack: Stack) -> dict[str, bytes | None]:
    """Return the files that the patches change, as a wheel names them; None for a deleted one."""
    raw = store.run(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index",
        stack.base.commit, stack.head.commit, "--", PREFIX,
    ).decode("utf-8", "surrogateescape")  # fmt: skip
    fields = raw.split("\0")[:-1]
    files: dict[str, bytes | None] = {}
    for entry, path in zip(fields[::2], fields[1::2], strict=True):
        _, mode, _, blob, status = entry.split(" ")
        if status != "D" and not (mode.startswith("100") and path.isprintable()):
            raise ToolError(
                f"{path} is not an ordinary file, so no wheel can hold it",
                "change the patch that adds it",
                Exit.FINDINGS,
            )
        name = path.removeprefix("python/")
        files[name] = None if status == "D" else store.run("cat-file", "blob", blob)
    return files


def write_wheels(
    root: Path,
    revision: Revision,
    upstream: Path,
    files: Mapping[str, bytes | None],
    folder: Path,
    progress: Progress,
) -> tuple[Path, Path]:
    """Write the patched release and hiqcache's wheel into ``folder``, both or neither.

    Parameters
    ----------
    root
        The project.
    revision
        The release.
    upstream
        The release's wheel.
    files
        What `patched_files` returned.
    folder
        Where the wheels go; made if it is not there.
    progress
        Where a wait for another run is told.
    """
    place = folder / _patched_name(revision, upstream)
    with claimed(place, progress=progress), beside(place) as temporary:
        ours = _build_own(root, temporary)
        requirement = f"hiqcache=={own_version(root)}"
        _write_patched(revision, upstream, files, requirement, temporary / place.name)
        return (temporary / place.name).replace(place), ours.replace(folder / ours.name)


def install_command(wheels: tuple[Path, ...]) -> str:
    """Return the one command that installs everything."""
    return shlex.join(["pip", "install", *map(str, wheels)])


def own_version(root: Path) -> str:
    """Return the version of hiqcache in the project at ``root``."""
    path = root / "pyproject.toml"
    try:
        return str(parse_toml(read_text(path))["project"]["version"])
    except (KeyError, TypeError, ValueError) as error:
        what = f"{path} cannot be used: {type(error).__name__}: {error}"
        raise ToolError(what, "restore it with git checkout", Exit.USAGE) from None


def _build_own(root: Path, folder: Path) -> Path:
    # A date from outside would make the bytes depend on it; hatchling has a fixed one.
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _BUILD_OWN, str(folder)],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        preexec_fn=ends_with_us(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        raise ToolError(
            f"hiqcache's own wheel cannot be built ({said[-1]})",
            f"run {INSTALL} and look at pyproject.toml",
            Exit.USAGE,
        )
    return folder / done.stdout.strip().splitlines()[-1]


def _patched_name(revision: Revision, upstream: Path) -> str:
    old, new = f"sglang-{revision.version}-", f"sglang-{revision.patched_version}-"
    return upstream.name.replace(old, new, 1)


def _write_patched(
    revision: Revision,
    upstream: Path,
    files: Mapping[str, bytes | None],
    requirement: str,
    path: Path,
) -> None:
    old, new = f"sglang-{revision.version}", f"sglang-{revision.patched_version}"
    record = f"{new}.dist-info/RECORD"
    rows: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(upstream) as source, zipfile.ZipFile(path, "w") as target:
        for name, mode, content in _members(source, files):
            renamed = re.sub(rf"^{re.escape(old)}(?=\.(dist-info|data)/)", new, name)
            if renamed == record:
                continue
            if renamed == f"{new}.dist-info/METADATA":
                content = _metadata(content, revision, requirement)
            _add(target, renamed, mode, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            rows.append((renamed, f"sha256={digest.decode()}", str(len(content))))
        rows.append((record, "", ""))
        listing = io.StringIO()
        csv.writer(listing, lineterminator="\n").writerows(rows)
        _add(target, record, _FILE_MODE, listing.getvalue().encode())


def _members(
    source: zipfile.ZipFile, files: Mapping[str, bytes | None]
) -> Iterator[tuple[str, int, bytes]]:
    """Yield name, mode and content of every file: new ones first, then upstream's order."""
    upstream = [info for info in source.infolist() if not info.is_dir()]
    for info in upstream:
        if info.filename.startswith("/") or {"", ".", ".."} & set(info.filename.split("/")):
            raise _odd(f"it holds {info.filename!r}, which would be installed elsewhere")
    known = {info.filename for info in upstream}
    for name in sorted(files.keys() - known):
        content = files[name]
        assert content is not None, "a patch deletes a file that the release does not have"
        yield name, _FILE_MODE, content
    for info in upstream:
        content = files[info.filename] if info.filename in files else source.read(info)
        if content is not None:
            yield info.filename, info.external_attr >> 16, content


def _odd(what: str) -> ToolError:
    return ToolError(
        f"the wheel is not one that can be patched: {what}", "take the release's own", Exit.UPSTREAM
    )


def _add(archive: zipfile.ZipFile, name: str, mode: int, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system = 3  # Unix, whose modes these are
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


def _metadata(content: bytes, revision: Revision, requirement: str) -> bytes:
    """Return the metadata with the patched version and one requirement more."""
    head, blank, body = content.partition(b"\n\n")
    lines = head.split(b"\n")
    wanted = f"Version: {revision.version}".encode()
    if wanted not in lines:
        raise _odd(f"its METADATA has no line {wanted.decode()!r}")
    version = lines.index(wanted)
    lines[version] = f"Version: {revision.patched_version}".encode()
    required = [n for n, line in enumerate(lines) if line.startswith(b"Requires-Dist:")]
    lines.insert(required[0] if required else len(lines), f"Requires-Dist: {requirement}".encode())
    return b"\n".join(lines) + blank + body
