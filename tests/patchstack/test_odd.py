"""What is odd about a user's files, places and shell: one line tells, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rebase_world import RebaseWorld
from script_world import Scripts
from stack_world import NAME, PYTHON, World, commit, git, message

from patchstack import publish
from patchstack.context import ROOT
from patchstack.errors import Exit
from patchstack.gitenv import Answer
from patchstack.repository import GitError

LATIN = b"caf\xe9\n"
DEEP = "[" * 20_000 + "]" * 20_000
SCRIPTS = sorted(path.name for path in (ROOT / "tools").glob("*.py"))


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """Return a symbolic link that leads to itself."""
    path = tmp_path / "loop"
    path.symlink_to(path)
    return path


@pytest.mark.parametrize("below", ["", "tree"])
def test_a_target_that_leads_to_itself(world: World, loop: Path, below: str) -> None:
    world.refused(world.apply("--target", str(loop / below)), 2, str(loop), "leads to itself")
    world.refused(world.export("--tree", str(loop / below)), 2, str(loop), "leads to itself")


def test_wheels_and_a_report_that_lead_to_themselves(moving: RebaseWorld, loop: Path) -> None:
    moving.refused(moving.apply("--wheel", str(loop)), 2, "leads to itself")
    moving.refused(moving.apply("--source", str(loop)), 2, str(loop))
    report = ("--from", NAME, "--onto", NAME, "--report", str(loop))
    moving.refused(moving.rebase(*report), 2)


def test_a_cache_that_leads_to_itself(world: World, loop: Path) -> None:
    for cache in (loop, loop / "cache"):
        world.refused(world.other_cache(cache).apply(), 2, "leads to itself")


@pytest.mark.parametrize("name", ["README.md", "tox.ini", "docs/patches.md", "docs/more.md"])
def test_a_document_that_is_not_utf_8(clean: World, name: str) -> None:
    path = clean.root / name
    before = path.read_bytes() if path.exists() else b""
    path.write_bytes(before + LATIN)
    outcome = clean.check("--fast")
    assert outcome.code == 1, outcome.err
    line = before.count(b"\n") + 1
    assert f"{name}:{line}: text: is not UTF-8\n" in outcome.out


def test_a_document_that_is_written_anew(clean: World) -> None:
    """Not with what could not be read left out."""
    guide = clean.root / "docs" / "patches.md"
    guide.write_bytes(guide.read_bytes() + LATIN)
    clean.refused(clean.write_docs("--offline"), 2, str(guide), "is not UTF-8", "save it")
    assert guide.read_bytes().endswith(LATIN)


@pytest.mark.parametrize(
    "name", ["revisions.toml", "seam.toml", "history.toml", f"{NAME}/lock.toml"]
)
def test_toml_that_is_nested_deeply(clean: World, name: str) -> None:
    with (clean.context.patches / name).open("a") as file:
        file.write(f"\n[deep]\ndeep = {DEEP}\n")
    outcome = clean.check("--fast")
    assert outcome.code in (1, 4)
    assert "Traceback" not in outcome.err
    assert "nested too deeply" in outcome.out + outcome.err


def test_more_that_is_nested_deeply(moving: RebaseWorld) -> None:
    """A recorded resolution, a rebase that waits, and the project file of the wheel."""
    moving.release()
    moving.context.resolutions.mkdir()
    record = moving.context.resolutions / "deep.toml"
    record.write_text(f"deep = {DEEP}\n")
    outcome = moving.rebase("--from", NAME, "--onto", "v9.9.10")
    moving.refused(outcome, 4, "deep.toml", "nested too deeply", "--no-resolutions")
    record.unlink()
    moving.move("--edit", "flag", code=3)
    (moving.context.rebase / "state.json").write_text(DEEP)
    moving.refused(moving.rebase("--continue"), 3, "state.json", "--abort")
    (moving.root / "pyproject.toml").write_text(f"deep = {DEEP}\n")
    moving.refused(moving.apply("--wheel"), 2, "pyproject.toml")


def test_names_and_messages_that_are_not_utf_8(world: World) -> None:
    """A name is exported byte for byte; a message that mail cannot carry is refused."""
    tree = world.applied()
    odd = tree / PYTHON / os.fsdecode(b"caf\xe9.py")
    commit(tree, message("odd-name"), {str(odd.relative_to(tree)): b"ODD = 1\n"}, when=9)
    assert b'"b/python/sglang/caf\\351.py"' in b"".join(world.exported().values())
    world.refused(world.apply("--wheel"), 1, "no wheel can hold it")
    world.target.rename(world.root / "earlier")
    assert (world.applied() / odd.relative_to(tree)).read_bytes() == b"ODD = 1\n"
    git(tree := world.target, "mv", str(odd.relative_to(tree)), f"{PYTHON}/even.py")
    text = tree / ".git" / "MESSAGE"
    text.write_bytes(message("odd-words").encode().replace(b"Why it is so.", LATIN))
    git(tree, "commit", "--quiet", "--no-verify", "--cleanup=verbatim", "-F", str(text))
    world.refused(world.export(), 1, "loses its message")


def test_a_place_that_is_not_utf_8(scripts: Scripts, tmp_path: Path) -> None:
    """It is printed as the bytes that it is, for the shell to use."""
    target = tmp_path / os.fsdecode(b"caf\xe9")
    out = tmp_path / "out"
    into_file = ("bash", "-c", f'exec "$0" "$@" > {out}')
    outcome = scripts.run(
        "apply.py", "--rev", "pin", "--offline", "--target", str(target),
        before=into_file, PYTHONUTF8="1",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert out.read_bytes() == os.fsencode(target) + b"\n"


@pytest.mark.parametrize("tool", SCRIPTS)
def test_a_safe_path(tool: str, tmp_path: Path) -> None:
    """Python leaves the tools' own folder out of where it looks for modules."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / tool), "--help"],
        cwd=tmp_path, env={**os.environ, "PYTHONSAFEPATH": "1"}, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "said", ["detected dubious ownership", "insufficient permission for adding"]
)
def test_a_repository_that_git_may_not_use(tmp_path: Path, said: str) -> None:
    """It cannot be made again by removing it: it belongs to somebody else."""
    error = GitError("add", tmp_path / "x.git", Answer(128, b"", said), "remove it")
    assert error.exit_code == Exit.USAGE
    assert error.hint.startswith(f"get the right to {tmp_path / 'x.git'}, or name another place")


@pytest.mark.parametrize("value", ["0", "2", "raise", "odd"])
@pytest.mark.parametrize("program", [None, "/no/such/git"])
def test_gitpython_is_told_to_complain(scripts: Scripts, value: str, program: str | None) -> None:
    given = {"GIT_PYTHON_REFRESH": value, "GIT_PYTHON_GIT_EXECUTABLE": program}
    outcome = scripts.run("map.py", **given)
    assert (outcome.code, outcome.err) == (0, "")


FULL = 'exec "$0" "$@" > /dev/full'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [
        ("map.py",),
        ("map.py", "--json"),
        ("map.py", "--help"),
        ("check.py", "--fast"),
        ("export.py", "--rev", "pin", "-q"),
        ("apply.py", "--rev", "pin", "--offline", "-q"),
    ],
    ids=" ".join,
)
def test_standard_output_that_is_full(scripts: Scripts, arguments: tuple[str, ...]) -> None:
    scripts.world.applied()
    outcome = scripts.run(*arguments, before=("bash", "-c", FULL), PYTHONUNBUFFERED=None)
    line = "standard output cannot be written: No space left on device; make room there"
    assert outcome.code == 2
    assert outcome.err.startswith(f"{arguments[0]}: {line}") and outcome.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("map.py",), ("map.py", "--help")], ids=" ".join)
def test_standard_output_that_is_full_at_once(scripts: Scripts, arguments: tuple[str, ...]) -> None:
    """Where nothing is kept for later, it is the printing that fails."""
    outcome = scripts.run(*arguments, before=("bash", "-c", FULL), PYTHONUNBUFFERED="1")
    scripts.world.refused(outcome, 2, "No space left on device")


def said_by(body: str, *before: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a tool of one statement."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r})\n"
        f"from patchstack.command import run\ndef body():\n    {body}\n    return 0\n"
        "sys.exit(run('x', body))"
    )
    command = [*before, sys.executable, "-c", code]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, check=False
    )


def test_signs_that_cannot_be_written_and_names_that_are_no_text() -> None:
    done = said_by(r"print('a \u2026 \udcff b')", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, b"a \\u2026 \xff b\n")


def test_a_reader_that_has_seen_enough_is_told_in_one_line() -> None:
    done = said_by("raise BrokenPipeError(32, 'Broken pipe')")
    what = b"standard output cannot be written: Broken pipe"
    assert done.returncode == 2
    assert done.stderr == b"x: " + what + b"; make room there, or lead it elsewhere\n"


def test_too_little_memory_is_told_in_one_line() -> None:
    done = said_by("raise MemoryError")
    assert (done.returncode, done.stderr) == (2, b"x: there is not enough memory; ask for less\n")


def test_a_closed_standard_error_sends_nothing_to_standard_output() -> None:
    closed = ("sh", "-c", 'exec "$@" 2>&-', "sh")
    done = said_by("print('progress', file=sys.stderr)", *closed)
    assert (done.returncode, done.stdout) == (0, b"")


def test_standard_output_that_is_closed(scripts: Scripts) -> None:
    outcome = scripts.run("map.py", before=("bash", "-c", 'exec "$0" "$@" >&-'))
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize("unbuffered", [None, "1"])
def test_nothing_can_be_said_at_all(scripts: Scripts, unbuffered: str | None) -> None:
    nowhere = ("bash", "-c", f"{FULL} 2>&1")
    outcome = scripts.run("map.py", "no-such", before=nowhere, PYTHONUNBUFFERED=unbuffered)
    assert outcome.code == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_source_that_cannot_be_read(world: World, tmp_path: Path) -> None:
    wheel = tmp_path / next(world.index.glob("*.whl")).name
    wheel.write_bytes(b"")
    wheel.chmod(0)
    world.refused(world.apply("--source", str(wheel)), 2, str(wheel), "get the right to it")


def test_a_file_that_was_saved_while_the_tree_was_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the tools have looked, and before the new tree takes the place."""
    assert_kept(
        world, monkeypatch, lambda tree: (tree / "saved.py").write_text("mine\n"), "saved.py"
    )
    assert (world.target / "saved.py").read_text() == "mine\n"


def test_a_commit_that_was_made_while_the_tree_was_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(tree: Path) -> None:
        commit(tree, message("meanwhile"), {f"{PYTHON}/meanwhile.py": b"M = 1\n"})

    assert_kept(world, monkeypatch, act, "has commits of yours: [HiCache] Change meanwhile")
    assert (world.target / PYTHON / "meanwhile.py").read_text() == "M = 1\n"


def test_a_file_in_a_place_that_was_empty(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.target.mkdir(parents=True)
    monkeypatch.setattr(publish, "_make_tree", _meanwhile(world, lambda t: (t / "a").touch()))
    world.refused(world.apply(), 3, "is not empty")
    assert [path.name for path in world.target.iterdir()] == ["a"]


def _meanwhile(world: World, act: Callable[[Path], object]) -> Callable[..., None]:
    """Return what makes a tree, and does something in the user's meanwhile."""
    make = publish._make_tree

    def make_and_act(*arguments: object) -> None:
        make(*arguments)  # type: ignore[arg-type]
        act(world.target)

    return make_and_act


def assert_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], object], words: str
) -> None:
    """Replace an older tree, in which the user does something meanwhile: it stays."""
    before = world.applied()
    git(before, "update-ref", publish.HEAD_REF, publish.BASE_REF)  # as if of an earlier series
    git(before, "checkout", "--quiet", "--detach", publish.BASE_REF)
    monkeypatch.setattr(publish, "_make_tree", _meanwhile(world, act))
    world.refused(world.apply(), 3, str(world.target), words, "nothing was touched")
    assert list(world.target.parent.glob(".*")) == [], "nothing of the run is left"
