"""``lock.toml``: what a revision's patches must become, compared at every apply.

The file is a `Stack` written down. Its digests are compared before anything is applied, so that
an edited or truncated patch is found by name; the rest after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from patchstack.base import Point
from patchstack.build import Applied, Stack
from patchstack.errors import Exit, ToolError
from patchstack.files import parse_toml
from patchstack.series import PatchFile
from patchstack.swap import copy_folder, replace_folder

LOCK = "lock.toml"
_HEADER = "# What the patches of this folder become. Written by tools/export.py; not for editing.\n"


@dataclass(frozen=True)
class Upstream:
    """Which commit the release's tag was when it was seen first.

    Parameters
    ----------
    tag, commit
        The tag and the commit.
    first_seen
        The day.
    """

    tag: str
    commit: str
    first_seen: str

    def __post_init__(self) -> None:
        forms = {"tag": r"v[0-9a-z.]+", "commit": r"[0-9a-f]{40}", "first_seen": r"[0-9-]{10}"}
        for name, form in forms.items():
            if not re.fullmatch(form, getattr(self, name)):
                raise ValueError(f"upstream {name} is {getattr(self, name)!r}")


def write_lock(stack: Stack, upstream: Upstream | None) -> str:
    """Return the text of the lock file."""
    parts = [_HEADER, _table("[base]", stack.base)]
    parts += [_table("[upstream]", upstream)] if upstream else []
    parts += [_table("[[patches]]", patch) for patch in stack.patches]
    parts += [_table("[head]", stack.head)]
    return "\n".join(parts)


def read_lock(folder: Path) -> Stack:
    """Read a revision's lock file."""
    try:
        table = parse_toml((folder / LOCK).read_text("utf-8"))
        return Stack(
            base=_parse(Point, table["base"]),
            patches=tuple(_parse(Applied, patch) for patch in table.get("patches", [])),
            head=_parse(Point, table["head"]),
        )
    except FileNotFoundError:
        raise _difference(folder, LOCK, "is missing") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _difference(folder, LOCK, f"cannot be read: {error}") from None


def read_upstream(folder: Path) -> Upstream | None:
    """Read which commit the release's tag was, if a revision's lock file says so."""
    try:
        table = parse_toml((folder / LOCK).read_text("utf-8"))
        if "upstream" not in table:
            return None
        upstream: Upstream = _parse(Upstream, table["upstream"])
        if upstream.tag != folder.name:
            raise ValueError(f"upstream tag is {upstream.tag}")
        return upstream
    except FileNotFoundError:
        return None
    except (AttributeError, TypeError, ValueError) as error:
        raise _difference(folder, LOCK, f"cannot be read: {error}") from None


def record_upstream(folder: Path, upstream: Upstream) -> None:
    """Add to a revision's lock file which commit the release's tag is."""

    def fill(fresh: Path) -> None:
        copy_folder(folder, fresh)
        (fresh / LOCK).write_text(write_lock(read_lock(folder), upstream), "utf-8")

    replace_folder(folder, fill)


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the lock has it.

    Parameters
    ----------
    file
        The file of the revision's folder that is to blame.
    what
        How it differs, as the end of a sentence that starts with the file.
    """

    file: str
    what: str


def file_differences(
    locked: Stack, base: Point, patches: tuple[PatchFile, ...]
) -> Iterator[Difference]:
    """Compare what is known before anything is applied: the base and the patch files."""
    yield from _compare(LOCK, "base", locked.base, base)
    names = [patch.name for patch in patches]
    digests = {patch.file: patch.sha256 for patch in locked.patches}
    for name in names:
        if name not in digests:
            yield Difference(name, f"is not in {LOCK}")
    if [name for name in names if name in digests] != list(digests):
        yield Difference("series", f"has {names}, {LOCK} has {list(digests)}")
    for patch in patches:
        if patch.sha256 != digests.get(patch.name, patch.sha256):
            what = f"has sha256 {patch.sha256}, {LOCK} has {digests[patch.name]}"
            yield Difference(patch.name, what)


def check_files(folder: Path, locked: Stack, base: Point, patches: tuple[PatchFile, ...]) -> None:
    """Refuse the first of `file_differences`."""
    _refuse_first(folder, file_differences(locked, base, patches))


def check_stack(folder: Path, locked: Stack, stack: Stack) -> None:
    """Compare what the patches became."""
    for lock, patch in zip(locked.patches, stack.patches, strict=True):
        _refuse_first(folder, _compare(patch.file, "patch", lock, patch))
    _refuse_first(folder, _compare(LOCK, "head", locked.head, stack.head))


def check_changes(folder: Path, locked: Stack, stack: Stack) -> None:
    """Compare what the patches change, for a base that is not the locked one."""
    for lock, patch in zip(locked.patches, stack.patches, strict=True):
        same = replace(lock, commit=patch.commit, tree=patch.tree)
        _refuse_first(folder, _compare(patch.file, "patch", same, patch))


def _refuse_first(folder: Path, differences: Iterator[Difference]) -> None:
    for difference in differences:
        raise _difference(folder, difference.file, difference.what)


def _compare(file: str, what: str, locked: Any, found: Any) -> Iterator[Difference]:
    for field in fields(locked):
        old, new = getattr(locked, field.name), getattr(found, field.name)
        if old != new:
            yield Difference(file, f"gives {what} {field.name} {new}, {LOCK} has {old}")


def _difference(folder: Path, file: str, what: str) -> ToolError:
    return ToolError(
        f"patches/{folder.name}/{file} {what}",
        f"restore it with git checkout, or run tools/export.py --rev {folder.name}",
        Exit.UPSTREAM,
    )


def _table(header: str, values: Point | Applied | Upstream) -> str:
    # Every value is an id, a day or a checked name: nothing that TOML would have to escape.
    return (
        "\n".join([header, *(f'{key} = "{value}"' for key, value in asdict(values).items())]) + "\n"
    )


def _parse(kind: Any, table: dict[str, Any]) -> Any:
    if not all(isinstance(value, str) for value in table.values()):
        raise ValueError(f"{table} holds more than strings")
    return kind(**table)
