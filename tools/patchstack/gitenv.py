"""Git that gives every user the same bytes, whatever that user's configuration says.

Flags cannot do it: of the settings that change an export or a checkout, several have none. Three
things together can: no system and user configuration, the settings that matter given at command
scope (which beats the repository's own file), and no ``GIT_*`` variable that a hook or a shell
left behind. Nothing here talks to a network, so no user's proxy or credential is missed.

GitPython cannot unset a variable of the environment, hence `isolate`; and it expands ``$`` and
``~`` in the directory that it is given, hence ``-C``.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

# Without it a missing git is an error at import, before there is anyone to put it in one line.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import git

from patchstack.errors import Exit, ToolError

MINIMUM_GIT = (2, 34)
IDENTITY_NAME = "HiQCache"
IDENTITY_EMAIL = "hiqcache@localhost.invalid"

# Where git lives and which git GitPython starts are not configuration.
_KEPT_VARIABLES = ("GIT_EXEC_PATH", "GIT_PYTHON_")

_SETTINGS = {
    "advice.detachedHead": "false",
    "apply.ignoreWhitespace": "no",
    "apply.whitespace": "nowarn",
    "color.ui": "false",
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.checkStat": "default",
    "core.compression": "1",
    "core.eol": "lf",
    "core.excludesFile": os.devnull,
    "core.fileMode": "true",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.ignoreCase": "false",
    "core.quotePath": "true",
    "core.safecrlf": "false",
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.symlinks": "true",
    "core.untrackedCache": "false",
    "diff.algorithm": "myers",
    "diff.context": "3",
    "diff.ignoreSubmodules": "none",
    "diff.indentHeuristic": "true",
    "diff.interHunkContext": "0",
    "diff.mnemonicPrefix": "false",
    "diff.noprefix": "false",
    "diff.relative": "false",
    "diff.renames": "false",
    "diff.submodule": "short",
    "diff.suppressBlankEmpty": "false",
    "gc.auto": "0",
    "i18n.commitEncoding": "UTF-8",
    "i18n.logOutputEncoding": "UTF-8",
    "log.mailmap": "false",
    "log.showSignature": "false",
    "mailinfo.scissors": "false",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
}


def _environment() -> dict[str, str]:
    """Return what every git of ours runs with."""
    variables = {
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_AUTHOR_EMAIL": IDENTITY_EMAIL,
        "GIT_AUTHOR_NAME": IDENTITY_NAME,
        "GIT_COMMITTER_EMAIL": IDENTITY_EMAIL,
        "GIT_COMMITTER_NAME": IDENTITY_NAME,
        "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "TZ": "UTC",
    }
    for number, (key, value) in enumerate(sorted(_SETTINGS.items())):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def isolate(environ: MutableMapping[str, str]) -> None:
    """Remove what a shell or a hook told git from ``environ``, and check git itself.

    Parameters
    ----------
    environ
        The environment of this process, changed in place.
    """
    for name in [name for name in environ if name.startswith("GIT_")]:
        if not name.startswith(_KEPT_VARIABLES):
            del environ[name]
    _check_version()


def _check_version() -> None:
    wanted = ".".join(map(str, MINIMUM_GIT))
    hint = f"install git {wanted} or newer"
    try:
        answer = git.Git().execute(["git", "version"])
    except (git.exc.GitCommandNotFound, git.exc.GitCommandError):
        raise ToolError("git is not installed", hint, Exit.USAGE) from None
    numbers = re.search(r"(\d+)\.(\d+)", str(answer))
    if numbers is None or tuple(map(int, numbers.groups())) < MINIMUM_GIT:
        raise ToolError(f"{answer} is too old", hint, Exit.USAGE)


class GitError(ToolError):
    """A git command that failed where nothing was expected to: a full disk, a damaged store."""

    def __init__(self, arguments: list[str], answer: Answer) -> None:
        said = answer.err or f"exit status {answer.status}"
        super().__init__(
            f"git {' '.join(arguments)} failed: {said}",
            "put that right (a damaged cache can be removed) and run again",
            Exit.UPSTREAM,
        )


@dataclass(frozen=True)
class Answer:
    """What a git command said."""

    status: int
    out: bytes
    err: str


@dataclass(frozen=True)
class Repository:
    """One git repository, named in full in every command so that no other is ever found.

    Parameters
    ----------
    git_dir
        The repository itself: ``.git`` of a tree, or a bare repository.
    work_tree
        The files, for the commands that look at them.
    """

    git_dir: Path
    work_tree: Path | None = None

    @classmethod
    def create(cls, git_dir: Path, work_tree: Path | None = None) -> Repository:
        """Make an empty repository that takes nothing from a user's template."""
        place = ["--bare", str(git_dir)] if work_tree is None else [str(work_tree)]
        options = ["--quiet", "--template=", "--object-format=sha1", "--initial-branch=main"]
        _checked(["init", *options, *place])
        return cls(git_dir, work_tree)

    def _global_options(self) -> list[str]:
        if self.work_tree is None:
            return ["-C", str(self.git_dir), f"--git-dir={self.git_dir}"]
        tree = str(self.work_tree)
        return ["-C", tree, f"--git-dir={self.git_dir}", f"--work-tree={tree}"]

    def ask(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Answer:
        """Run a command whose failure is an answer too."""
        return _execute([*self._global_options(), *arguments], stdin, env)

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run a command that must succeed and return its output, byte for byte."""
        return _checked([*self._global_options(), *arguments], stdin, env)

    def line(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command that must succeed and return the one line that it prints."""
        return self.run(*arguments, stdin=stdin, env=env).decode().rstrip("\n")

    def lend(self) -> dict[str, str]:
        """Return the environment in which another repository reads this one's objects."""
        objects = self.line("rev-parse", "--path-format=absolute", "--git-path", "objects")
        quoted = objects.replace("\\", "\\\\").replace('"', '\\"')
        return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"'}

    def copy_history(self, commit: str, other: Repository) -> None:
        """Copy ``commit`` and everything that it needs into ``other``, a fresh repository.

        ``other`` does the work, so that nothing is written here, not even a time of change. A
        fetch would do the same in four times the time, checking all that is copied.
        """
        pack = str(other.git_dir / "objects" / "pack" / "pack")
        wanted = f"{commit}\n".encode()
        other.run("pack-objects", "-q", "--revs", pack, stdin=wanted, env=self.lend())

    def resolve(self, name: str) -> str | None:
        """Return the commit that ``name`` stands for, or None."""
        answer = self.ask(
            "rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"
        )
        return answer.out.decode().strip() if answer.status == 0 else None


def _checked(
    arguments: list[str], stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> bytes:
    answer = _execute(arguments, stdin, env)
    if answer.status != 0:
        raise GitError(arguments, answer)
    return answer.out


def _execute(arguments: list[str], stdin: bytes | None, env: Mapping[str, str] | None) -> Answer:
    process = git.Git()
    process.update_environment(**{**_environment(), **(env or {})})
    command = [git.Git.GIT_PYTHON_GIT_EXECUTABLE or "git", *arguments]
    with tempfile.TemporaryFile() as feed:  # GitPython wants a real file
        feed.write(stdin or b"")
        feed.seek(0)
        status, out, err = process.execute(
            command,
            istream=feed,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
        )
    return Answer(int(status), bytes(out), str(err))
