"""A release that ``revisions.toml`` does not pin yet: found with pip, and measured.

What is found here is trusted for the first time, so it is reported in full. From then on the pins
hold: they are written into ``revisions.toml`` together with the release's series.
"""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.version import InvalidVersion, Version

from patchstack.base import PACKAGE, is_source, wheel_tree
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.files import parse_toml
from patchstack.report import Progress
from patchstack.repository import Repository
from patchstack.revisions import PinnedWheel, Revision, load_revisions
from patchstack.swap import replace_file
from patchstack.upstream import (
    fetch_wheel,
    file_sha256,
    fitting_wheel,
    platform_options,
    run_pip,
)

_VERSION = re.compile(r"v?([0-9][0-9a-z.]*)")
_UNKNOWN_TREE = "0" * 40
_UNKNOWN_DATE = datetime(1980, 1, 1, tzinfo=UTC)
_FIRST_BUILD = 1


def named_version(name: str) -> str:
    """Return the version that a user means by ``0.5.24`` or ``v0.5.24``."""
    match = _VERSION.fullmatch(name)
    try:
        Version(match[1] if match else "")
    except InvalidVersion:
        hint = "name it by its version on the package index, like 0.5.24"
        raise ToolError(f"{name!r} is not a release", hint, Exit.USAGE) from None
    assert match is not None
    return match[1]


def discover_release(
    context: Context, version: str, like: Revision, *, offline: bool, progress: Progress
) -> Revision:
    """Return what would pin ``version``; its wheel is in the cache then.

    Parameters
    ----------
    context
        Every path.
    version
        The version on the package index.
    like
        A pinned release; wheels are looked for on its platforms.
    offline
        Whether to use the cache alone.
    progress
        Where progress goes.
    """
    wheels = _cached(context, version) if offline else _listed(version, like, progress)
    # Fetched like any other wheel, with the digest that the index gave.
    draft = Revision(f"v{version}", version, _UNKNOWN_DATE, _FIRST_BUILD, _UNKNOWN_TREE, wheels)
    wheel = fitting_wheel(draft) or wheels[0]
    file = fetch_wheel(context, draft, wheel, offline=offline, progress=progress)
    made = replace(draft, date=_build_date(file))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Repository.create(Path(folder) / "scratch.git")
        return replace(made, tree=wheel_tree(scratch, made, file))


def pin_release(path: Path, revision: Revision) -> None:
    """Add a release to ``revisions.toml``, above the first older one; the alias stays."""
    text = path.read_text("utf-8")
    older = [
        known.name
        for known in load_revisions(path).supported
        if Version(known.version) < Version(revision.version)
    ]
    table = revision_table(revision)
    starts = [text.find(f'[revisions."{name}"]') for name in older]
    place = min((start for start in starts if start >= 0), default=len(text))
    new = f"{text[:place].rstrip()}\n\n{table}\n{text[place:]}".rstrip() + "\n"
    _require_pinned(path, new, revision)
    replace_file(path, new.encode())


def revision_table(revision: Revision) -> str:
    """Return a release as ``revisions.toml`` has it."""
    lines = [
        f'[revisions."{revision.name}"]',
        f'version = "{revision.version}"',
        f"date = {revision.date:%Y-%m-%dT%H:%M:%SZ}",
        f"build = {revision.build}",
        f'tree = "{revision.tree}"',
        "",
        f'[revisions."{revision.name}".wheels]',
        *(f'"{wheel.name}" = "{wheel.sha256}"' for wheel in revision.wheels),
    ]
    return "\n".join(lines) + "\n"


def _require_pinned(path: Path, text: str, revision: Revision) -> None:
    """Refuse to write what would not be read back as meant: the file has an unusual form."""
    try:
        table = parse_toml(text)["revisions"][revision.name]
        written = Revision.parse(revision.name, table)
    except (KeyError, ValueError):
        written = None
    if written != revision:
        raise ToolError(
            f"{path} has a form in which {revision.name} cannot be added",
            f"add it by hand: {revision_table(revision)}",
            Exit.UPSTREAM,
        )


def _listed(version: str, like: Revision, progress: Progress) -> tuple[PinnedWheel, ...]:
    """Return the wheels of a version on the platforms of another release, as pip finds them."""
    progress.say(f"asking the package index for the wheels of {version}")
    own = fitting_wheel(like) or like.wheels[0]
    found = {_asked(version, own, progress)}
    for wheel in like.wheels:
        if wheel != own:
            try:
                found.add(_asked(version, wheel, progress))
            except ToolError:
                progress.say(f"{version} has no wheel for {wheel.platform}")
    return tuple(sorted(found, key=lambda wheel: wheel.name))


def _asked(version: str, platform: PinnedWheel, progress: Progress) -> PinnedWheel:
    """Return what pip would install on the platform of another release's wheel."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = ["install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--target", str(Path(folder) / "target"), "--report", str(report)]
        run_pip(version, command + platform_options(platform), progress)
        found = json.loads(report.read_text())["install"][0]["download_info"]
    name = unquote(PurePosixPath(urlsplit(found["url"]).path).name)
    return PinnedWheel(name, found["archive_info"]["hashes"]["sha256"])


def _cached(context: Context, version: str) -> tuple[PinnedWheel, ...]:
    files = sorted(context.wheels.glob(f"sglang-{version}-*.whl"))
    if not files:
        raise ToolError(
            f"no wheel of {version} is in the cache", "run again without --offline", Exit.UPSTREAM
        )
    return tuple(PinnedWheel(file.name, file_sha256(file)) for file in files)


def _build_date(wheel: Path) -> datetime:
    """Return the day on which a wheel was built: the newest that its files have."""
    with zipfile.ZipFile(wheel) as archive:
        files = (info for info in archive.infolist() if is_source(info.filename))
        newest = max((info.date_time for info in files), default=None)
    if newest is None:
        hint = "check pip's index settings, then run again"
        raise ToolError(f"{wheel.name} holds no {PACKAGE}", hint, Exit.UPSTREAM)
    return datetime(*newest[:3], tzinfo=UTC)
