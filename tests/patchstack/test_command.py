"""How a tool ends on a machine that lacks something, and the two environments it must not mix."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import preflight
import pytest
import quality

from patchstack import gitenv
from patchstack.command import INSTALL, INSTALL_TORCH, run
from patchstack.context import ROOT, Context
from patchstack.errors import Exit, ToolError

# Each with arguments that it accepts, and that its examples show.
ARGUMENTS = {
    "apply.py": ["--rev", "pin"],
    "export.py": ["--rev", "pin"],
    "rebase.py": ["--from", "pin", "--onto", "0.5.24"],
    "map.py": ["l2-codec-flag"],
    "check.py": ["--fast"],
    "write_docs.py": [],
    "moves.py": ["--record"],
}
TOOLS = [ROOT / "tools" / name for name in ARGUMENTS]
WITHOUT_TORCH = f"torch is not installed; run {INSTALL_TORCH}"
#: Arguments of the other scripts, and what they say where nothing is installed.
OTHERS = {
    "tools/capacity.py": (["--model", "qwen3-8b"], WITHOUT_TORCH),
    "tools/conformance.py": (["generate"], WITHOUT_TORCH),
    "tools/fidelity.py": ([], WITHOUT_TORCH),
    "tools/format_tables.py": ([], WITHOUT_TORCH),
    "tools/simulate.py": ([], WITHOUT_TORCH.replace("torch", "rich", 1)),
    "tools/preflight.py": (
        ["--model", "qwen3-8b", "--codec", "int8", "--hicache-size", "8"],
        f"torch is not installed; run {preflight.INSTALL}",
    ),
    "tools/report.py": (["."], "drawings need matplotlib; pip install matplotlib"),
    "tools/quality.py": (["--from", "a.json"], f"numpy is not installed; run {quality.INSTALL}"),
    "benchmarks/codec_speed.py": (
        [], "torch is not installed; run tox -e codec-speed, which has it"
    ),
    "benchmarks/rate_distortion.py": (
        [], "numpy is not installed; run tox -e rate-distortion, which has it"
    ),
    "benchmarks/stack_speed.py": ([], f"packaging is not installed; run {INSTALL}"),
}  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs of an interpreter that has the standard library alone."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin"


def run_bare(
    bare: Path, tool: Path, *arguments: str, cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Start the script itself."""
    return subprocess.run(
        [str(bare / "python"), str(tool), *arguments],
        cwd=cwd, capture_output=True, text=True, check=False,
        env={"PATH": f"{bare}:{os.defpath}", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS, ids=lambda path: path.name)
def test_a_package_is_missing(tool: Path, tmp_path: Path, bare: Path) -> None:
    done = run_bare(bare, tool, *ARGUMENTS[tool.name], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"{tool.name}: GitPython is not installed; run {INSTALL}\n"
    assert done.stdout == ""


@pytest.mark.parametrize("name", OTHERS)
def test_a_package_of_another_tool_is_missing(name: str, tmp_path: Path, bare: Path) -> None:
    arguments, said = OTHERS[name]
    done = run_bare(bare, ROOT / name, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{Path(name).name}: {said}\n"


@pytest.mark.parametrize("name", OTHERS)
def test_help_needs_no_package_and_has_an_example(name: str, tmp_path: Path, bare: Path) -> None:
    done = run_bare(bare, ROOT / name, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "example" in done.stdout and f"\n  {name}" in done.stdout
    assert "Exit codes:" in " ".join(done.stdout.split()) or "exit codes:" in done.stdout


def test_what_to_install_is_what_the_readme_says() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"    {INSTALL}\n" in readme
    command, note = INSTALL_TORCH.rstrip(")").split(" (")
    assert f"`{command}` ({note})" in readme
    assert f"`{quality.INSTALL}`" in readme


def test_python_is_too_old(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> int:
        raise AssertionError("must not be reached")

    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert run("tool", body) == Exit.USAGE
    assert capsys.readouterr().err == "tool: Python 3.11 or newer is needed; use that one\n"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda path: path.name)
def test_help_has_an_example(tool: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(tool), "--help"], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "example" in done.stdout
    assert " ".join([f"tools/{tool.name}", *ARGUMENTS[tool.name]]) in done.stdout
    assert "Exit codes:" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ToolError("bad\nthing", "do\nthis", Exit.FINDINGS), 1, "tool: bad thing; do this\n"),
        (
            PermissionError(13, "Permission denied", "/a"),
            2,
            "tool: Permission denied: /a; get the right to it, or name another place"
            " (--help, HIQCACHE_CACHE)\n",
        ),
        (OSError(28, "No space left"), 2, "tool: No space left; free some space and run again\n"),
        (OSError("odd"), 2, "tool: odd; put that right and run again\n"),
        (KeyboardInterrupt(), 130, "tool: interrupted\n"),
    ],
)
def test_an_error_is_one_line(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> int:
        raise error

    assert run("tool", body) == code
    assert capsys.readouterr() == ("", line)


def test_a_mistake_of_ours_is_not_hidden() -> None:
    """The control of the test above: what no user can cause stays a traceback."""

    def body() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run("tool", body)


def test_isolate_keeps_where_git_is_and_nothing_else() -> None:
    kept = {"PATH": "p", "HOME": "h", "GIT_EXEC_PATH": "e", "GIT_PYTHON_TRACE": "t"}
    environ = {**kept, "GIT_DIR": "d", "GIT_AUTHOR_NAME": "n", "GIT_CONFIG_COUNT": "1"}
    gitenv.isolate(environ)
    assert environ == kept


def test_isolate_removes_all_that_git_calls_local() -> None:
    """Git itself lists the variables that lead it to a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True
    )
    environ = dict.fromkeys(done.stdout.split(), "x")
    assert "GIT_DIR" in environ
    gitenv.isolate(environ)
    assert environ == {}


@pytest.mark.parametrize(
    ("variables", "cache"),
    [
        ({"HIQCACHE_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/hiqcache"),
        ({"HOME": "/home/ann"}, "/home/ann/.cache/hiqcache"),
    ],
)
def test_where_the_cache_is(
    variables: dict[str, str], cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HIQCACHE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    context = Context.default()
    assert context.cache == Path(cache)
    assert context.root == ROOT
    assert context.target("v1.2.3") == ROOT / "build" / "v1.2.3"
