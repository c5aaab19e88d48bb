"""The wheels as they are installed here: this repository's library, the lock's patched release."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tomllib
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def distribution(name: str) -> importlib.metadata.Distribution:
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} runs from a source tree here")
    if not found.read_text("direct_url.json"):
        pytest.skip(f"{name} is not installed from a wheel file here")
    return found


def test_the_library_is_this_repositorys():
    installed = distribution("hiqcache")
    sources = sorted(p.relative_to(ROOT) for p in (ROOT / "hiqcache").rglob("*.py"))
    for source in sources:
        here = (ROOT / source).read_bytes()
        assert Path(installed.locate_file(source)).read_bytes() == here, source
    assert sorted(Path(f) for f in installed.files or () if f.suffix == ".py") == sources


def test_each_file_of_the_release_is_as_recorded():
    installed = distribution("sglang")
    wrong = []
    for file in installed.files or ():
        if file.hash is None:
            continue
        digest = hashlib.sha256(Path(installed.locate_file(file)).read_bytes()).digest()
        if urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            wrong.append(str(file))
    assert not wrong


def test_the_release_is_the_one_that_was_asked_for():
    pins = tomllib.loads((ROOT / "patches" / "revisions.toml").read_text())
    revision = pins["revisions"][os.environ.get("HIQCACHE_REV", pins["pin"])]
    installed = distribution("sglang")
    assert installed.version == f"{revision['version']}+hiqcache.{revision['build']}"
    version = importlib.metadata.version("hiqcache")
    assert f"hiqcache=={version}" in (installed.requires or [])


def pip_check(extra_path: Path | None = None) -> set[str]:
    """What ``pip check`` complains of, the patched release named like the stock one."""
    env = os.environ | ({"PYTHONPATH": str(extra_path)} if extra_path else {})
    done = subprocess.run(
        [sys.executable, "-m", "pip", "check"], env=env, capture_output=True, text=True
    )
    version = importlib.metadata.version("sglang")
    return {line.replace(version, version.split("+")[0]) for line in done.stdout.splitlines()}


def test_pip_check_shows_nothing_that_it_does_not_show_for_the_stock_wheel(tmp_path):
    installed = distribution("sglang")
    patched = pip_check()
    # The stock wheel's metadata, found first, in the same environment.
    stock = tmp_path / f"sglang-{installed.version.split('+')[0]}.dist-info"
    stock.mkdir()
    metadata = installed.read_text("METADATA") or ""
    lines = [
        "Version: " + installed.version.split("+")[0] if x.startswith("Version: ") else x
        for x in metadata.splitlines()
        if not x.startswith("Requires-Dist: hiqcache")
    ]
    (stock / "METADATA").write_text("\n".join(lines) + "\n")
    (stock / "INSTALLER").write_text("pip\n")
    assert any(line.startswith("sglang 0.5") for line in patched)  # the CUDA stack is missing here
    assert patched == pip_check(tmp_path)
