"""Where the patches hook SGLang is found in the sources, in whatever form they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.context import ROOT
from patchstack.errors import ToolError
from patchstack.seam import Hook, Site, find_site, idle, read_hooks, unhooked

SOURCE = """\
import os

if os.name:
    FAST = True


def plain(a, *, b: int = 1) -> str:
    def inner(): ...
    return "plain"


class Pool(Base):
    size: int
    name = "x"

    async def load(self, layer): ...

    @property
    def pinned(self):
        self.pin = True  # def other(): ...
        return self.pin


class Empty: ...
"""


def hook(symbol: str, line: str = "") -> Hook:
    return Hook("slug", "srt/file.py", symbol, "used", line)


@pytest.mark.parametrize(
    ("symbol", "line", "site"),
    [
        ("plain", "", Site(7, "(a, *, b: int=1) -> str")),
        ("plain.inner", "", Site(8, "()")),
        ("Pool", "", Site(12, "size")),
        ("Empty", "", Site(24, "no fields of its own")),
        ("Pool.load", "", Site(16, "(self, layer)")),
        ("Pool.pinned", "self.pin =", Site(20, "(self)")),
        ("Pool", "self.pin =", Site(20, "size")),
        ("", "if os.name", Site(3, "")),
        ("plain", "self.pin =", None),
        ("", "other", None),
        ("other", "", None),
        ("Pool.plain", "", None),
        ("Pool.size", "", None),
    ],
)
def test_a_place(symbol: str, line: str, site: Site | None) -> None:
    assert find_site(SOURCE, hook(symbol, line)) == site


def test_a_hook_names_something() -> None:
    with pytest.raises(ValueError, match="neither a symbol nor a line"):
        hook("")


@pytest.mark.parametrize(
    "text", ["", "hooks = 1", "[[hooks]]\nfile = 1", '[[hooks]]\nfile = "x"', "[[hooks]\n"]
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "seam.toml").write_text(text)
    with pytest.raises(ToolError, match=r"seam\.toml cannot be used.*git checkout"):
        read_hooks(tmp_path)


def test_what_has_no_hook() -> None:
    hooks = (hook("a"), Hook("slug", "srt/other.py", "b", "used"))
    path = "python/sglang/srt/file.py"
    assert list(unhooked(hooks, [("slug", path)])) == []
    assert list(unhooked(hooks, [("slug", path), ("next", path)])) == [("next", path)]


def test_hooks_of_a_patch_that_is_gone() -> None:
    hooks = (hook("a"), hook("b"), Hook("gone", "srt/other.py", "b", "used"))
    assert list(idle(hooks, ["slug", "other"])) == ["gone"]


def test_the_hooks_of_this_project_are_in_order() -> None:
    """The page groups them by patch."""
    hooks = read_hooks(ROOT / "patches")
    slugs = [found.patch for found in hooks]
    assert slugs == sorted(slugs, key=slugs.index)
    assert len(set(hooks)) == len(hooks)
