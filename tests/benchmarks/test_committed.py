"""The committed results: of the texts, formats and bytes that there are now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import rate_distortion

from kvbench.catalogue import all_formats, ours
from kvbench.formats import Format, fingerprint
from kvbench.page import page
from kvbench.report import Report
from kvbench.texts import documents

DOCS = Path(__file__).parents[2] / "docs"
AGAIN = "run tox -e rate-distortion and commit what it writes"


@pytest.fixture(scope="module")
def committed() -> dict[str, Any]:
    return json.loads((DOCS / rate_distortion.JSON).read_text())


def test_they_are_of_these_texts(committed: dict[str, Any]) -> None:
    assert committed["documents"] == [vars(document) for document in documents()], AGAIN


def test_they_are_of_these_formats(committed: dict[str, Any]) -> None:
    names = {row["name"] for row in committed["formats"]}
    assert names == {form.name for form in all_formats()}, AGAIN


@pytest.mark.parametrize("form", ours(), ids=lambda form: form.name)
def test_they_are_of_the_bytes_that_our_codecs_write(
    committed: dict[str, Any], form: Format
) -> None:
    made = {row["name"]: row["made"] for row in committed["formats"]}
    assert made[form.name] == fingerprint(form), AGAIN


def test_the_page_is_that_of_the_results() -> None:
    report = Report.read((DOCS / rate_distortion.JSON).read_text("utf-8"))
    written = (DOCS / rate_distortion.PAGE).read_text("utf-8")
    assert written == page(report, rate_distortion.PLOT), (
        "run tox -e rate-distortion -- --from docs/rate-distortion.json"
    )


def test_the_page_and_the_plot_are_written_of_results_that_are_there(tmp_path: Path) -> None:
    results = DOCS / rate_distortion.JSON
    assert rate_distortion.main(["--from", str(results), "--docs", str(tmp_path)]) == 0
    names = (rate_distortion.JSON, rate_distortion.PAGE)
    assert [(tmp_path / name).read_bytes() for name in names] == [
        (DOCS / name).read_bytes() for name in names
    ]
    ElementTree.parse(tmp_path / rate_distortion.PLOT)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"formats": 5}'])
def test_another_file_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "other.json").write_text(text)
    assert rate_distortion.main(["--from", str(file)]) == 2
    assert f"{file} holds no result of this tool" in capsys.readouterr().err


@pytest.mark.parametrize("name", [rate_distortion.JSON, rate_distortion.PAGE, rate_distortion.PLOT])
def test_a_place_that_cannot_be_written_is_refused_at_once(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(rate_distortion, "measure", lambda *_: pytest.fail("measured"))
    assert rate_distortion.main(["--docs", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_page_that_cannot_be_made_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("kvbench.page.page", fail)
    with pytest.raises(ZeroDivisionError):
        rate_distortion.main(["--from", str(DOCS / rate_distortion.JSON), "--docs", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []
