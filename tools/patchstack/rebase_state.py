"""The rebase that waits for the user: all that a new process needs to go on, in one file.

``build/rebase/`` holds the file and the tree that it names. The tree is put there first and the
file is replaced after, so at any moment the file describes a rebase that can be continued, or
there is none. What a killed run left beside them is swept away by the next one.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchstack.base import Point
from patchstack.build import Applied, Stack
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.files import parse_toml
from patchstack.moving import Move
from patchstack.records import Record, parse_record
from patchstack.release import revision_table
from patchstack.repository import Repository
from patchstack.revisions import Revision
from patchstack.smoke import Check
from patchstack.swap import replace_file

STATE = "state.json"
_FORMAT = 1
_BYTES = ("utf-8", "surrogateescape")  # so that any bytes can be in JSON
_SCRATCH = ".next-"
_OURS = re.compile(rf"[0-9]{{4}}-[a-z0-9-]+|{re.escape(_SCRATCH)}.*|\.{re.escape(STATE)}\..*")


@dataclass(frozen=True)
class State:
    """A rebase that waits for the user.

    Parameters
    ----------
    origin
        The name of the old release.
    target
        The new release, which may not be pinned yet.
    replaces
        Whether a series of the new release is to be replaced.
    python
        The interpreter of the smoke gate, or None.
    resolutions
        Whether recorded resolutions are used.
    edit
        The slugs of patches that the user wants to see to even if they merge.
    old
        The series on the old release.
    moves
        What became of the first patches.
    stopped
        What became of the one that the user has to see to.
    learned
        What the user did so far that is to be recorded.
    """

    origin: str
    target: Revision
    replaces: bool
    python: Path | None
    resolutions: bool
    edit: tuple[str, ...]
    old: Stack
    moves: tuple[Move, ...]
    stopped: Move
    learned: tuple[Record, ...]

    def __post_init__(self) -> None:
        if not self.stopped.stops or len(self.moves) >= len(self.old.patches):
            raise ValueError("nothing waits for the user")

    @property
    def patch(self) -> Applied:
        """The patch that the user has to see to."""
        return self.old.patches[len(self.moves)]

    @property
    def number(self) -> int:
        """Its number, counted from 1."""
        return len(self.moves) + 1

    @property
    def tree(self) -> str:
        """The name of the tree in which the user does that."""
        return tree_name(self.patch)

    def to_json(self) -> str:
        """Return the text of the file."""
        fields = {
            "format": _FORMAT,
            "origin": self.origin,
            "target": {self.target.name: revision_table(self.target)},
            "replaces": self.replaces,
            "python": None if self.python is None else str(self.python),
            "resolutions": self.resolutions,
            "edit": self.edit,
            "old": asdict(self.old),
            "moves": [asdict(move) for move in self.moves],
            "stopped": asdict(self.stopped),
            "learned": {each.name: each.to_bytes().decode(*_BYTES) for each in self.learned},
            "tree": self.tree,
        }
        return json.dumps(fields, indent=2) + "\n"

    @classmethod
    def parse(cls, text: str) -> State:
        """Read the text of the file; ValueError, KeyError or TypeError if it cannot be right."""
        table = json.loads(text)
        if table["format"] != _FORMAT:
            raise ValueError(f"it has the format {table['format']}, not {_FORMAT}")
        ((name, target),) = table["target"].items()
        old = table["old"]
        return cls(
            origin=table["origin"],
            target=Revision.parse(name, parse_toml(target)["revisions"][name]),
            replaces=table["replaces"],
            python=None if table["python"] is None else Path(table["python"]),
            resolutions=table["resolutions"],
            edit=tuple(table["edit"]),
            old=Stack(
                Point(**old["base"]),
                tuple(Applied(**patch) for patch in old["patches"]),
                Point(**old["head"]),
            ),
            moves=tuple(_move(move) for move in table["moves"]),
            stopped=_move(table["stopped"]),
            learned=tuple(
                parse_record(name, text.encode(*_BYTES)) for name, text in table["learned"].items()
            ),
        )


def tree_name(patch: Applied) -> str:
    """Return the name of the tree in which the user sees to ``patch``."""
    return patch.file.removesuffix(".patch")


def read_state(context: Context) -> State | None:
    """Return the rebase that waits for the user, if one does."""
    file = context.rebase / STATE
    if not file.exists():
        return None
    try:
        return State.parse(file.read_text("utf-8"))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ToolError(
            f"{context.show(file)} cannot be read: {type(error).__name__}: {error}",
            "run tools/rebase.py --abort, and start again",
            Exit.USER_CHANGES,
        ) from None


def open_tree(context: Context, state: State) -> Repository:
    """Return the tree in which the user works."""
    path = context.rebase / state.tree
    if not (path / ".git").is_dir():
        raise ToolError(
            f"{context.show(path)} is gone",
            "run tools/rebase.py --abort, and start again",
            Exit.USER_CHANGES,
        )
    return Repository(path / ".git", path)


@contextmanager
def scratch_tree(parent: Path) -> Iterator[Repository]:
    """Give an empty tree below ``parent`` to work in; it is removed unless `hold` kept it."""
    parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=parent, prefix=_SCRATCH) as folder:
        path = Path(folder) / "tree"
        path.mkdir()
        tree = Repository.create(path / ".git", path)
        tree.keep_bytes()  # of the user's resolutions too
        yield tree


def hold(context: Context, state: State, tree: Repository) -> None:
    """Leave ``tree`` and ``state`` to the user."""
    assert tree.work_tree is not None
    tree.work_tree.rename(context.rebase / state.tree)
    replace_file(context.rebase / STATE, state.to_json().encode())
    sweep(context, state)


def sweep(context: Context, state: State | None) -> None:
    """Remove what belongs to no rebase that waits, and nothing that is not of these tools."""
    if not context.rebase.is_dir():
        return
    kept = {STATE, state.tree} if state else set()
    for path in context.rebase.iterdir():
        if path.name not in kept and _OURS.fullmatch(path.name) and path.is_dir():
            shutil.rmtree(path)
    if not any(context.rebase.iterdir()):
        context.rebase.rmdir()


def forget(context: Context) -> None:
    """End the rebase: from the moment that its file is gone, there is none."""
    (context.rebase / STATE).unlink(missing_ok=True)
    sweep(context, None)


def _move(table: dict[str, Any]) -> Move:
    checks = tuple(Check(**check) for check in table["checks"])
    lists = {key: tuple(table[key]) for key in ("conflicts", "recorded")}
    return Move(**{**table, **lists, "checks": checks})
