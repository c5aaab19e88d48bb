"""One git repository, asked through the isolated git of `patchstack.gitenv`."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import Exit, ToolError
from patchstack.gitenv import Answer, execute

_LITTLE = 1 << 20  # bytes on a disk that is as good as full
# What git says of a repository that belongs to another user, or lies on a read-only disk.
_NO_RIGHT = ("dubious ownership", "ermission denied", "insufficient permission", "Read-only file")
_NO_CONVERSION = "-text -ident -filter -working-tree-encoding"


class GitError(ToolError):
    """A git command that failed where nothing was expected to: a full disk, a damaged store.

    Parameters
    ----------
    command, place
        The command and the repository that it worked in.
    answer
        What git said.
    remedy
        The next step, where the machine is not to blame.
    """

    def __init__(self, command: str, place: Path, answer: Answer, remedy: str) -> None:
        said = answer.err or _status(answer.status)
        blame = _machine(place, answer)
        super().__init__(
            f"git {command} in {place} failed: {said}",
            blame or remedy,
            Exit.USAGE if blame else Exit.UPSTREAM,
        )


def _status(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


def _machine(place: Path, answer: Answer) -> str | None:
    """Return what to do about the machine, if it is what made git fail."""
    if answer.status == -signal.SIGXFSZ:
        return "raise the limit on file sizes (ulimit -f) and run again"
    # Git does not always say why it cannot write.
    if "No space left" in answer.err or shutil.disk_usage(place.parent).free < _LITTLE:
        return f"free some space on the disk of {place.parent} and run again"
    if any(words in answer.err for words in _NO_RIGHT):
        return f"get the right to {place}, or name another place (--target, HIQCACHE_CACHE)"
    return None


@dataclass(frozen=True)
class Repository:
    """One git repository, named in full in every command so that no other is ever found.

    Parameters
    ----------
    git_dir
        The repository itself: ``.git`` of a tree, or a bare repository.
    work_tree
        The files, for the commands that look at them.
    remedy
        What to do when a command fails that must not.
    """

    git_dir: Path
    work_tree: Path | None = None
    remedy: str = "put that right and run again"

    @classmethod
    def create(cls, git_dir: Path, work_tree: Path | None = None) -> Repository:
        """Make an empty repository that takes nothing from a user's template."""
        place = ["--bare", str(git_dir)] if work_tree is None else [str(work_tree)]
        options = ["--quiet", "--template=", "--object-format=sha1", "--initial-branch=main"]
        made = cls(git_dir, work_tree)
        made._check("init", execute(["init", *options, *place], None, None))
        return made

    def keep_bytes(self) -> None:
        """Convert no file on its way in or out, whatever the user's settings say.

        Nothing else does: a file of attributes in the tree itself, which a patch can bring, beats
        every setting and is beaten by this one alone.
        """
        attributes = self.git_dir / "info" / "attributes"
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text(f"* {_NO_CONVERSION}\n", "utf-8")

    def _check(self, command: str, answer: Answer) -> bytes:
        if answer.status != 0:
            raise GitError(command, self.git_dir, answer, self.remedy)
        return answer.out

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
        return execute([*self._global_options(), *arguments], stdin, env)

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run a command that must succeed and return its output, byte for byte."""
        return self._check(arguments[0], self.ask(*arguments, stdin=stdin, env=env))

    def line(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command that must succeed and return the one line that it prints."""
        return (
            self.run(*arguments, stdin=stdin, env=env)
            .decode("utf-8", "surrogateescape")
            .rstrip("\n")
        )

    def lend(self) -> dict[str, str]:
        """Return the environment in which another repository reads this one's objects."""
        return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": self._objects()}

    def borrow(self, other: Repository) -> None:
        """Read the objects of ``other`` from now on, as if they were here."""
        alternates = self.git_dir / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{other._objects()}\n", "utf-8", "surrogateescape")

    def _objects(self) -> str:
        """Return the folder of the objects, quoted as git wants it in a list of such."""
        objects = self.line("rev-parse", "--path-format=absolute", "--git-path", "objects")
        quoted = objects.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}"'

    def copy_history(self, commits: str | Iterable[str], other: Repository) -> None:
        """Copy ``commits`` and everything that they need into ``other``, a repository of ours.

        A commit that ``other`` has already, with everything that it needs, is named after a
        ``^``. ``other`` does the work, so that nothing is written here, not even a time of
        change. A fetch would do the same in four times the time, checking all that is copied.
        """
        pack = other.git_dir / "objects" / "pack" / "pack"
        listed = [commits] if isinstance(commits, str) else commits
        wanted = "".join(f"{commit}\n" for commit in listed).encode()
        other.run(*_pack_objects(pack), stdin=wanted, env=self.lend())

    def pack(self, commit: str, folder: Path) -> None:
        """Write ``commit`` and everything that it needs into a new folder, as a pack."""
        folder.mkdir()
        self.run(*_pack_objects(folder / "pack"), stdin=f"{commit}\n".encode())

    @property
    def is_cut(self) -> bool:
        """Whether the repository holds a commit without the commits before it."""
        return (self.git_dir / "shallow").exists()

    def cut(self, commit: str) -> None:
        """Say that ``commit`` is here without the commits before it."""
        (self.git_dir / "shallow").write_text(f"{commit}\n", "utf-8")

    def resolve(self, name: str) -> str | None:
        """Return the commit that ``name`` stands for, or None."""
        answer = self.ask(
            "rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"
        )
        return answer.out.decode().strip() if answer.status == 0 else None


def _pack_objects(pack: Path) -> tuple[str, ...]:
    # No search for smaller deltas: most of the time it took, for no smaller pack.
    return ("pack-objects", "-q", "--revs", "--window=0", str(pack))
