"""The seam: the functions and lines of SGLang that the patches hook, found in each release.

``patches/seam.toml`` names them; where they are and how they are called is read from the pinned
sources, by Python's own parser, so a document about them cannot go stale unnoticed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchstack.base import PREFIX, base_point
from patchstack.errors import Exit, ToolError
from patchstack.files import parse_toml
from patchstack.repository import Repository
from patchstack.revisions import Revision

SEAM = "seam.toml"
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Hook:
    """One place of SGLang's that the patches depend on.

    Parameters
    ----------
    patch
        The slug of the patch that needs it.
    file
        The file below ``sglang/``.
    symbol
        The function, class or method, by its qualified name; empty for the file itself.
    use
        What the patch does with it.
    line
        The start of a line inside the symbol, where that line is what counts; empty otherwise.
    """

    patch: str
    file: str
    symbol: str
    use: str
    line: str = ""

    def __post_init__(self) -> None:
        for value in (self.patch, self.file, self.symbol, self.use, self.line):
            if not isinstance(value, str):
                raise ValueError(f"{value!r} is no text")
        if not (self.symbol or self.line):
            raise ValueError(f"a hook in {self.file} has neither a symbol nor a line")


@dataclass(frozen=True)
class Site:
    """Where a hook is in one release.

    Parameters
    ----------
    line
        The line of the file.
    signature
        How the symbol is called: a function's parameters, a class's fields.
    """

    line: int
    signature: str


def read_hooks(patches: Path) -> tuple[Hook, ...]:
    """Read ``seam.toml``."""
    path = patches / SEAM
    try:
        return tuple(Hook(**hook) for hook in parse_toml(path.read_text("utf-8"))["hooks"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ToolError(
            f"{path} cannot be used: {type(error).__name__}: {error}",
            "restore it with git checkout",
            Exit.UPSTREAM,
        ) from None


def find_sites(
    store: Repository, revision: Revision, hooks: tuple[Hook, ...]
) -> dict[Hook, Site | None]:
    """Return where each hook is in a release, or None where the release does not have it."""
    return {hook: _find(store, revision, hook) for hook in hooks}


def _find(store: Repository, revision: Revision, hook: Hook) -> Site | None:
    answer = store.ask("cat-file", "blob", f"{base_point(revision).commit}:{PREFIX}/{hook.file}")
    if answer.status != 0:
        return None
    return find_site(answer.out.decode("utf-8", "replace"), hook)


def find_site(source: str, hook: Hook) -> Site | None:
    """Return where a hook is in the source of its file, or None where it is not."""
    if not hook.symbol:
        line = _line_in(source.splitlines(), 1, hook.line)
        return None if line is None else Site(line, "")
    node = _definition(ast.parse(source), hook.symbol)
    if node is None:
        return None
    if not hook.line:
        return Site(node.lineno, _signature(node))
    inside = source.splitlines()[node.lineno - 1 : node.end_lineno]
    line = _line_in(inside, node.lineno, hook.line)
    return None if line is None else Site(line, _signature(node))


def unhooked(
    hooks: tuple[Hook, ...], touched: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield each of the patches and files that patches change for which there is no hook."""
    known = {(hook.patch, f"{PREFIX}/{hook.file}") for hook in hooks}
    yield from sorted(set(touched) - known)


def idle(hooks: tuple[Hook, ...], slugs: Iterable[str]) -> Iterator[str]:
    """Yield each patch that has hooks and is in no series any more."""
    yield from sorted({hook.patch for hook in hooks} - set(slugs))


def _definition(module: ast.Module, symbol: str) -> _Definition | None:
    scope: ast.AST = module
    for name in symbol.split("."):
        named = [
            node
            for node in ast.walk(scope)
            if isinstance(node, _Definition) and node.name == name and node is not scope
        ]
        if not named:
            return None
        scope = named[0]
    assert isinstance(scope, _Definition)
    return scope


def _line_in(lines: list[str], first: int, start: str) -> int | None:
    for number, line in enumerate(lines, first):
        if line.strip().startswith(start):
            return number
    return None


def _signature(node: _Definition) -> str:
    if isinstance(node, ast.ClassDef):
        return ", ".join(_fields(node)) or "no fields of its own"
    parameters = f"({ast.unparse(node.args)})"
    return f"{parameters} -> {ast.unparse(node.returns)}" if node.returns else parameters


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign):
            yield ast.unparse(statement.target)
