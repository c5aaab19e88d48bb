"""Whether a moved patch still means something, looked for by running it.

A patch can merge without a conflict and yet check a field that the new release does not have. So
every file that a patch touches must compile; and where an interpreter is given whose environment
can run the release, the modules that it touches must import and ``launch_server --help`` must show
what the patch says that it adds, with the trailer ``Shows:``.

Without running it, the names that a patch uses are looked for: see `patchstack.lost_names`. That
is a hint and no proof, so no patch fails for it; but the user has to look, and to say so.

What the release itself cannot do in that environment proves nothing against a patch: whatever
fails is tried on the bare release too, and is reported as not checked if it fails there.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from patchstack.base import PACKAGE, PREFIX
from patchstack.interpreter import SERVER, Interpreter, last_line
from patchstack.lost_names import lost_names
from patchstack.mail import read_trailers
from patchstack.repository import Repository

SHOWS_TRAILER = "Shows"
OK, FAILED, NOT_CHECKED = "ok", "failed", "not checked"
SUSPECT, ACCEPTED = "suspect", "accepted"


@dataclass(frozen=True)
class Check:
    """What one look at a patch gave.

    Parameters
    ----------
    name
        ``compiles``, ``names``, ``imports`` or ``shows``; or what else the user has to look at.
    result
        ``ok``, ``failed``, ``not checked``, ``suspect``, or ``accepted`` by the user though it was.
    detail
        What failed, why it was not checked, or what to look at.
    """

    name: str
    result: str
    detail: str = ""


@dataclass(frozen=True)
class Gate:
    """What every moved patch must pass.

    Parameters
    ----------
    repository
        Where the commits are.
    base
        The commit of the release itself.
    interpreter
        What can run it, or None.
    """

    repository: Repository
    base: str
    interpreter: Interpreter | None = None

    def check(self, commits: list[str], old: str) -> tuple[Check, ...]:
        """Look at a moved patch.

        Parameters
        ----------
        commits
            The new commits on the base, of which the patch is the last.
        old
            The commit that the patch was before.
        """
        paths = _python_files(self.repository, commits[-1])
        compiles = _compiles(self.repository, commits[-1], paths)
        if compiles.result == FAILED:
            return (compiles, *_unchecked("it does not compile"))
        names = _names(lost_names(self.repository, old, commits[-1], paths))
        return (compiles, names, *self._run(commits, paths))

    def _run(self, commits: list[str], paths: list[str]) -> tuple[Check, Check]:
        if self.interpreter is None:
            return _unchecked("no interpreter was given with --python")
        run = _Run(self.repository, self.base, commits[-1], self.interpreter)
        imports = run.imports([name for name in map(module_name, paths) if name])
        if imports.result == FAILED:
            return imports, Check("shows", NOT_CHECKED, "its modules do not import")
        words = [word for commit in commits for word in shown_words(self.repository, commit)]
        return imports, run.shows(words)


def accepted(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """Return ``checks`` of a patch that the user has seen to: nothing of it is suspect any more."""
    return tuple(
        replace(check, result=ACCEPTED) if check.result == SUSPECT else check for check in checks
    )


def shown_words(repository: Repository, commit: str) -> list[str]:
    """Return what the server's ``--help`` must show, as the commit's message says."""
    trailers = read_trailers(repository, repository.run("log", "-1", "--format=%B", commit))
    return trailers.get(SHOWS_TRAILER, "").replace(",", " ").split()


def module_name(path: str) -> str | None:
    """Return how a file of the release is imported, or None for one that cannot be."""
    parts = PurePosixPath(path).with_suffix("").relative_to(PurePosixPath(PREFIX).parent).parts
    if not all(part.isidentifier() for part in parts):
        return None
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class _Run:
    """One commit, run."""

    repository: Repository
    base: str
    commit: str
    interpreter: Interpreter

    def imports(self, modules: list[str]) -> Check:
        self._check_out(self.commit)
        failing = self.interpreter.failing(modules) if modules else {}
        if not failing:
            return Check("imports", OK)
        there = [name for name in failing if self._is_in_base(name)]
        self._check_out(self.base)
        control = self.interpreter.failing([PACKAGE, *there])
        own = {name: why for name, why in failing.items() if name not in control}
        text = "; ".join(f"{name}: {why.reason}" for name, why in (own or failing).items())
        if PACKAGE in control or all(why.is_foreign for why in own.values()):
            return Check("imports", NOT_CHECKED, f"not possible in this environment: {text}")
        return Check("imports", FAILED, text)

    def shows(self, words: list[str]) -> Check:
        self._check_out(self.commit)
        done = self.interpreter.help()
        if done.returncode == 0:
            missing = [word for word in words if not _is_shown(word, done.stdout)]
            if not missing:
                return Check("shows", OK, "" if words else "--help works, no patch says more")
            return Check("shows", FAILED, f"{SERVER} --help does not show {', '.join(missing)}")
        self._check_out(self.base)
        control = self.interpreter.help()
        if control.returncode != 0:
            why = f"the release's own --help fails in this environment: {last_line(control)}"
            return Check("shows", NOT_CHECKED, why)
        return Check("shows", FAILED, f"{SERVER} --help fails: {last_line(done)}")

    def _check_out(self, commit: str) -> None:
        """Make the files those of ``commit``; what the release's build generated stays."""
        files = replace(self.repository, work_tree=self.interpreter.tree)
        index = {"GIT_INDEX_FILE": str(self.interpreter.folder / "index")}
        files.run("read-tree", "--reset", "-u", commit, env=index)

    def _is_in_base(self, module: str) -> bool:
        path = f"{PurePosixPath(PREFIX).parent}/{module.replace('.', '/')}"
        places = (f"{self.base}:{path}.py", f"{self.base}:{path}/__init__.py")
        return any(self.repository.ask("cat-file", "-e", place).status == 0 for place in places)


def _python_files(repository: Repository, commit: str) -> list[str]:
    """Return the modules of the release that a commit adds or changes."""
    options = ("-r", "-z", "--name-only", "--no-commit-id", "--diff-filter=d")
    listed = repository.run("diff-tree", *options, commit, "--", PREFIX)
    names = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return [name for name in names if name.endswith(".py")]


def _compiles(repository: Repository, commit: str, paths: list[str]) -> Check:
    for path in paths:
        source = repository.run("cat-file", "blob", f"{commit}:{path}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(source, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return Check("compiles", FAILED, f"{path}: {error}")
    return Check("compiles", OK)


def _names(lost: dict[str, str]) -> Check:
    if not lost:
        return Check("names", OK)
    places = ", ".join(f"{name} ({PurePosixPath(path).name})" for name, path in lost.items())
    return Check("names", SUSPECT, f"the new release does not have {places}")


def _unchecked(why: str) -> tuple[Check, Check]:
    return Check("imports", NOT_CHECKED, why), Check("shows", NOT_CHECKED, why)


def _is_shown(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None
