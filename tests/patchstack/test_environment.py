"""Where and how a tool is started: hooks, homes, owners, odd paths, read-only and full disks."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from script_world import GIT, Scripts, make_scripts, no_leavings
from stack_world import (
    NAME,
    PYTHON,
    Outcome,
    World,
    commit,
    copy_tree,
    git,
    message,
    series_files,
    snapshot,
)
from upstream_world import Upstream

from patchstack.context import ROOT, Context
from patchstack.errors import ToolError

ROOT_USER = os.geteuid() == 0
# Without this capability, permissions hold for root as for everybody.
NO_OVERRIDE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def amend(tree: Path) -> None:
    """Leave in a tree what export has to write."""
    commit(tree, message("fourth"), {f"{PYTHON}/fourth.py": b"4\n" * 5000})


# --- where it is started -----------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/", "tools/patchstack", "patches", "build"])
def test_started_from_any_folder(scripts: Scripts, place: str) -> None:
    """Complaint row 15."""
    (scripts.world.root / "build").mkdir()
    outcome = scripts.run("apply.py", "--rev", "pin", cwd=scripts.world.root / place)
    assert (outcome.code, outcome.out) == (0, f"{scripts.world.target}\n")
    outcome = scripts.run("export.py", "--rev", "pin", cwd=scripts.world.root / place)
    assert outcome.code == 0, outcome.err


def test_a_relative_target_is_relative_to_the_user(scripts: Scripts) -> None:
    outcome = scripts.run("apply.py", "--rev", "pin", "--target", "a/../b", "-q")
    assert outcome.out == f"{scripts.folder / 'b'}\n"


def test_a_folder_that_is_gone(scripts: Scripts, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    enter = ("sh", "-c", f"rmdir '{gone}' && exec \"$@\"", "sh")
    outcome = scripts.run("apply.py", "--rev", "pin", cwd=gone, before=enter)
    assert outcome.code == 0, outcome.err
    assert git(scripts.world.target, "rev-list", "--count", "HEAD") == "4"


def test_a_project_with_spaces_and_more_in_its_path(world: World, tmp_path: Path) -> None:
    """Every path of it: the project, the cache and the target; a shell would expand them."""
    root = tmp_path / "a project $HOME ~ 'é"
    copy_tree(world.root, root)
    context = Context(root, root / "patches", tmp_path / 'the cache $PATH \\ "')
    odd = World(root, world.index, context, world.capture, world.before_each_run)
    scripts = make_scripts(odd, tmp_path / "programs")
    outcome = scripts.run("apply.py", "--rev", "pin", "--wheel")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[0] == str(odd.target)
    amend(odd.target)
    outcome = scripts.run("export.py", "--rev", "pin")
    assert outcome.code == 0, outcome.err
    assert "0004-fourth.patch" in series_files(odd.series)
    no_leavings(odd)


@pytest.mark.parametrize(
    "settings",
    [
        {"core.autocrlf": "true"},
        {"core.autocrlf": "true", "core.eol": "crlf"},
        {"core.attributesFile": "attributes"},
    ],
    ids=["autocrlf", "eol", "attributes"],
)
def test_a_clone_that_converts_applies_and_exports(
    world: World, tmp_path: Path, settings: dict[str, str]
) -> None:
    """Complaint row 2: git may rewrite what it checks out, but not what is applied."""
    (tmp_path / "attributes").write_text("* text eol=crlf\n")
    settings = {key: value.replace("attr", f"{tmp_path}/attr") for key, value in settings.items()}
    shutil.copy(ROOT / ".gitattributes", world.root)
    git(world.root, "init", "--quiet")
    commit(world.root, "project\n", {})
    clone = tmp_path / "clone"
    options = [word for item in settings.items() for word in ("--config", "=".join(item))]
    # The settings of `git` here come after the clone's own, so they are left out.
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    clean |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def plain(*arguments: str) -> str:
        done = subprocess.run(
            [GIT, *arguments], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True
        )
        return done.stdout

    plain("clone", "--quiet", *options, str(world.root), str(clone))
    assert b"\r\n" in (clone / "README.md").read_bytes(), "the clone does convert"
    context = Context(clone, clone / "patches", world.context.cache)
    converted = World(clone, world.index, context, world.capture, world.before_each_run)
    head = world.apply("--json").json["head"]
    assert converted.apply("--json").json["head"] == head
    outcome = converted.export()
    assert outcome.code == 0, outcome.err
    assert "up to date" in outcome.err
    assert plain("-C", str(clone), "status", "--porcelain", "patches") == ""


def test_started_by_a_hook_of_another_repository(scripts: Scripts, tmp_path: Path) -> None:
    """Complaint row 30: git tells a hook which repository and which index it works on."""
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "--quiet")
    commit(outer, "first\n", {"a": b"a\n", "b": b"b\n"})
    (outer / "a").write_bytes(b"changed\n")
    (outer / "b").write_bytes(b"changed\n")
    hook = outer / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    tool, cache = scripts.world.root / "tools" / "apply.py", scripts.world.context.cache
    hook.write_text(
        f"#!/bin/sh\nenv | grep ^GIT_INDEX_FILE= > '{tmp_path}/told' || exit 7\n"
        f"HIQCACHE_CACHE='{cache}' exec '{sys.executable}' '{tool}' --rev pin -q\n"
    )
    hook.chmod(0o755)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    clean |= {"GIT_CONFIG_GLOBAL": os.devnull}
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    done = subprocess.run(
        [GIT, *who, "commit", "--quiet", "--message=second", "a"], cwd=outer, env=clean,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "told").read_text().startswith("GIT_INDEX_FILE=")
    assert git(outer, "show", "--format=", "--name-only", "HEAD") == "a"
    assert git(outer, "status", "--porcelain") == " M b"
    assert git(scripts.world.target, "rev-list", "--count", "HEAD") == "4"


def test_a_target_in_another_repository(scripts: Scripts) -> None:
    """Complaint row 28: git could take the outer repository for the tree's."""
    world = scripts.world
    git(world.root, "init", "--quiet")
    commit(world.root, "outer\n", {f"build/{NAME}/note": b"of the outer repository\n"})
    (world.target / "note").unlink()
    before = snapshot(world.root / ".git")
    outcome = scripts.run("apply.py", "--rev", "pin", cwd=world.root)
    assert outcome.code == 0, outcome.err
    assert (world.target / PYTHON / "blocks.py").read_bytes().splitlines()[4] == b"  changed"
    assert git(world.target, "rev-parse", "--show-toplevel") == str(world.target)
    assert snapshot(world.root / ".git") == before


def test_hooks_that_forbid_everything_are_not_run(
    world: World, reachable: Upstream, user_home: Path
) -> None:
    """Complaint row 31: the user's hooks, in a fetch too, and hooks put into our repositories."""
    assert (user_home / "hooks" / "reference-transaction").exists()
    tree = world.applied("--source", "git")
    clone = next(world.context.cache.glob("clone-*.git"))
    for repository in (tree / ".git", clone, world.context.repository):
        (repository / "hooks").mkdir(exist_ok=True)
        for name in ("reference-transaction", "post-checkout", "pre-applypatch"):
            hook = repository / "hooks" / name
            hook.write_text("#!/bin/sh\nexit 1\n")
            hook.chmod(0o755)
    shutil.rmtree(clone / "refs" / "tags")  # so that it is written again
    assert "up to date" in world.apply("--source", "git").err
    assert world.apply("--target", str(world.root / "wheel")).code == 0


# --- who starts it -----------------------------------------------------------------------------


def test_without_a_home(scripts: Scripts) -> None:
    for home in (None, "", "/nonexistent"):
        outcome = scripts.run("apply.py", "--rev", "pin", HOME=home, XDG_CONFIG_HOME=None)
        assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("home", [None, ""])
def test_where_the_cache_is_without_a_home(
    monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    """The system knows a home of everybody whom it knows; an empty one is none."""
    for name in ("HIQCACHE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    name = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout
    expected = Path(f"~{name.strip()}").expanduser() / ".cache" / "hiqcache"
    assert Context.default().cache == expected


@pytest.mark.skipif(not ROOT_USER, reason="only root can become nobody at all")
def test_nobody_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a number that no list of users has."""
    for name in ("HIQCACHE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def look() -> str:
        os.setuid(54321)
        try:
            return str(Context.default().cache)
        except ToolError as error:
            return str(error)

    assert "HIQCACHE_CACHE" in in_child(look)
    monkeypatch.setenv("HIQCACHE_CACHE", "/own")
    assert in_child(look) == "/own"


def in_child(work: Callable[[], str]) -> str:
    """Do ``work`` in a forked child and return what it returned."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(theirs, work().encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def test_a_repository_of_somebody_else(world: World, reachable: Upstream) -> None:
    """Complaint row 32: git refuses to serve it, and the line says so."""
    before = world.before_each_run

    def set_owner() -> None:
        before()
        os.environ["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"

    world.before_each_run = set_owner
    try:
        outcome = world.apply("--source", f"git:{reachable.path}")
        world.refused(outcome, 4, "dubious ownership", str(reachable.path))
        # Nothing of it is run where it is read in place, so that is allowed.
        git(reachable.path, "checkout", "--quiet", "--detach", NAME)
        assert world.apply("--source", str(reachable.path)).code == 0
    finally:
        os.environ.pop("GIT_TEST_ASSUME_DIFFERENT_OWNER", None)


@pytest.mark.skipif(not ROOT_USER, reason="only root can give a file away")
def test_a_checkout_of_somebody_else(world: World, upstream: Upstream) -> None:
    git(upstream.path, "checkout", "--quiet", "--detach", NAME)
    for path in (upstream.path, *upstream.path.rglob("*")):
        os.chown(path, 54321, 54321, follow_symlinks=False)
    assert world.apply("--source", str(upstream.path)).code == 0


# --- places that cannot be written -------------------------------------------------------------


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], Path]]:
    """Return what makes a folder read-only until the test ends."""
    if ROOT_USER and shutil.which("setpriv") is None:
        pytest.skip("root is held by no permission, and setpriv is missing")
    changed: list[Path] = []

    def make(folder: Path) -> Path:
        for path in (folder, *folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o555)
                changed.append(path)
        return folder

    yield make
    for path in changed:
        if path.exists():
            path.chmod(0o755)


def run_held(scripts: Scripts, tool: str, *arguments: str) -> Outcome:
    """Run a tool that permissions hold for."""
    before = NO_OVERRIDE if ROOT_USER else ()
    return scripts.run(tool, "--rev", "pin", *arguments, before=before)


def one_line(outcome: Outcome, code: int, *words: str) -> None:
    """Assert that a tool ended with one line that names the way out."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    last = outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err
    assert "; " in last, last
    for word in words:
        assert word in last, last


def test_a_read_only_place_for_the_target(
    scripts: Scripts, read_only: Callable[[Path], Path], tmp_path: Path
) -> None:
    (tmp_path / "place").mkdir()
    place = read_only(tmp_path / "place")
    for target in (place / "tree", place / "more" / "tree"):
        outcome = run_held(scripts, "apply.py", "--target", str(target))
        one_line(outcome, 2, "Permission denied", str(place), "--help")
    assert list(place.iterdir()) == []


def test_read_only_patches_are_enough_to_apply(
    scripts: Scripts, read_only: Callable[[Path], Path]
) -> None:
    read_only(scripts.world.context.patches)
    outcome = run_held(scripts, "apply.py")
    assert outcome.code == 0, outcome.err


def test_export_into_read_only_patches(scripts: Scripts, read_only: Callable[[Path], Path]) -> None:
    world = scripts.world
    amend(world.applied())
    before = snapshot(read_only(world.context.patches))
    one_line(run_held(scripts, "export.py"), 2, "Permission denied", "patches")
    assert snapshot(world.context.patches) == before


def test_a_read_only_cache(scripts: Scripts, read_only: Callable[[Path], Path]) -> None:
    """One that holds everything is enough; an empty one is refused."""
    world = scripts.world
    world.applied("--target", str(world.root / "first"))
    read_only(world.context.cache)
    outcome = run_held(scripts, "apply.py")
    assert outcome.code == 0, outcome.err
    empty = world.root / "empty"
    empty.mkdir()
    read_only(empty)
    before = NO_OVERRIDE if ROOT_USER else ()
    outcome = scripts.run("apply.py", "--rev", "pin", before=before, HIQCACHE_CACHE=str(empty))
    one_line(outcome, 2, "Permission denied", str(empty), "HIQCACHE_CACHE")


def test_a_read_only_tree_is_exported(scripts: Scripts, read_only: Callable[[Path], Path]) -> None:
    world = scripts.world
    amend(world.applied())
    read_only(world.target)
    outcome = run_held(scripts, "export.py")
    assert outcome.code == 0, outcome.err


def test_a_read_only_tree_is_not_replaced(
    scripts: Scripts, read_only: Callable[[Path], Path]
) -> None:
    world = scripts.world
    world.applied()
    git(world.target, "checkout", "--quiet", "--detach", "HEAD~1")
    git(world.target, "update-ref", "refs/hiqcache/head", "HEAD")
    before = snapshot(world.target)
    read_only(world.root / "build")
    one_line(run_held(scripts, "apply.py"), 2, "Permission denied", str(world.root / "build"))
    assert {path: found[1] for path, found in snapshot(world.target).items()} == {
        path: found[1] for path, found in before.items()
    }


# --- disks that are full -----------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 200, 2000, 9000])
@pytest.mark.parametrize("tool", ["apply", "apply, empty cache", "export"])
def test_no_file_may_grow(world: World, tmp_path: Path, tool: str, size: int) -> None:
    """``ulimit -f``: the kernel kills a git that writes more; Python gets an error."""
    if tool == "export":
        amend(world.applied())
    elif tool == "apply, empty cache":
        world = world.other_cache(tmp_path / "empty")
    before = snapshot(world.root)
    run = world.export if tool == "export" else world.apply

    def work() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        outcome = run()
        return f"{outcome.code}\n{outcome.err}"

    code, _, said = in_child(work).partition("\n")
    if code != "0":  # the largest size is enough for some
        outcome = Outcome(int(code), "", said)
        if "pip cannot fetch" in said:
            one_line(outcome, 4, "File too large", "the disk")
        else:
            one_line(outcome, 2, "ulimit -f")
        assert snapshot(world.root) == before
        no_leavings(world)
    assert size > 2000 or code != "0"
    outcome = run()
    assert outcome.code == 0, outcome.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return what makes a disk of a given size."""
    mounted: list[Path] = []

    def make(size: str) -> Path:
        place = tmp_path / "disk"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
        if not ROOT_USER or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a small disk needs a user who may mount one")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def fill(place: Path, leave: int) -> None:
    """Fill a disk but for ``leave`` bytes."""
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    (place / "ballast").write_bytes(b"\0" * max(free - leave, 0))


@pytest.mark.parametrize("leave", [0, 8192, 65536])
def test_a_full_disk_for_the_target(
    world: World, small_disk: Callable[[str], Path], leave: int
) -> None:
    disk = small_disk("1m")
    target = disk / "tree"
    world.applied("--target", str(target))
    git(target, "checkout", "--quiet", "--detach", "HEAD~1")
    git(target, "update-ref", "refs/hiqcache/head", "HEAD")
    fill(disk, leave)
    before = snapshot(target)
    one_line(world.apply("--target", str(target)), 2, "free some space")
    assert snapshot(target) == before
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "tree"]
    (disk / "ballast").unlink()
    world.applied("--target", str(target))
    assert git(target, "rev-list", "--count", "HEAD") == "4"


@pytest.mark.parametrize("leave", [0, 4096, 16384, 65536])
def test_a_full_disk_for_the_cache(
    world: World, small_disk: Callable[[str], Path], leave: int
) -> None:
    disk = small_disk("1m")
    fill(disk, leave)
    other = world.other_cache(disk / "cache")
    one_line(other.apply(), 2, "free some space")
    assert not other.target.exists()
    (disk / "ballast").unlink()
    other.applied()
    no_leavings(other)


@pytest.mark.parametrize("leave", [0, 4096, 20480])
def test_a_full_disk_for_the_patches(
    world: World, small_disk: Callable[[str], Path], leave: int
) -> None:
    disk = small_disk("1m")
    patches = disk / "patches"
    copy_tree(world.context.patches, patches)
    context = Context(world.root, patches, world.context.cache)
    there = World(world.root, world.index, context, world.capture, world.before_each_run)
    amend(there.applied())
    fill(disk, leave)
    before = snapshot(patches)
    one_line(there.export(), 2, "No space left", "free some space")
    assert snapshot(patches) == before
    (disk / "ballast").unlink()
    assert "0004-fourth.patch" in there.exported()


def test_the_project_itself_is_what_the_scripts_are_made_of(scripts: Scripts) -> None:
    """The copy that the tests start is the code that they are about."""
    for path in (ROOT / "tools" / "patchstack").glob("*.py"):
        copy = scripts.world.root / "tools" / "patchstack" / path.name
        assert copy.read_bytes() == path.read_bytes()
