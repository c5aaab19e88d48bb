"""``lock.toml``: what a revision's patches must become, compared at every apply.

The file is a `Stack` written down. Its digests are compared before anything is applied, so that
an edited or truncated patch is found by name; the rest after.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from patchstack.base import Point
from patchstack.build import Applied, Stack
from patchstack.errors import Exit, ToolError
from patchstack.series import PatchFile

LOCK = "lock.toml"
_HEADER = "# What the patches of this folder become. Written by tools/export.py; not for editing.\n"


def write_lock(stack: Stack) -> str:
    """Return the text of the lock file."""
    parts = [_HEADER, _table("[base]", stack.base)]
    parts += [_table("[[patches]]", patch) for patch in stack.patches]
    parts += [_table("[head]", stack.head)]
    return "\n".join(parts)


def read_lock(folder: Path) -> Stack:
    """Read a revision's lock file."""
    try:
        table = tomllib.loads((folder / LOCK).read_text("utf-8"))
        return Stack(
            base=_parse(Point, table["base"]),
            patches=tuple(_parse(Applied, patch) for patch in table.get("patches", [])),
            head=_parse(Point, table["head"]),
        )
    except FileNotFoundError:
        raise _difference(folder, LOCK, "is missing") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _difference(folder, LOCK, f"cannot be read: {error}") from None


def check_files(folder: Path, locked: Stack, base: Point, patches: tuple[PatchFile, ...]) -> None:
    """Compare what is known before anything is applied: the base and the patch files."""
    _compare(folder, LOCK, "base", locked.base, base)
    names = [patch.name for patch in patches]
    expected = [patch.file for patch in locked.patches]
    if names != expected:
        odd = next((name for name in names if name not in expected), None)
        if odd is not None:
            raise _difference(folder, odd, f"is not in {LOCK}")
        raise _difference(folder, "series", f"has {names}, {LOCK} has {expected}")
    for patch, lock in zip(patches, locked.patches, strict=True):
        if patch.sha256 != lock.sha256:
            found = f"has sha256 {patch.sha256}, {LOCK} has {lock.sha256}"
            raise _difference(folder, patch.name, found)


def check_stack(folder: Path, locked: Stack, stack: Stack) -> None:
    """Compare what the patches became."""
    for lock, patch in zip(locked.patches, stack.patches, strict=True):
        _compare(folder, patch.file, "patch", lock, patch)
    _compare(folder, LOCK, "head", locked.head, stack.head)


def _compare(folder: Path, file: str, what: str, locked: Any, found: Any) -> None:
    for field in fields(locked):
        old, new = getattr(locked, field.name), getattr(found, field.name)
        if old != new:
            detail = f"gives {what} {field.name} {new}, {LOCK} has {old}"
            raise _difference(folder, file, detail)


def _difference(folder: Path, file: str, what: str) -> ToolError:
    return ToolError(
        f"patches/{folder.name}/{file} {what}",
        f"restore it with git checkout, or run tools/export.py --rev {folder.name}",
        Exit.UPSTREAM,
    )


def _table(header: str, values: Point | Applied) -> str:
    # Every value is a hexadecimal id or a checked name: nothing that TOML would have to escape.
    return (
        "\n".join([header, *(f'{key} = "{value}"' for key, value in asdict(values).items())]) + "\n"
    )


def _parse(kind: Any, table: dict[str, Any]) -> Any:
    if not all(isinstance(value, str) for value in table.values()):
        raise ValueError(f"{table} holds more than strings")
    return kind(**table)
