"""The report's page in a real browser: nothing is too wide, covered, cut off or without a unit.

Skipped where there is no Chromium (Debian: ``apt-get install chromium``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reporting.distortion import load_distortion
from reporting.document import make_document
from reporting.files import make_files
from reporting.inputs import Inputs
from reporting.restore import load_restore
from reporting.runs import Results
from reporting.simulation import load_simulations, load_validation
from tests.browser.chromium import Browser, find_chromium
from tests.synthetic_runs import (
    SWEEPS,
    synthetic_restore,
    synthetic_run,
    synthetic_runs,
    synthetic_simulation,
    synthetic_sweep,
    synthetic_validation,
    write_json,
)

PROGRAM = find_chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium: apt-get install chromium"),
]
DISTORTIONS = Path(__file__).parents[2] / "docs" / "rate-distortion.json"
PHONE, DESKTOP = 360, 1280
ALL = ("none", "raw", "int8", "int8-hadamard", "k8v4", "int4")
#: Pixels; what is smaller is no text for a phone.
LEGIBLE = 9.5


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """Chromium, with a folder of its own."""
    assert PROGRAM
    return Browser(PROGRAM, tmp_path_factory.mktemp("browser"))


def html_of(inputs: Inputs) -> str:
    return next(iter(make_files(make_document(inputs), Path("page.html"), None).values()))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with everything that a page can have."""
    folder = tmp_path_factory.mktemp("given")
    bad = replace(synthetic_run("raw", 9), invalid="it restored nothing " * 20)
    runs = [*synthetic_runs(), *synthetic_runs(ALL, 2, experiment="all"), *synthetic_sweep(), bad]
    return html_of(
        Inputs(
            Results(tuple(runs)),
            load_restore(write_json(folder / "restore", synthetic_restore())),
            load_distortion(DISTORTIONS),
            load_simulations(
                write_json(folder / at, synthetic_simulation(at, ALL)) for at in SWEEPS
            ),
            load_validation(write_json(folder / "validation", synthetic_validation())),
        )
    )


@pytest.fixture(scope="module", params=[PHONE, DESKTOP])
def measured(request: pytest.FixtureRequest, browser: Browser, page: str) -> dict[str, Any]:
    """What the browser says of the page at one width."""
    return browser.measure(page, request.param)


def test_nothing_is_wider_than_the_page(measured: dict[str, Any]) -> None:
    assert measured["wide"] == []
    assert measured["scrollWidth"] == measured["width"]


def test_no_label_covers_another_or_is_cut_off(measured: dict[str, Any]) -> None:
    assert measured["drawings"] > 10
    assert measured["overlaps"] == []
    assert measured["cut"] == []


def test_every_axis_has_its_unit(measured: dict[str, Any]) -> None:
    for labels in measured["axes"]:
        assert len(labels) == 2
        assert all(re.search(r", \S|bits for each value", label) for label in labels), labels


def test_labels_are_legible(measured: dict[str, Any]) -> None:
    assert measured["smallest"] >= LEGIBLE


def test_nothing_is_asked_for(measured: dict[str, Any]) -> None:
    assert measured["asked"] == []


def test_a_long_name_breaks_nothing(browser: Browser) -> None:
    one = synthetic_run("raw")
    setup = replace(one.setup, configuration="c" * 200, experiment="e" * 200, model="m" * 200)
    long = replace(one, setup=setup, server_command=("s" * 500,), provenance={"p" * 99: "q" * 300})
    found = browser.measure(html_of(Inputs(Results((one, long)))), PHONE)
    assert (found["wide"], found["overlaps"], found["cut"]) == ([], [], [])


def test_the_measure_finds_what_is_wrong(browser: Browser) -> None:
    """Labels that cover each other, one that is cut off, an axis without a name, a wide line."""
    svg = (
        '<svg viewBox="0 0 300 100" width="300" height="100" style="overflow:visible">'
        '<text x="10" y="50">first label</text><text x="40" y="52">second label</text>'
        '<text x="270" y="20">cut off here</text>'
        '<g id="x-axis-label"><text x="10" y="90">time</text></g></svg>'
    )
    found = browser.measure(f'<body>{svg}<div style="width:900px">wide</div></body>', PHONE)
    assert found["overlaps"] == [["first label", "second label"]]
    assert found["cut"] == ["cut off here"]
    assert found["axes"] == [["time"]]
    assert found["wide"] == ["DIV: wide"]
    assert found["scrollWidth"] > found["width"]


def test_a_picture_shows_something(browser: Browser, page: str, tmp_path: Path) -> None:
    browser.picture(page, PHONE, 2000, file := tmp_path / "page.png")
    assert file.read_bytes().startswith(b"\x89PNG")
    assert file.stat().st_size > 50_000
