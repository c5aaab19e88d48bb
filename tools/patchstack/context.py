"""Every path that the tools use, decided once."""

from __future__ import annotations

import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import Exit, ToolError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Context:
    """Where things are.

    Parameters
    ----------
    root
        The project: its ``pyproject.toml`` and the default output folder ``build``.
    patches
        ``revisions.toml`` and one folder per revision.
    cache
        What can be had again: wheels and the repository of base commits. Removing it is safe.
    """

    root: Path
    patches: Path
    cache: Path

    @classmethod
    def default(cls) -> Context:
        """Return the paths of this checkout and this user."""
        return cls(root=ROOT, patches=ROOT / "patches", cache=_user_cache())

    @property
    def revisions_file(self) -> Path:
        """The file that pins every supported release."""
        return self.patches / "revisions.toml"

    @property
    def history_file(self) -> Path:
        """The file that says what became of commits which no series has any more."""
        return self.patches / "history.toml"

    @property
    def resolutions(self) -> Path:
        """The folder of recorded conflict resolutions."""
        return self.patches / "resolutions"

    @property
    def rebase(self) -> Path:
        """The folder of the rebase that waits for the user, if one does."""
        return self.root / "build" / "rebase"

    @property
    def repository(self) -> Path:
        """The bare repository in which patches become commits."""
        return self.cache / "sglang.git"

    def clone(self, url: str) -> Path:
        """Return the bare repository of what was fetched from ``url``."""
        return self.cache / f"clone-{hashlib.sha256(url.encode()).hexdigest()[:16]}.git"

    @property
    def wheels(self) -> Path:
        """The folder of the releases' wheels."""
        return self.cache / "wheels"

    @property
    def dist(self) -> Path:
        """Where wheels are written unless the user says otherwise."""
        return self.root / "build" / "dist"

    def series_dir(self, revision: str) -> Path:
        """Return the folder of a revision's patches."""
        return self.patches / revision

    def target(self, revision: str) -> Path:
        """Return where a revision's tree goes unless the user says otherwise."""
        return self.root / "build" / revision

    def show(self, path: Path) -> str:
        """Return ``path`` as a message names it: short inside the project, full elsewhere."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)


def _user_cache() -> Path:
    own = os.environ.get("HIQCACHE_CACHE")
    if own:
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else _home() / ".cache").absolute() / "hiqcache"


def _home() -> Path:
    try:
        return Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise ToolError(
            "this user has no home for a cache", "set HIQCACHE_CACHE to a folder", Exit.USAGE
        ) from None
