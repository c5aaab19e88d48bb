"""The real series, moved between the real releases."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import rebase
from stack_world import series_files

from patchstack.context import ROOT, Context
from patchstack.rebase_report import CONFLICT, DROPPED
from patchstack.rebase_run import Options
from patchstack.rebasing import dry_run
from patchstack.replaying import PAGE, Replay, page, prove
from patchstack.report import Progress

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.usefixtures("isolated"),
]
PROGRESS = Progress(quiet=True)
PIN = "v0.5.23"
OTHERS = ("v0.5.22", "v0.5.21", "v0.5.20")
ADAPTERS = ("_kvcacheio_torch.py", "l2_codec.py", "l2_codec_hook.py", "mha_encoded.py")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache into which each release is fetched once, whatever process comes first."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "releases"


def project(folder: Path, cache: Path, release: str) -> Context:
    """Return a project that has the series of one release alone, and nothing recorded."""
    patches = folder / "patches"
    patches.mkdir()
    shutil.copy(ROOT / "patches" / "revisions.toml", patches)
    shutil.copytree(ROOT / "patches" / release, patches / release)
    return Context(folder, patches, cache)


def test_back_and_forth_with_what_is_recorded(cache: Path) -> None:
    """Nobody is asked, every series comes out as the release's own, and the page says how."""
    context = Context(ROOT, ROOT / "patches", cache)
    replays = prove(context, PROGRESS, offline=False, anew=False)
    moves = [(each.origin, each.target) for each in replays]
    assert moves == [*((PIN, other) for other in OTHERS), (OTHERS[-1], PIN)]
    assert [each.problem for each in replays] == [""] * len(moves)
    recorded = {path.name for path in context.resolutions.iterdir()}
    assert {name for each in replays for name in each.used} == recorded
    assert_known_fates(replays)
    assert timeless((ROOT / PAGE).read_text("utf-8")) == timeless(page(replays))


def assert_known_fates(replays: list[Replay]) -> None:
    """Assert which files a person has to see to, and which of them are ours alone."""
    for each in replays:
        conflicts = {path for path, fate in each.files.items() if fate == "conflict"}
        assert bool(conflicts) == (OTHERS[-1] in (each.origin, each.target))
        assert not each.added & conflicts
        assert {Path(path).name for path in each.added} == set(ADAPTERS)
        assert each.files[next(path for path in each.added if "mha_encoded" in path)] == "edited"


def timeless(text: str) -> str:
    """Return a page without the seconds."""
    return re.sub(r"\d+\.\d \|", "|", text)


@pytest.mark.parametrize(
    ("origin", "target", "place", "why"),
    [
        (PIN, "v0.5.22", "patch 3/3", "does not have KVBuffers"),
        (PIN, "v0.5.21", "patch 3/3", "does not have KVBuffers"),
        (PIN, "v0.5.20", "patch 1/3", "is in conflict in python/sglang/srt/mem_cache/l2_transfer"),
        ("v0.5.20", PIN, "patch 3/3", "is in conflict in python/sglang/srt/mem_cache/hybrid_cache"),
    ],
)
def test_without_what_is_recorded(
    cache: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    origin: str,
    target: str,
    place: str,
    why: str,
) -> None:
    """The control of the tests above: each move stops for a person, and nothing is written."""
    context = project(tmp_path, cache, origin)
    before = series_files(context.series_dir(origin))
    assert rebase.main(["--from", origin, "--onto", target], context) == 3
    line = capsys.readouterr().err.splitlines()[-1]
    assert place in line and why in line and "tools/rebase.py --continue" in line
    assert not context.series_dir(target).exists()
    assert not context.resolutions.exists()
    assert series_files(context.series_dir(origin)) == before


def test_every_series_onto_every_release(cache: Path) -> None:
    """What is supported can be compared with all else that is: nothing is lost or unknown."""
    context = Context(ROOT, ROOT / "patches", cache)
    names = ["v0.5.20", "v0.5.21", "v0.5.22", PIN]
    for origin in names:
        others = [name for name in names if name != origin]
        outcome = dry_run(context, origin, others, Options(), PROGRESS)
        assert [report.target.name for report in outcome.reports] == others
        for report in outcome.reports:
            assert len(report.patches) == len(list((ROOT / "patches" / origin).glob("*.patch")))
            for patch in report.patches:
                assert (patch.new is None) == (patch.status in (CONFLICT, DROPPED))
