"""A hostile user around every test, and a world whose slow parts are made once.

The user's git is configured against us in every way that is known to change what git writes, and
the environment points git at a repository that must stay as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apply
import export
import pytest
from clean_world import write_clean_project
from rebase_world import RebaseWorld, write_rebase_project
from stack_world import (
    DIST_INFO,
    GENERATED,
    SOURCES,
    WHEEL,
    World,
    copy_tree,
    git,
    snapshot,
    three_patches,
    tree_id,
    write_project,
    write_revisions,
    write_wheel,
)

from patchstack.context import Context
from patchstack.gitenv import isolate

pytest_plugins = ("script_world", "upstream_world")

HOSTILE = """\
[user]
    useConfigOnly = true
[commit]
    gpgSign = true
[tag]
    gpgSign = true
[gpg]
    program = /bin/false
[core]
    hooksPath = {home}/hooks
    autocrlf = true
    eol = crlf
    safecrlf = true
    attributesFile = {home}/attributes
    excludesFile = {home}/ignore
    fileMode = false
    quotePath = false
    abbrev = 5
    fsmonitor = {home}/hooks/post-checkout
    sparseCheckout = true
    splitIndex = true
    untrackedCache = true
    pager = /bin/false
    editor = /bin/false
[init]
    templateDir = {home}/template
    defaultBranch = "odd"
    defaultObjectFormat = sha256
[diff]
    noprefix = true
    mnemonicPrefix = true
    renames = copies
    algorithm = patience
    context = 9
    interHunkContext = 7
    suppressBlankEmpty = true
    external = /bin/false
    orderFile = {home}/order
    indentHeuristic = false
    relative = true
    submodule = log
[apply]
    whitespace = error-all
    ignoreWhitespace = change
[format]
    signature = "a signature"
    subjectPrefix = "ODD"
    numbered = true
    attach = true
    signOff = true
    thread = true
    to = someone@example.org
    cc = someone@example.org
    from = true
    headers = "X-Odd: yes\\n"
    pretty = oneline
    useAutoBase = true
    coverLetter = true
    notes = true
    mboxrd = true
    noprefix = true
    encodeEmailHeaders = false
[mailinfo]
    scissors = true
[i18n]
    commitEncoding = ISO-8859-1
    logOutputEncoding = ISO-8859-1
[log]
    showSignature = true
    mailmap = true
    date = relative
    decorate = full
[color]
    ui = always
[trailer]
    separators = "="
    where = start
[fetch]
    fsckObjects = true
[protocol]
    allow = never
[gc]
    auto = 1
"""
HOOKS = ("pre-commit", "commit-msg", "post-checkout", "reference-transaction", "pre-applypatch")


@pytest.fixture(scope="session")
def user_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the home of a user whose every git setting is against us."""
    home = tmp_path_factory.mktemp("home")
    for folder in (home / "hooks", home / "template" / "hooks"):
        folder.mkdir(parents=True)
        for name in HOOKS:
            (folder / name).write_text("#!/bin/sh\nexit 1\n")
            (folder / name).chmod(0o755)
    (home / "attributes").write_text("* text eol=crlf diff=odd ident\n")
    (home / "ignore").write_text("*\n")
    (home / "order").write_text("*.txt\n")
    (home / ".gitconfig").write_text(HOSTILE.replace("{home}", str(home)))
    xdg = home / "xdg" / "git"
    xdg.mkdir(parents=True)
    (xdg / "attributes").write_text("* -diff\n")
    (xdg / "ignore").write_text("*\n")
    return home


@pytest.fixture(scope="session")
def decoy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository that the environment points git at."""
    path = tmp_path_factory.mktemp("decoy") / "decoy"
    git(path.parent, "init", "--quiet", "decoy")
    (path / "file").write_text("decoy\n")
    git(path, "add", "file")
    git(path, "commit", "--quiet", "--message=decoy")
    return path


@pytest.fixture(autouse=True)
def hostile(
    user_home: Path, decoy: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None]]:
    """Set the user's environment, and check that the decoy was left alone.

    Returns what sets it again: the tools clean the environment of their own process.
    """
    variables = {
        "HOME": str(user_home),
        "XDG_CONFIG_HOME": str(user_home / "xdg"),
        "GIT_DIR": str(decoy / ".git"),
        "GIT_WORK_TREE": str(decoy),
        "GIT_INDEX_FILE": str(decoy / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(decoy / ".git" / "objects"),
        "GIT_AUTHOR_DATE": "1 Jan 2001 00:00:00 +0000",
        "GIT_COMMITTER_NAME": "Somebody Else",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_EXTERNAL_DIFF": "/bin/false",
        "GIT_DIFF_OPTS": "--unified=1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.abbrev",
        "GIT_CONFIG_VALUE_0": "4",
        "GIT_CONFIG_PARAMETERS": "'diff.noprefix'='true'",
    }

    def set_all() -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    before = snapshot(decoy)
    set_all()
    yield set_all
    assert snapshot(decoy) == before, "git was led to the wrong repository"


@pytest.fixture
def isolated(hostile: Callable[[], None]) -> None:
    """Do what the tools' ``main`` does first, for a test that goes round it."""
    isolate(os.environ)


@dataclass(frozen=True)
class Template:
    """What every world starts as a copy of."""

    folder: Path

    @property
    def index(self) -> Path:
        """What pip finds releases in."""
        return self.folder / "index"


@pytest.fixture(scope="session")
def fresh_template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Return a project without patches and the index that serves its release."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "index").mkdir()
    wheel = write_wheel(folder / "index" / WHEEL, {**SOURCES, **GENERATED, **DIST_INFO})
    write_project(folder / "project")
    write_revisions(folder / "project" / "patches", tree_id(folder, SOURCES), [wheel])
    return Template(folder)


@pytest.fixture(scope="session")
def patched_template(
    fresh_template: Template, tmp_path_factory: pytest.TempPathFactory
) -> Template:
    """Return a project with three patches and a cache that holds the base."""
    folder = tmp_path_factory.mktemp("patched")
    copy_tree(fresh_template.folder, folder)
    root = folder / "project"
    context = Context(root, root / "patches", folder / "cache")
    tree = folder / "tree"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder / "index"))
        assert apply.main(["--rev", "pin", "--target", str(tree)], context) == 0
        three_patches(tree)
        assert export.main(["--rev", "pin", "--tree", str(tree)], context) == 0
    return Template(folder)


@pytest.fixture(scope="session")
def clean_template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Return a project with two releases in which ``tools/check.py`` finds nothing."""
    folder = tmp_path_factory.mktemp("clean")
    write_clean_project(folder)
    return Template(folder)


@pytest.fixture
def make_world(
    hostile: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[[Template], World]:
    """Return what makes a world out of a template."""

    def make(template: Template) -> World:
        root, index, cache = tmp_path / "project", tmp_path / "index", tmp_path / "cache"
        copy_tree(template.folder / "project", root)
        copy_tree(template.index, index)
        copy_tree(template.folder / "cache", cache)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(index))
        return World(root, index, Context(root, root / "patches", cache), capsys, hostile)

    return make


@pytest.fixture
def fresh(make_world: Callable[[Template], World], fresh_template: Template) -> World:
    """Return a world without patches, with an empty cache."""
    return make_world(fresh_template)


@pytest.fixture
def world(make_world: Callable[[Template], World], patched_template: Template) -> World:
    """Return a world with three patches, whose cache holds the wheel and the base."""
    return make_world(patched_template)


@pytest.fixture
def clean(make_world: Callable[[Template], World], clean_template: Template) -> World:
    """Return a world in which ``tools/check.py`` finds nothing; its cache holds both releases."""
    return make_world(clean_template)


@pytest.fixture(scope="session")
def rebase_template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Return a project whose series waits for releases to move onto."""
    folder = tmp_path_factory.mktemp("rebase")
    write_rebase_project(folder)
    return Template(folder)


@pytest.fixture
def moving(make_world: Callable[[Template], World], rebase_template: Template) -> RebaseWorld:
    """Return a world whose releases go on."""
    return RebaseWorld(**vars(make_world(rebase_template)))
