"""tox environments are read as tox reads them, and named in one way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from patchstack.check_environments import check_environments, defined_environments, environment_name

TOX = """\
[tox]
env_list = lint, unit-{a,b},
    integration-v0_5_20

[tools]
deps = x

[testenv:integration-v{0_5_21, 0_5_22}]
commands = python -c '{posargs}'

[testenv:integration-v0_5_23]
[testenv:demo]
"""
NAMES = {
    "lint", "unit-a", "unit-b", "demo", "integration-v0_5_20", "integration-v0_5_21",
    "integration-v0_5_22", "integration-v0_5_23",
}  # fmt: skip


def test_every_form_of_definition() -> None:
    assert defined_environments(TOX) == NAMES
    assert defined_environments("") == set()


@pytest.mark.skipif(find_spec("tox") is None, reason="tox is not installed")
def test_tox_itself_agrees(tmp_path: Path) -> None:
    (tmp_path / "tox.ini").write_text(TOX)
    done = subprocess.run(
        [sys.executable, "-m", "tox", "list", "--no-desc"],
        cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = set(re.findall(r"^[\w-]+$", done.stdout, re.MULTILINE))
    assert found == NAMES


def test_names_and_releases_map_one_to_one(tmp_path: Path) -> None:
    (tmp_path / "tox.ini").write_text(TOX)
    releases = ("v0.5.20", "v0.5.21", "v0.5.22", "v0.5.23")
    assert {environment_name(release) for release in releases} <= NAMES
    assert list(check_environments(tmp_path, releases)) == []
    found = [str(finding) for finding in check_environments(tmp_path, ("v0.5.22", "v0.5.24"))]
    assert found == [
        "tox.ini:1: tox: there is no environment integration-v0_5_24 for v0.5.24",
        *(
            f"tox.ini:{line}: tox: {environment_name(release)} is for a release that"
            " revisions.toml does not support"
            for release, line in (("v0.5.20", 3), ("v0.5.21", 8), ("v0.5.23", 11))
        ),
    ]


def test_no_tox_file_at_all(tmp_path: Path) -> None:
    (finding,) = check_environments(tmp_path, ("v0.5.23",))
    assert "integration-v0_5_23" in finding.what
