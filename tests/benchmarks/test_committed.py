"""The committed results: of the texts, formats and bytes that there are now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvbench.catalogue import all_formats, ours
from kvbench.formats import Format, fingerprint
from kvbench.texts import documents

ROOT = Path(__file__).parents[2]
AGAIN = "run tox -e rate-distortion and commit what it writes"


@pytest.fixture(scope="module")
def committed() -> dict[str, Any]:
    return json.loads((ROOT / "docs" / "rate-distortion.json").read_text())


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


def test_every_goal_that_is_met_is_met_on_the_page(committed: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "rate-distortion.md").read_text()
    for goal in committed["goals"]:
        mark = "met" if goal["met"] else "missed"
        assert f"| {goal['text']} | {goal['found']} | {mark} |" in page
