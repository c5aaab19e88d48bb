"""What a patch uses of the release that it was made for, and the new release does not have.

A patch that reads ``args.codec`` merges into a release without that field, and nothing is run that
would notice. So the names that its lines use (attributes, imports, keyword arguments) are looked
for in both releases. A name that only the old one has is a hint and no proof: the patch may be
right without it, or wrong with all its names there.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from patchstack.base import PREFIX
from patchstack.drift import added_lines
from patchstack.repository import Repository


def lost_names(repository: Repository, old: str, new: str, paths: list[str]) -> dict[str, str]:
    """Return the names that only the old release has, each with a file that uses it.

    Parameters
    ----------
    repository
        Where the commits are.
    old, new
        The patch on its own release and on the new one.
    paths
        The modules that it changes in the new one; all of them compile.
    """
    used: dict[str, str] = {}
    own: set[str] = set()
    for path in paths:
        lines = added_lines(repository, f"{new}^:{path}", f"{new}:{path}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(repository.run("cat-file", "blob", f"{new}:{path}"))
        for node in ast.walk(module):
            if getattr(node, "lineno", 0) in lines:
                used |= dict.fromkeys(_used(node), path)
                own |= set(_defined(node))
    names = used.keys() - own
    # Most names are there, and then the old release need not be read at all.
    missing = names - _present(repository, f"{new}^", names)
    lost = _present(repository, f"{old}^", missing)
    return {name: used[name] for name in sorted(lost)}


def _used(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(attr=name, ctx=ast.Load()) | ast.keyword(arg=str(name)):
            yield name
        case ast.ImportFrom(names=names):
            yield from (alias.name for alias in names)


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name


def _present(repository: Repository, commit: str, names: set[str]) -> set[str]:
    """Return which of ``names`` are words in the modules of a commit."""
    if not names:
        return set()
    # All modules at once: for many words, git grep takes ten times as long as to read them all.
    text = repository.ask("archive", "--format=tar", commit, "--", f"{PREFIX}/*.py").out
    return {name for name in names if _has_word(text, name.encode())}


def _has_word(text: bytes, word: bytes) -> bool:
    found = re.finditer(re.escape(word) + rb"(?!\w)", text)
    return any(not re.match(rb"\w", text[match.start() - 1 : match.start()]) for match in found)
