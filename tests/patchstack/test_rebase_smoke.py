"""A patch that merges and means nothing any more: the smoke gate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from rebase_world import (
    FILES,
    FLAG,
    LATER,
    NEXT,
    RELEASE,
    SERVER,
    RebaseWorld,
    checks,
    statuses,
)
from stack_world import NAME, PYTHON, commit, message

from patchstack.smoke import module_name

ARGS, HOOK = f"{PYTHON}/srt/args.py", f"{PYTHON}/srt/hook.py"
WITH_PYTHON = ("--python", sys.executable)
ALL_OK = {"compiles": "ok", "names": "ok", "imports": "ok", "shows": "ok"}
NOT_RUN = {**ALL_OK, "imports": "not checked", "shows": "not checked"}
START = ("--from", NAME, "--onto", NEXT)
OPTIONS_ELSEWHERE: dict[str, bytes | None] = {
    "sglang/srt/options.py": b'OPTIONS = ["--model"]\n',
    "sglang/launch_server.py": SERVER.replace(b"sglang.srt.args", b"sglang.srt.options"),
}


def add_patch(world: RebaseWorld, slug: str, files: dict[str, bytes], shows: str = "") -> None:
    """Put a fourth patch on the series."""
    tree = world.applied()
    text = message(slug)
    if shows:
        text = text.replace("HiQ-Patch", f"Shows: {shows}\nHiQ-Patch")
    commit(tree, text, {**files}, when=4)
    world.exported()


def found(report: Any, slug: str, name: str) -> str:
    """Return the detail of a check."""
    (patch,) = (patch for patch in report["patches"] if patch["slug"] == slug)
    (check,) = (check for check in patch["checks"] if check["name"] == name)
    return str(check["detail"])


def test_every_check_passes(moving: RebaseWorld) -> None:
    moving.release({"sglang/srt/other.py": b"OTHER = 2\n"})
    report = moving.move(*WITH_PYTHON)
    assert [checks(report, slug) for slug in ("flag", "block", "text")] == [ALL_OK] * 3


def test_without_an_interpreter(moving: RebaseWorld) -> None:
    moving.release()
    report = moving.move()
    assert checks(report, "flag") == NOT_RUN
    assert "no interpreter was given" in found(report, "flag", "imports")


def test_running_can_be_left_out(moving: RebaseWorld) -> None:
    moving.release()
    assert checks(moving.move(*WITH_PYTHON, "--no-smoke"), "flag") == NOT_RUN


def test_an_option_that_is_not_shown(moving: RebaseWorld) -> None:
    """Upstream's server reads its options from another list now: the patch merges for nothing."""
    moving.release(OPTIONS_ELSEWHERE)
    assert statuses(moving.look()) == {
        "flag": "unchanged",
        "block": "unchanged",
        "text": "unchanged",
    }
    before = moving.context.revisions_file.read_bytes()
    outcome = moving.rebase(*START, *WITH_PYTHON)
    moving.refused(outcome, 1, FILES[0], "--help does not show --codec")
    assert not moving.context.series_dir(NEXT).exists()
    assert moving.context.revisions_file.read_bytes() == before


def test_a_check_of_a_field_that_is_gone(moving: RebaseWorld) -> None:
    """The patch checks a field of the release; the new release does not have the field."""
    checked = (
        b'def check():\n    from sglang.srt import args\n\n    assert args.DEFAULT == "none"\n'
    )
    add_patch(moving, "validate", {HOOK: checked})
    moving.release({"sglang/srt/args.py": b'OPTIONS = ["--model"]\n\n\nSTANDARD = "none"\n'})
    moving.release({}, LATER)
    assert moving.look(onto=LATER)["counts"] == {"unchanged": 4}
    report = moving.look(code=1)
    assert statuses(report)["validate"] == "unchanged", "the merge alone sees nothing"
    assert checks(report, "validate") == {**NOT_RUN, "names": "suspect"}
    assert found(report, "validate", "names") == "the new release does not have DEFAULT (hook.py)"
    moving.refused(moving.rebase(*START), 3, "patch 4/4 0004-validate.patch", "DEFAULT (hook.py)")
    moving.rebase("--abort")
    outcome = moving.rebase(*START, *WITH_PYTHON)
    moving.refused(outcome, 1, "patch 4/4 0004-validate.patch", "DEFAULT")
    moving.resolve({HOOK: checked.replace(b"DEFAULT", b"STANDARD")})
    report = moving.go_on("--continue")
    assert checks(report, "validate") == ALL_OK
    assert statuses(report)["validate"] == "changed"


def test_an_option_without_the_patch_that_adds_it(moving: RebaseWorld) -> None:
    """A patch that validates an option says so, and fails where nothing adds the option."""
    hook = b"def check():\n    validated = True\n"
    add_patch(moving, "validate", {HOOK: hook}, shows="--codec")
    moving.release({"sglang/srt/args.py": None, "sglang/launch_server.py": SERVER.replace(
        b"from sglang.srt.args import OPTIONS", b'OPTIONS = ["--model"]'
    )})  # fmt: skip
    moving.move(*WITH_PYTHON, code=3)
    outcome = moving.rebase("--skip", "options are elsewhere")
    moving.refused(outcome, 1, "0004-validate.patch", "--help does not show --codec")


def test_a_module_that_does_not_import(moving: RebaseWorld) -> None:
    add_patch(moving, "uses", {f"{PYTHON}/srt/user.py": b"from sglang.srt.other import OTHER\n"})
    moving.release({"sglang/srt/other.py": b"ANOTHER = 1\n"})
    outcome = moving.rebase(*START, *WITH_PYTHON)
    moving.refused(outcome, 1, "0004-uses.patch", "sglang.srt.user", "cannot import name 'OTHER'")


USES = b"""\
import os

from sglang.srt.other import OTHER


def start(settings, DEFAULT_B=1):
    settings.mine = DEFAULT_B
    return os.sep, settings.FIELD, settings.mine, dict(KEYWORD=OTHER), settings.FIELDS
"""
KNOWN = b"OTHER = 1\nFIELD = KEYWORD = mine = DEFAULT_B = FIELDS = 1\n"


@pytest.mark.parametrize(
    ("other", "lost"),
    [
        (KNOWN, ""),
        (KNOWN.replace(b"OTHER", b"ANOTHER"), "OTHER"),
        (KNOWN.replace(b"FIELD =", b"MY_FIELD = FIELD_2 ="), "FIELD"),
        (KNOWN.replace(b"KEYWORD", b"KEYWORDS"), "KEYWORD"),
        (KNOWN.replace(b"mine = DEFAULT_B", b"theirs = DEFAULT_C"), ""),
    ],
)
def test_names_that_a_release_lacks(moving: RebaseWorld, other: bytes, lost: str) -> None:
    """Those that the patch uses; not those that it makes itself, nor another package's."""
    moving.release({"sglang/srt/other.py": KNOWN})
    moving.move()
    tree = moving.applied_revision(NEXT)
    commit(tree, message("uses"), {f"{PYTHON}/srt/user.py": USES}, when=4)
    assert moving.export(rev=NEXT).code == 0
    moving.release({"sglang/srt/other.py": other}, LATER)
    code = 1 if lost else 0
    report = moving.go_on("--from", NEXT, "--onto", LATER, "--dry-run", code=code)
    wanted = f"the new release does not have {lost} (user.py)" if lost else ""
    assert found(report, "uses", "names") == wanted


def test_a_server_that_does_not_start(moving: RebaseWorld) -> None:
    checked = b"def check():\n    from sglang.srt import other\n\n    print(other.OTHER)\n"
    add_patch(moving, "check", {HOOK: checked})
    moving.release({"sglang/srt/other.py": b"ANOTHER = 1\n"})
    outcome = moving.rebase(*START, *WITH_PYTHON)
    moving.refused(outcome, 1, "0004-check.patch", "--help fails", "has no attribute 'OTHER'")


def signature(*names: str) -> bytes:
    return f"def start(\n    {', '.join(names)},\n):\n    pass\n".replace(", ", ",\n    ").encode()


def test_a_file_that_does_not_compile(moving: RebaseWorld) -> None:
    """Both sides add the same argument, in different places. No interpreter is needed."""
    names = [f"argument_{number}" for number in range(1, 13)]
    add_patch(moving, "arguments", {HOOK: signature(*names)})
    add_patch(moving, "extra", {HOOK: signature("extra", *names)})
    moving.release({"sglang/srt/hook.py": signature(*names, "extra")})
    moving.move(code=3)
    report = moving.go_on("--skip", "upstream has the arguments", code=1)
    assert statuses(report)["extra"] == "moved", "it looks harmless"
    assert "duplicate argument 'extra'" in found(report, "extra", "compiles")
    moving.resolve({HOOK: signature("another", *names, "extra")})
    assert checks(moving.go_on("--continue"), "extra")["compiles"] == "ok"


def test_a_package_that_is_not_installed(moving: RebaseWorld) -> None:
    """It says nothing about the patch."""
    add_patch(moving, "uses", {f"{PYTHON}/srt/user.py": b"import no_such_package_at_all\n"})
    moving.release()
    report = moving.move(*WITH_PYTHON)
    assert checks(report, "uses") == {**ALL_OK, "imports": "not checked"}
    assert "not possible in this environment" in found(report, "uses", "imports")


def test_an_environment_that_cannot_run_the_release(moving: RebaseWorld) -> None:
    """Nor does that: neither the modules nor the server work without the patches."""
    broken = b"import no_such_package_at_all\n"
    moving.release({"sglang/srt/__init__.py": broken, "sglang/launch_server.py": broken})
    report = moving.move(*WITH_PYTHON)
    assert checks(report, "flag") == NOT_RUN
    assert "own --help fails in this environment" in found(report, "flag", "shows")


def test_what_a_patch_needs_of_the_project(moving: RebaseWorld) -> None:
    """The project's library is there, and nothing else of the project."""
    user = b"import hiqcache\nassert hiqcache.VALUE == 1\n"
    add_patch(moving, "uses", {f"{PYTHON}/srt/user.py": user})
    moving.release()
    assert checks(moving.move(*WITH_PYTHON), "uses") == ALL_OK


def test_what_the_build_generates_is_there(moving: RebaseWorld) -> None:
    user = b'from sglang._version import version\nassert version == "9.9.10"\n'
    add_patch(moving, "uses", {f"{PYTHON}/srt/user.py": user})
    moving.release()
    assert checks(moving.move(*WITH_PYTHON), "uses") == ALL_OK


def test_the_interpreter_is_remembered(moving: RebaseWorld) -> None:
    moving.release({"sglang/blocks.txt": b"other\n"})
    moving.move(*WITH_PYTHON, code=3)
    report = moving.go_on("--skip", "upstream has no blocks")
    assert checks(report, "text") == ALL_OK


def test_the_gate_can_be_passed_by(moving: RebaseWorld) -> None:
    """By one who knows better than an environment."""
    moving.release(OPTIONS_ELSEWHERE)
    moving.move(*WITH_PYTHON, code=1)
    moving.refused(moving.rebase("--continue"), 1, FILES[0])
    assert checks(moving.go_on("--continue", "--no-smoke"), "flag") == NOT_RUN


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("python/sglang/srt/a.py", "sglang.srt.a"),
        ("python/sglang/srt/__init__.py", "sglang.srt"),
        ("python/sglang/__init__.py", "sglang"),
        ("python/sglang/srt/new, with comma.py", None),
        ("python/sglang/some-folder/a.py", None),
    ],
)
def test_the_name_of_a_module(path: str, name: str | None) -> None:
    assert module_name(path) == name


def test_the_release_works_as_it_is() -> None:
    """What the tests above rely on."""
    assert b"--codec" in FLAG and b"--codec" not in RELEASE["sglang/srt/args.py"]
    assert Path(sys.executable).is_file()
