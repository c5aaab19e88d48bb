"""SGLang's repository, small: a tag, more files than the wheel has, every trap for a checkout."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from stack_world import NAME, SOURCES, World, git

# Upstream's own attributes would change what is checked out, if they could.
OTHERS = {
    ".gitattributes": b"* text=auto eol=crlf\n*.md ident\n*.py filter=lfs\n",
    "README.md": b"# SGLang $Id$\n",
    "python/pyproject.toml": b'[project]\nname = "sglang"\ndynamic = ["version"]\n',
    "test/test_it.py": b"mixed\r\nline\nends\r\n",
}
EXECUTABLE = "python/sglang/run.sh"


@dataclass(frozen=True)
class Upstream:
    """A repository with the release's tag.

    Parameters
    ----------
    path
        Its working tree.
    """

    path: Path

    @property
    def url(self) -> str:
        """Its address, for git's own transport."""
        return f"file://{self.path}"

    @property
    def tagged(self) -> str:
        """The commit of the tag."""
        return git(self.path, "rev-parse", f"{NAME}^{{commit}}")

    def commit(self, files: dict[str, bytes | None], text: str = "Change") -> str:
        """Commit files byte for byte; None deletes one."""
        for name, content in files.items():
            path = self.path / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        # Its attributes are in force for others, not while the traps are set.
        (self.path / ".git" / "info" / "attributes").write_text("* -text -ident -filter\n")
        git(self.path, "add", "--all", "--force", ".")
        git(self.path, "commit", "--quiet", "--allow-empty", f"--message={text}")
        return git(self.path, "rev-parse", "HEAD")

    def tag(self, name: str = NAME) -> None:
        """Put the release's tag on what is checked out, moved if it is there."""
        git(self.path, "tag", "--force", "--annotate", f"--message={name}", name)


def make_upstream(path: Path) -> Upstream:
    """Make the repository, with history before the tag and after it."""
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main", ".")
    git(path, "config", "uploadpack.allowFilter", "true")
    upstream = Upstream(path)
    upstream.commit({"old.txt": b"of an earlier release\n"}, "Before")
    files = {f"python/{name}": content for name, content in SOURCES.items()}
    (path / EXECUTABLE).parent.mkdir(parents=True)
    (path / EXECUTABLE).touch(0o755)
    (path / "link").symlink_to("README.md")
    upstream.commit({**files, **OTHERS, "old.txt": None}, "Release")
    upstream.tag()
    upstream.commit({"python/sglang/blocks.py": b"later\n"}, "After")
    return upstream


@pytest.fixture(scope="session")
def upstream_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the repository that every test starts from a copy of."""
    return make_upstream(tmp_path_factory.mktemp("upstream") / "sglang").path


@pytest.fixture
def upstream(upstream_template: Path, tmp_path: Path) -> Upstream:
    """Return an upstream of the test's own."""
    path = tmp_path / "upstream"
    shutil.copytree(upstream_template, path, symlinks=True)
    return Upstream(path)


@pytest.fixture
def reachable(
    world: World,
    upstream: Upstream,
    user_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Upstream:
    """Let the user's configuration, hostile as it is, lead SGLang's address to the upstream."""
    home = tmp_path / "home"
    home.mkdir()
    text = (user_home / ".gitconfig").read_text()
    text += '[protocol "file"]\n    allow = always\n'
    text += f'[url "{upstream.url}"]\n    insteadOf = https://github.com/sgl-project/sglang.git\n'
    (home / ".gitconfig").write_text(text)

    before = world.before_each_run

    def set_home() -> None:
        before()
        monkeypatch.setenv("HOME", str(home))

    world.before_each_run = set_home
    return upstream
