"""What ``--source`` means."""

from __future__ import annotations

from pathlib import Path

from patchstack.base import PACKAGE
from patchstack.errors import Exit, ToolError
from patchstack.files import resolved
from patchstack.ground import Source
from patchstack.source_checkout import CheckoutSource
from patchstack.source_files import FolderSource, WheelSource
from patchstack.source_git import SGLANG, GitSource
from patchstack.source_wheel import PinnedSource
from patchstack.usergit import UserGit

_GIT = "git"


def parse_source(text: str | None, user: UserGit, *, record: bool = False) -> Source:
    """Return the source that a user names.

    Parameters
    ----------
    text
        None, ``git``, ``git:URL`` or a path.
    user
        The git that a fetch uses.
    record
        Whether the commit of a tag is to be recorded.
    """
    if text == _GIT or (text or "").startswith(f"{_GIT}:"):
        url = (text or "").removeprefix(_GIT).removeprefix(":") or SGLANG
        # A path stands for itself wherever git runs.
        return GitSource(user, record, str(resolved(Path(url))) if Path(url).exists() else url)
    if record:
        raise ToolError("--record needs a tag", "add --source git", Exit.USAGE)
    return PinnedSource() if text is None else _local(Path(text).absolute())


def _local(path: Path) -> Source:
    if path.is_file():
        return WheelSource(path)
    if (path / ".git").exists():
        return CheckoutSource(path)
    for package in (path / "python" / PACKAGE, path / PACKAGE):
        if package.is_dir():
            return FolderSource(package)
    hint = f"name a checkout, a wheel, a folder with {PACKAGE}/ in it, git or git:URL"
    if (path / "objects").is_dir() and (path / "HEAD").is_file():
        hint = f"name it as --source git:{path}"
    what = f"holds no {PACKAGE}/" if path.is_dir() else "is not there"
    raise ToolError(f"--source {path} {what}", hint, Exit.USAGE)
