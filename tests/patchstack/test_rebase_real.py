"""The real series, moved between the real releases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from stack_world import series_files

from patchstack.context import ROOT, Context
from patchstack.rebase_report import CONFLICT, DROPPED, Report
from patchstack.rebase_run import Options
from patchstack.rebasing import dry_run, start
from patchstack.report import Progress

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("isolated")]
PROGRESS = Progress(quiet=True)
PIN = "v0.5.23"
BLOCKING = "python/sglang/srt/mem_cache/l2_transfer.py"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache of this session, into which each release is fetched once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(cache: Path, tmp_path: Path) -> Context:
    """Return a project that has the series of one release alone."""
    patches = tmp_path / "patches"
    patches.mkdir()
    shutil.copy(ROOT / "patches" / "revisions.toml", patches)
    shutil.copytree(ROOT / "patches" / PIN, patches / PIN)
    return Context(tmp_path, patches, cache)


def statuses(report: Report) -> dict[str, str]:
    return {patch.slug: patch.status for patch in report.patches}


@pytest.mark.parametrize("other", ["v0.5.22", "v0.5.21"])
def test_back_and_forth(project: Context, other: str) -> None:
    """No conflict either way, and the series comes back byte for byte."""
    before = series_files(project.series_dir(PIN))
    back = start(project, PIN, other, Options(), PROGRESS, replaces=False)
    assert back.error is None, back.error
    assert not {CONFLICT, DROPPED} & set(statuses(back.reports[0]).values())
    assert back.reports[0].drift.changed_files > 1000
    shutil.rmtree(project.series_dir(PIN))
    forth = start(project, other, PIN, Options(), PROGRESS, replaces=False)
    assert forth.error is None, forth.error
    assert series_files(project.series_dir(PIN)) == before


def test_a_release_that_is_too_old(project: Context) -> None:
    """What the patch repairs in the transfer is not there yet: that needs a person."""
    outcome = dry_run(project, PIN, ["v0.5.20"], Options(), PROGRESS)
    assert outcome.error is not None
    (report,) = outcome.reports
    conflicts = {path for patch in report.patches for path in patch.conflicts}
    assert BLOCKING in conflicts
    assert sorted(path.name for path in project.patches.iterdir()) == ["revisions.toml", PIN]


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
