"""``tools/apply.py --wheel``: upstream's wheel with the patches in it, and hiqcache's own."""

from __future__ import annotations

import base64
import csv
import difflib
import hashlib
import io
import subprocess
import sys
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
    commit,
    git,
    message,
    replace,
    snapshot,
)

PATCHED = "sglang-9.9.9+hiqcache.1-py3-none-any.whl"
OWN = "hiqcache-0.7.0-py3-none-any.whl"
INFO = "sglang-9.9.9+hiqcache.1.dist-info"


def members(path: Path) -> dict[str, bytes]:
    """Return every file of a wheel, each of which must be there once."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(names) == len(set(names))
        return {name: archive.read(name) for name in names}


@pytest.fixture
def dist(world: World) -> Path:
    """Return the folder of freshly written wheels."""
    outcome = world.apply("--wheel")
    assert outcome.code == 0, outcome.err
    return world.context.dist


def test_what_is_printed(world: World) -> None:
    outcome = world.apply("--wheel")
    dist = world.root / "build" / "dist"
    assert outcome.out.splitlines() == [str(world.target), str(dist / PATCHED), str(dist / OWN)]
    assert f"pip install {dist / PATCHED} {dist / OWN}" in outcome.err.splitlines()[-1]
    assert sorted(path.name for path in dist.iterdir()) == sorted([PATCHED, OWN])


def test_json_lists_the_wheels(world: World, tmp_path: Path) -> None:
    place = tmp_path / "wheels $HOME here"
    result = world.apply("--json", "--wheel", str(place)).json
    assert result["wheels"] == [str(place / PATCHED), str(place / OWN)]


def test_a_program_is_not_told_how_to_install(world: World) -> None:
    outcome = world.apply("--json", "--wheel")
    assert outcome.json["wheels"]
    assert "pip install" not in outcome.err


def test_the_files_are_upstreams_and_the_patches(dist: Path, world: World) -> None:
    files = members(dist / PATCHED)
    tree = world.target / "python"
    expected = {
        path.relative_to(tree).as_posix(): path.read_bytes()
        for path in tree.rglob("*")
        if path.is_file()
    }
    expected |= GENERATED
    assert {name: data for name, data in files.items() if name.startswith("sglang/")} == expected
    # The control: the patches did change something, in each of the three ways.
    assert files["sglang/srt/engine.py"] != SOURCES["sglang/srt/engine.py"]
    assert "sglang/run.sh" not in files
    assert files["sglang/srt/new, with comma.py"] == b"new = True\n"
    assert not any("outside" in name for name in files), "only python/sglang/ goes into the wheel"


def test_the_record_covers_every_file(dist: Path) -> None:
    files = members(dist / PATCHED)
    rows = list(csv.reader(io.StringIO(files[f"{INFO}/RECORD"].decode())))
    assert [row[0] for row in rows] == list(files), "one row a file, in the order of the archive"
    for name, digest, size in rows[:-1]:
        found = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=")
        assert digest == f"sha256={found.decode()}", name
        assert int(size) == len(files[name]), name
    assert rows[-1] == [f"{INFO}/RECORD", "", ""]


def test_the_metadata_differ_in_two_lines(dist: Path) -> None:
    files = members(dist / PATCHED)
    old = DIST_INFO["sglang-9.9.9.dist-info/METADATA"].decode().splitlines()
    new = files[f"{INFO}/METADATA"].decode().splitlines()
    changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
    assert changed == [
        "- Version: 9.9.9",
        "+ Version: 9.9.9+hiqcache.1",
        "+ Requires-Dist: hiqcache==0.7.0",
    ]
    assert new[2] == "Version: 9.9.9+hiqcache.1", "the header, not a line of the text"
    position = new.index("Requires-Dist: hiqcache==0.7.0")
    assert new[position + 1].startswith("Requires-Dist:")


def test_the_rest_of_the_metadata_is_kept(dist: Path) -> None:
    files = members(dist / PATCHED)
    for name in ("WHEEL", "entry_points.txt"):
        assert files[f"{INFO}/{name}"] == DIST_INFO[f"sglang-9.9.9.dist-info/{name}"]
    assert not any(name.startswith("sglang-9.9.9.dist-info") for name in files)


def test_modes_are_upstreams(world: World) -> None:
    tree = world.applied()
    git(tree, "reset", "--hard", "--quiet", "HEAD~1")  # the last patch deletes the script
    world.exported()
    world.applied("--wheel")
    with zipfile.ZipFile(world.context.dist / PATCHED) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert modes["sglang/run.sh"] == 0o100755
    assert modes["sglang/srt/engine.py"] == modes["sglang/srt/empty.py"] == 0o100644


def test_equal_input_gives_equal_bytes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.applied("--wheel", str(tmp_path / "one"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    other = world.other_cache(tmp_path / "cache2")
    other.applied("--wheel", str(tmp_path / "two"), "--target", str(tmp_path / "tree"))
    for name in (PATCHED, OWN):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_pip_installs_both(dist: Path, tmp_path: Path) -> None:
    place = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    wheels = [str(dist / PATCHED), str(dist / OWN)]
    subprocess.run([*command, "--target", str(place), *wheels], check=True)
    look = (
        "import importlib.metadata as m, hiqcache, sglang;"
        "print(m.version('sglang'), m.version('hiqcache'), sglang.version, hiqcache.VALUE,"
        " [str(r) for r in m.requires('sglang')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], env={"PYTHONPATH": str(place)}, cwd=place,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == (
        "9.9.9+hiqcache.1 0.7.0 9.9.9 1 ['hiqcache==0.7.0', 'numpy', 'pytest; extra == \"test\"']"
    )


def test_the_wheel_of_an_up_to_date_tree(world: World) -> None:
    tree = world.applied()
    before = snapshot(tree)
    outcome = world.apply("--wheel", "--offline")
    assert outcome.code == 0, outcome.err
    assert (world.context.dist / PATCHED).exists()
    assert snapshot(tree) == before


def test_the_build_number_names_the_wheel(world: World) -> None:
    world.edit_revisions("build = 1", "build = 12")
    world.applied("--wheel")
    assert (world.context.dist / PATCHED.replace("hiqcache.1", "hiqcache.12")).exists()


# --- refusals ----------------------------------------------------------------------------------


def wheel_refused(world: World, code: int, *words: str) -> None:
    """Assert that apply refuses and leaves the project as it was."""
    before = snapshot(world.root)
    world.refused(world.apply("--wheel", "--offline"), code, *words)
    left = snapshot(world.root)
    left.pop(str(world.root / "build"), None)
    left.pop(str(world.context.dist), None)  # an empty folder may stay
    before.pop(str(world.root / "build"), None)
    assert left == before


def test_no_wheel_without_patches(fresh: World) -> None:
    wheel_refused(fresh, 2, f"{NAME} has no patches yet", "tools/export.py")


def test_the_upstream_wheel_is_gone_from_the_cache(world: World) -> None:
    (world.context.wheels / WHEEL).unlink()
    wheel_refused(world, 4, WHEEL, "--offline")


def test_a_project_that_cannot_be_built(world: World) -> None:
    replace(world.root / "pyproject.toml", 'name = "hiqcache"\n', "")
    wheel_refused(world, 2, "hiqcache's own wheel cannot be built")


def test_a_link_cannot_go_into_a_wheel(world: World) -> None:
    tree = world.applied()
    (tree / PYTHON / "link").symlink_to("blocks.py")
    commit(tree, message("link"), {})
    world.exported()
    wheel_refused(world, 1, f"{PYTHON}/link", "not an ordinary file")


def test_the_users_work_is_refused_before_a_wheel_is_written(world: World) -> None:
    tree = world.applied()
    (tree / "mine").write_text("mine\n")
    wheel_refused(world, 3, "mine (untracked)")
    assert not world.context.dist.exists()
