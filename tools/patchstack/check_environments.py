"""``tox.ini`` against ``revisions.toml``: each supported release has its integration tests."""

from __future__ import annotations

import configparser
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from patchstack.findings import Finding

TOX = "tox.ini"
_PREFIX = "integration-v"
_SECTION = "testenv:"
_CHOICE = re.compile(r"\{([^{}:]*)\}")


def environment_name(revision: str) -> str:
    """Return the tox environment of a release: a dot would be read as a part of a version.

    Examples
    --------
    >>> environment_name("v0.5.23")
    'integration-v0_5_23'
    """
    return f"integration-{revision.replace('.', '_')}"


def check_environments(root: Path, revisions: tuple[str, ...]) -> Iterator[Finding]:
    """Yield each supported release without an environment, and each environment without one."""
    path = root / TOX
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    try:
        defined = defined_environments(text)
    except configparser.Error as error:
        yield Finding(TOX, 1, "tox", f"cannot be read: {error}")
        return
    wanted = {environment_name(name): name for name in revisions}
    for name, revision in wanted.items():
        if name not in defined:
            yield Finding(TOX, 1, "tox", f"there is no environment {name} for {revision}")
    for name in sorted(defined):
        if name.startswith(_PREFIX) and name not in wanted:
            what = f"{name} is for a release that revisions.toml does not support"
            yield Finding(TOX, _line(text, name), "tox", what)


def defined_environments(text: str) -> set[str]:
    """Return the environments that a ``tox.ini`` defines by a section or in its list."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    listed = parser.get("tox", "env_list", fallback="").replace("\n", ",")
    names = re.split(r",(?![^{]*\})", listed)
    names += [name.removeprefix(_SECTION) for name in parser.sections() if _SECTION in name]
    expanded = itertools.chain.from_iterable(map(_expand, names))
    return {name.strip() for name in expanded if name.strip()}


def _expand(name: str) -> Iterator[str]:
    """Yield what a generative name such as ``integration-v{0_5_22,0_5_23}`` stands for."""
    match = _CHOICE.search(name)
    if match is None:
        yield name
        return
    for choice in match[1].split(","):
        yield from _expand(name[: match.start()] + choice.strip() + name[match.end() :])


def _line(text: str, name: str) -> int:
    """Return the line that defines ``name``, as far as its version can be found in one."""
    version = name.removeprefix(_PREFIX)
    for number, line in enumerate(text.splitlines(), 1):
        if version in line:
            return number
    return 1
