"""What the tools read of the user's: a place or a file that is odd is refused in one line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from patchstack.errors import Exit, ToolError


def resolved(path: Path) -> Path:
    """Return ``path`` without symbolic links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # which of them depends on Python
        raise ToolError(
            f"{path} is below a symbolic link that leads to itself",
            "name another place (--help, HIQCACHE_CACHE)",
            Exit.USAGE,
        ) from None


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{path} is not UTF-8 text (byte {error.start + 1})", "save it as UTF-8", Exit.USAGE
        ) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a TOML document says; ValueError for one that is none."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
