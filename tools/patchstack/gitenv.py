"""Git that gives every user the same bytes, whatever that user's configuration says.

Flags cannot do it: of the settings that change an export or a checkout, several have none. Three
things together can: no system and user configuration, the settings that matter given at command
scope (which beats the repository's own file), and no ``GIT_*`` variable that a hook or a shell
left behind. Such a git cannot talk to a network; a fetch goes through `patchstack.usergit`.

GitPython cannot unset a variable of the environment, hence `isolate`; and it expands ``$`` and
``~`` in the directory that it is given, hence ``-C``.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

# Without it a missing git is an error at import, before there is anyone to put it in one line.
os.environ["GIT_PYTHON_REFRESH"] = "quiet"

import git

from patchstack.children import ended, ends_with_us, supervised
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
    "checkout.workers": "0",
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
    "protocol.allow": "never",
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
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "TZ": "UTC",
    }
    for number, (key, value) in enumerate(sorted(_SETTINGS.items())):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def isolate(environ: MutableMapping[str, str]) -> dict[str, str]:
    """Remove what a shell or a hook told git from ``environ``, and check git itself.

    Parameters
    ----------
    environ
        The environment of this process, changed in place.

    Returns
    -------
    dict[str, str]
        What was removed, for `patchstack.usergit`.
    """
    names = [name for name in environ if name.startswith("GIT_")]
    taken = {name: environ.pop(name) for name in names if not name.startswith(_KEPT_VARIABLES)}
    _check_version()
    return taken


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


@dataclass(frozen=True)
class Answer:
    """What a git command said."""

    status: int
    out: bytes
    err: str


def execute(arguments: list[str], stdin: bytes | None, env: Mapping[str, str] | None) -> Answer:
    """Run one git command and return what it said.

    Parameters
    ----------
    arguments
        Everything after ``git``.
    stdin
        What the command reads.
    env
        Variables on top of those that every command gets.
    """
    return _start(_git(arguments), stdin, {**_environment(), **(env or {})})


def execute_as_user(
    arguments: list[str], stdin: bytes | None, variables: Mapping[str, str]
) -> Answer:
    """Run one git command, and the helpers that it starts, with the user's configuration.

    Parameters
    ----------
    arguments, stdin
        As for `execute`.
    variables
        Variables on top of those of this process.
    """
    return _start(supervised(_git(arguments)), stdin, variables)


def _git(arguments: list[str]) -> list[str]:
    return [git.Git.GIT_PYTHON_GIT_EXECUTABLE or "git", *arguments]


def _start(command: list[str], stdin: bytes | None, variables: Mapping[str, str]) -> Answer:
    process = git.Git()
    process.update_environment(**variables)
    with tempfile.TemporaryFile() as feed:  # GitPython wants a real file
        feed.write(stdin or b"")
        feed.seek(0)
        # The handle ends the process when it is garbage, so it has a name until the end.
        handle = process.execute(command, istream=feed, as_process=True, preexec_fn=ends_with_us())
        child = handle.proc
        assert child is not None
        with ended(child):
            out, err = child.communicate()
    return Answer(child.returncode, out, err.decode("utf-8", "replace").removesuffix("\n"))
