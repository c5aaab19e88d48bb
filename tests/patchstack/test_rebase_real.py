"""The real series, moved between the real releases."""

from __future__ import annotations

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
    pytest.mark.xdist_group("releases"),  # they share a cache that is filled once
]
PROGRESS = Progress(quiet=True)
PIN = "v0.5.23"
OTHERS = ("v0.5.22", "v0.5.21", "v0.5.20")
ADAPTERS = ("_kvcacheio_torch.py", "l2_codec.py", "l2_codec_hook.py", "mha_encoded.py")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache of this session, into which each release is fetched once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def replays(cache: Path) -> list[Replay]:
    """Return what came of the moves with what is recorded: back to each release, and forward."""
    return prove(Context(ROOT, ROOT / "patches", cache), PROGRESS, offline=False, anew=False)


def project(folder: Path, cache: Path, release: str) -> Context:
    """Return a project that has the series of one release alone, and nothing recorded."""
    patches = folder / "patches"
    patches.mkdir()
    shutil.copy(ROOT / "patches" / "revisions.toml", patches)
    shutil.copytree(ROOT / "patches" / release, patches / release)
    return Context(folder, patches, cache)


def test_back_and_forth_with_what_is_recorded(replays: list[Replay]) -> None:
    """Nobody is asked, and every series comes out as the release's own."""
    moves = [(each.origin, each.target) for each in replays]
    assert moves == [*((PIN, other) for other in OTHERS), (OTHERS[-1], PIN)]
    assert [each.problem for each in replays] == [""] * len(moves)


def test_what_was_recorded_is_what_was_used(replays: list[Replay]) -> None:
    recorded = {path.name for path in (ROOT / "patches" / "resolutions").iterdir()}
    assert {name for each in replays for name in each.used} == recorded


def test_what_git_has_right_by_itself(replays: list[Replay]) -> None:
    """Which files a person has to see to, and which of them are ours alone."""
    for each in replays:
        conflicts = [path for path, fate in each.files.items() if fate == "conflict"]
        assert bool(conflicts) == (OTHERS[-1] in (each.origin, each.target))
        assert not each.added & set(conflicts)
        assert {Path(path).name for path in each.added} == set(ADAPTERS)
        assert each.files[next(path for path in each.added if "mha_encoded" in path)] == "edited"


def test_the_page_says_so(replays: list[Replay]) -> None:
    """All but the seconds."""

    def timeless(text: str) -> str:
        return re.sub(r"\d+\.\d \|", "|", text)

    assert timeless((ROOT / PAGE).read_text("utf-8")) == timeless(page(replays))


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
