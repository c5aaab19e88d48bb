"""``--source git``: the release's tag in a real repository, fetched as the user fetches."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from stack_world import NAME, PYTHON, SOURCES, World, commit, git, message, series_files, snapshot
from upstream_world import OTHERS, Upstream

LOCK = "lock.toml"


def from_git(world: World, *arguments: str) -> Path:
    """Apply onto the tag, which must succeed, and return the tree."""
    return world.applied("--source", "git", *arguments)


def recorded(world: World) -> dict[str, str]:
    """Return what the lock says of the tag."""
    return tomllib.loads((world.series / LOCK).read_text())["upstream"]


def test_the_tree_is_the_tag_and_the_patches(world: World, reachable: Upstream) -> None:
    tree = from_git(world)
    assert git(tree, "rev-list", "--count", "HEAD") == "4"
    assert git(tree, "rev-parse", "HEAD~3") == reachable.tagged
    for name, content in OTHERS.items():
        assert (tree / name).read_bytes() == content, "upstream's attributes change nothing"
    assert (tree / "link").is_symlink()
    assert (tree / PYTHON / "crlf.txt").read_bytes() == b"one\r\nTWO\r\nthree\r\nfour\n"
    assert not (tree / "old.txt").exists()
    assert not (tree / PYTHON / "run.sh").exists(), "the last patch deletes it, executable or not"
    wheel = world.applied("--target", str(world.root / "wheel"))
    for path in (wheel / PYTHON).rglob("*"):
        if path.is_file():
            assert (tree / PYTHON / path.relative_to(wheel / PYTHON)).read_bytes() == (
                path.read_bytes()
            )


def test_json_says_what_it_is(world: World, reachable: Upstream) -> None:
    exact = world.apply("--json").json
    outcome = world.apply("--json", "--source", "git")
    result = outcome.json
    assert result["lock"] == "content"
    assert result["source"] == {
        "kind": "git",
        "url": "https://github.com/sgl-project/sglang.git",
        "tag": NAME,
        "commit": reachable.tagged,
    }
    assert result["base"]["commit"] == reachable.tagged
    assert result["head"]["commit"] != exact["head"]["commit"]
    assert "ids differ" in outcome.err
    for one, other in zip(result["patches"], exact["patches"], strict=True):
        assert one["patch_id"] == other["patch_id"]


def test_again_is_up_to_date_and_another_source_replaces(world: World, reachable: Upstream) -> None:
    tree = from_git(world)
    before = snapshot(tree)
    assert "up to date" in world.apply("--source", "git").err
    assert snapshot(tree) == before
    world.applied()
    assert not (tree / "README.md").exists()
    assert from_git(world) == tree
    assert (tree / "README.md").exists()


def test_content_is_fetched_once_and_only_that_of_the_tag(
    world: World, reachable: Upstream
) -> None:
    """Complaint row 26: no history, no content but the tag's, and nothing fetched on the way."""
    tree = from_git(world)
    shutil.rmtree(reachable.path)
    assert "up to date" in world.apply("--source", "git", "--offline").err
    clone = next(world.context.cache.glob("clone-*.git"))
    held = git(clone, "rev-list", "--objects", "--all", "--missing=print").splitlines()
    assert not [line for line in held if line.startswith("?")]
    assert git(clone, "rev-list", "--count", "--all") == "1"
    git(tree, "fsck", "--full", "--strict")
    assert git(tree, "rev-parse", "--is-shallow-repository") == "true"
    assert git(tree, "status", "--porcelain") == ""


def test_a_server_without_filters_is_as_good(world: World, reachable: Upstream) -> None:
    git(reachable.path, "config", "uploadpack.allowFilter", "false")
    assert git(from_git(world), "rev-list", "--count", "HEAD") == "4"


def test_an_address_is_taken_as_it_is(world: World, reachable: Upstream) -> None:
    result = world.apply("--json", "--source", f"git:{reachable.url}").json
    assert result["source"]["url"] == reachable.url


def test_a_bare_mirror_by_its_path(
    world: World, reachable: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complaint row 15: named by a relative path, whatever folder git runs in."""
    git(tmp_path, "clone", "--quiet", "--mirror", str(reachable.path), "mirror.git")
    monkeypatch.chdir(tmp_path)
    result = world.apply("--json", "--source", "git:mirror.git").json
    assert result["base"]["commit"] == reachable.tagged
    line = world.refused(world.apply("--source", "mirror.git"), 2, "git:")
    assert f"--source git:{tmp_path / 'mirror.git'}" in line


def test_the_fetch_has_the_users_variables(
    world: World, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Configuration in variables, and an ssh command, are the user's too."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec env -u GIT_CONFIG_COUNT git upload-pack '{upstream.path}'\n")
    ssh.chmod(0o755)
    before = world.before_each_run

    def set_variables() -> None:
        before()
        monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
        monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.ssh.allow")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")
        monkeypatch.setenv("GIT_CONFIG_KEY_1", "url.ssh://nowhere.invalid/x.insteadOf")
        monkeypatch.setenv("GIT_CONFIG_VALUE_1", "https://github.com/sgl-project/sglang.git")

    world.before_each_run = set_variables
    result = world.apply("--json", "--source", "git").json
    assert result["base"]["commit"] == upstream.tagged


def test_a_transport_that_the_user_forbids(world: World, upstream: Upstream) -> None:
    """The control of the tests above: without the user's consent nothing is fetched."""
    outcome = world.apply("--source", f"git:{upstream.url}")
    world.refused(outcome, 4, "transport 'file' not allowed")
    assert not world.target.exists()


@pytest.mark.parametrize("address", ["file:///nowhere", "git:", "../nowhere", "-x", "a\nb"])
def test_an_address_that_is_none(world: World, reachable: Upstream, address: str) -> None:
    world.refused(world.apply("--source", f"git:{address}"), 4, NAME, "cannot be fetched")


def test_a_password_is_not_shown(world: World, reachable: Upstream) -> None:
    address = "https://ann:secret@127.0.0.1:9/sglang.git"
    world.refused(world.apply("--source", f"git:{address}"), 4, "https://127.0.0.1:9/sglang.git")
    outcome = world.apply("--source", f"git:{address}")
    assert "secret" not in outcome.err
    clone = next(world.context.cache.glob("clone-*.git"))
    assert not any(b"secret" in content for _, content in snapshot(clone).values())


def test_a_repository_without_the_tag(world: World, reachable: Upstream) -> None:
    git(reachable.path, "tag", "--delete", NAME)
    world.refused(world.apply("--source", "git"), 4, f"has no tag {NAME}")


def test_offline_without_a_fetch_before(world: World, reachable: Upstream) -> None:
    world.refused(world.apply("--source", "git", "--offline"), 4, "without --offline")


def test_a_tag_that_is_not_the_release(world: World, reachable: Upstream) -> None:
    """Refused by the first file that differs, before the content of any file is fetched."""
    git(reachable.path, "checkout", "--quiet", NAME)
    reachable.commit({f"{PYTHON}/blocks.py": b"other\n", f"{PYTHON}/crlf.txt": b"other\n"})
    reachable.tag()
    outcome = world.apply("--source", "git")
    world.refused(outcome, 4, f"{PYTHON}/blocks.py", "0001-middle-block.patch", "and 1 more")
    clone = next(world.context.cache.glob("clone-*.git"))
    assert "blob" not in git(clone, "cat-file", "--batch-all-objects", "--batch-check")


@pytest.mark.parametrize("name", ["srt/new, with comma.py", "binary.dat"])
def test_a_file_that_a_patch_adds_is_there_already(
    world: World, reachable: Upstream, name: str
) -> None:
    git(reachable.path, "checkout", "--quiet", NAME)
    reachable.commit({f"{PYTHON}/{name}": b"upstream's own\n"})
    reachable.tag()
    world.refused(world.apply("--source", "git"), 4, name, "0002-odd-files.patch")


def test_what_no_patch_touches_may_differ(world: World, reachable: Upstream) -> None:
    """The control of the two tests above."""
    git(reachable.path, "checkout", "--quiet", NAME)
    reachable.commit({f"{PYTHON}/__init__.py": b"other\n"})
    reachable.tag()
    assert (from_git(world) / PYTHON / "__init__.py").read_bytes() == b"other\n"


def test_a_project_file_of_another_version(world: World, reachable: Upstream) -> None:
    git(reachable.path, "checkout", "--quiet", NAME)
    reachable.commit({"python/pyproject.toml": b'[project]\nversion = "9.9.8"\n'})
    reachable.tag()
    world.refused(world.apply("--source", "git"), 4, "is SGLang 9.9.8, not 9.9.9")


def test_no_wheel_from_a_repository(world: World, reachable: Upstream) -> None:
    world.refused(world.apply("--source", "git", "--wheel"), 2, "nothing compiled", "--source")


def test_export_refuses_a_tree_of_another_base(world: World, reachable: Upstream) -> None:
    tree = from_git(world)
    commit(tree, message("mine"), {f"{PYTHON}/mine.py": b"mine\n"})
    before = series_files(world.series)
    world.refused(world.export(), 4, "not the base")
    assert series_files(world.series) == before
    world.refused(world.apply(), 3, "commits of yours")


# --- the recorded commit -----------------------------------------------------------------------


def test_nothing_is_recorded_unasked(world: World, reachable: Upstream) -> None:
    before = snapshot(world.context.patches)
    from_git(world)
    assert snapshot(world.context.patches) == before


def test_the_commit_is_recorded_once(world: World, reachable: Upstream) -> None:
    files = series_files(world.series)
    from_git(world, "--record")
    assert recorded(world).keys() == {"tag", "commit", "first_seen"}
    assert recorded(world)["tag"] == NAME
    assert recorded(world)["commit"] == reachable.tagged
    after = series_files(world.series)
    assert {name for name in files if files[name] != after[name]} == {LOCK}
    from_git(world, "--record")
    assert series_files(world.series) == after
    assert "up to date" in world.apply("--target", str(world.target), "--source", "git").err
    assert world.apply("--target", str(world.root / "wheel")).code == 0


def test_export_keeps_what_is_recorded(world: World, reachable: Upstream) -> None:
    from_git(world, "--record")
    before = recorded(world)
    tree = world.applied()
    commit(tree, message("fourth"), {f"{PYTHON}/fourth.py": b"4\n"})
    world.exported()
    assert recorded(world) == before
    assert "fourth" in (world.series / LOCK).read_text()


def test_nothing_is_recorded_of_a_failure(world: World, reachable: Upstream) -> None:
    world.applied()
    (world.target / "mine").write_text("mine\n")
    before = snapshot(world.context.patches)
    world.refused(world.apply("--source", "git", "--record"), 3, "mine (untracked)")
    assert snapshot(world.context.patches) == before


def test_record_wants_a_tag_and_a_lock(world: World, fresh: World) -> None:
    fresh.refused(fresh.apply("--record"), 2, "--source git")


def test_record_wants_a_series(fresh: World) -> None:
    fresh.refused(fresh.apply("--source", "git", "--record"), 2, "no lock yet", "--record")


def moved(upstream: Upstream, *, keep: bool) -> str:
    """Move the tag; let the old commit go, unless it is to be kept."""
    old = upstream.tagged
    git(upstream.path, "checkout", "--quiet", "--orphan", "other")
    new = upstream.commit({f"{PYTHON}/__init__.py": b"moved\n"}, "Moved")
    upstream.tag()
    if not keep:
        git(upstream.path, "branch", "--quiet", "--delete", "--force", "main")
        git(upstream.path, "reflog", "expire", "--all", "--expire=now")
        git(upstream.path, "gc", "--quiet", "--prune=now")
        git(upstream.path, "cat-file", "-e", old, code=1)
    assert new != old
    return new


@pytest.mark.parametrize("cached", [True, False])
def test_a_moved_tag_whose_commit_can_be_had(
    world: World, reachable: Upstream, tmp_path: Path, cached: bool
) -> None:
    """Complaint row 39: told aloud, and the recorded commit is applied."""
    old = reachable.tagged
    from_git(world, "--record")
    new = moved(reachable, keep=True)
    if not cached:
        world = world.other_cache(tmp_path / "cache2")
    outcome = world.apply("--json", "--source", "git")
    assert outcome.code == 0, outcome.err
    assert f"warning: tag {NAME}" in outcome.err
    assert f"moved from {old[:12]} to {new[:12]}" in outcome.err
    assert outcome.json["base"]["commit"] == outcome.json["source"]["commit"] == old
    assert recorded(world)["commit"] == old


def test_a_moved_tag_whose_commit_is_gone(
    world: World, reachable: Upstream, tmp_path: Path
) -> None:
    from_git(world, "--record")
    new = moved(reachable, keep=False)
    other = world.other_cache(tmp_path / "cache2")
    outcome = other.apply("--source", "git")
    world.refused(outcome, 4, "moved from", new[:12], "cannot be had any more")
    # The cache that has it goes on with it.
    assert "warning: tag" in world.apply("--source", "git").err


def test_a_deleted_tag_whose_commit_can_be_had(world: World, reachable: Upstream) -> None:
    from_git(world, "--record")
    git(reachable.path, "tag", "--delete", NAME)
    assert f"tag {NAME} of" in world.apply("--source", "git").err


def test_a_tag_that_did_not_move_says_nothing(world: World, reachable: Upstream) -> None:
    """The control of the tests above."""
    from_git(world, "--record")
    reachable.commit({"more.txt": b"more\n"})
    assert "warning" not in world.apply("--source", "git").err


@pytest.mark.parametrize(
    ("old", "new"),
    [(f'tag = "{NAME}"', 'tag = "v1.2.3"'), ("first_seen", "seen"), ('commit = "', 'commit = "x')],
)
def test_a_record_that_cannot_be_read(
    world: World, reachable: Upstream, old: str, new: str
) -> None:
    from_git(world, "--record")
    lock = world.series / LOCK
    head, table, rest = lock.read_text().partition("[upstream]")
    lock.write_text(head + table + rest.replace(old, new, 1))
    world.refused(world.apply("--source", "git"), 4, LOCK, "cannot be read")


def test_the_sources_are_the_release(upstream: Upstream) -> None:
    """The small upstream's tag holds what the small wheel holds."""
    for name, content in SOURCES.items():
        assert git(upstream.path, "show", f"{NAME}:python/{name}").encode() in content
