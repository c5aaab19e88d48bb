"""Git as the user has set it up, for the one thing that needs it: to fetch.

Proxies, credentials, certificates, ``insteadOf`` and ssh commands are the user's business. So a
fetch has the user's configuration and variables, except what leads git to another repository and
what would make it run or write something that is not the fetch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from patchstack.gitenv import Answer, execute_as_user
from patchstack.repository import Repository

# Of `git rev-parse --local-env-vars`, all but the ones that hold configuration.
_LOCAL = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
}
_OVERRIDES = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    # Otherwise git looks for the history of each object that is asked for by itself.
    "fetch.negotiationAlgorithm": "noop",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
}
_REMOTE = "hiqcache"
_FETCH = (
    "fetch",
    "--quiet",
    "--filter=blob:none",
    "--no-prune",
    "--no-recurse-submodules",
    "--no-tags",
    "--no-write-fetch-head",
)


@dataclass(frozen=True)
class UserGit:
    """The git of a user.

    Parameters
    ----------
    variables
        What `isolate` took from the environment.
    """

    variables: Mapping[str, str]

    def fetch_commit(self, repository: Repository, url: str, refspec: str) -> Answer:
        """Fetch a commit without the commits before it and without the content of its files."""
        return self._fetch(repository, url, ["--depth=1"], [refspec], None)

    def fetch_objects(self, repository: Repository, url: str, ids: list[str]) -> Answer:
        """Fetch the content of files, as git itself does when it meets one that is missing."""
        lines = "".join(f"{name}\n" for name in ids)
        return self._fetch(repository, url, ["--stdin"], [], lines.encode())

    def _fetch(
        self,
        repository: Repository,
        url: str,
        options: list[str],
        refspecs: list[str],
        stdin: bytes | None,
    ) -> Answer:
        place = ["-C", str(repository.git_dir), f"--git-dir={repository.git_dir}"]
        settings = [word for key, value in _OVERRIDES.items() for word in ("-c", f"{key}={value}")]
        # A remote needs a name for git to note that it has the content that is missing here.
        command = [*place, *settings, *_FETCH, *options, _REMOTE, *refspecs]
        return execute_as_user(command, stdin, self._environment(url))

    def _environment(self, url: str) -> dict[str, str]:
        """Return the user's variables and the address, which may hold a password."""
        kept = {name: value for name, value in self.variables.items() if name not in _LOCAL}
        number = kept.get("GIT_CONFIG_COUNT", "0")
        count = int(number) if number.isdecimal() else 0
        kept |= {
            "GIT_CONFIG_COUNT": str(count + 1),
            f"GIT_CONFIG_KEY_{count}": f"remote.{_REMOTE}.url",
            f"GIT_CONFIG_VALUE_{count}": url,
        }
        return {"GIT_TERMINAL_PROMPT": "0", **kept}
