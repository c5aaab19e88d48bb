"""``docs/compatibility.md`` is what the code says."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from formats import compatibility
from formats.compatibility import compatibility_page, head_dims, said
from hiqcache import refusals
from hiqcache.codecs.hadamard import HeadRotation
from hiqcache.codecs.int4 import Int4Block
from hiqcache.codecs.int8 import Int8Block, Int8HadamardBlock
from patchstack import documenting
from patchstack.context import ROOT, Context
from patchstack.documents import BEGIN, COMPATIBILITY, END, GUIDE
from patchstack.report import Progress
from patchstack.revisions import Revisions, load_revisions

REVISIONS = load_revisions(ROOT / "patches" / "revisions.toml")


def page() -> str:
    return compatibility_page(REVISIONS)


def test_the_page_fits_the_code() -> None:
    written = (ROOT / COMPATIBILITY).read_text("utf-8")
    assert written == page(), "run tools/write_docs.py"


def test_a_changed_refusal_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    before = page()
    first, *rest = refusals.REFUSALS
    monkeypatch.setattr(
        compatibility, "REFUSALS", (replace(first, reason="wants nothing: give it"), *rest)
    )
    assert "| `--enable-hierarchical-cache` | wants nothing: give it |" in page()
    assert page() != before


def test_a_changed_limit_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(self: HeadRotation) -> None:
        if self.dim > 128:
            raise ValueError("too wide")

    before = page()
    monkeypatch.setattr(HeadRotation, "__post_init__", narrow)
    assert page() != before


def test_a_layout_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "| `page_head` | refused | refused | refused |" in page()
    monkeypatch.setattr(compatibility, "LAYOUTS", ("page_first",))
    assert "page_head" not in page()


def test_every_refused_argument_is_on_the_page() -> None:
    text = page()
    for refusal in refusals.REFUSALS:
        line = f"| `--{refusal.field.replace('_', '-')}` | {refusal.reason} |"
        assert line in text


def test_every_release_is_on_the_page() -> None:
    text = page()
    for revision in REVISIONS.supported:
        pin = " (pin)" if revision.name == REVISIONS.pin else ""
        assert (
            f"| `{revision.name}`{pin} | `{revision.patched_version}` | {revision.note} |" in text
        )
    for name, why in REVISIONS.refused:
        assert f"| `{name}` | refused | {why} |" in text
    assert any(revision.note for revision in REVISIONS.supported)


def test_widths_that_a_format_serves() -> None:
    assert head_dims(Int8Block) == "any"
    assert head_dims(Int8HadamardBlock) == "1 to 256"
    assert head_dims(Int4Block) == (
        "2 to 128 in steps of 2, 132 to 192 in steps of 6, 196 to 256 in steps of 4"
    )


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([1, 2, 3], "1 to 3"),
        ([1, 2, 3, 8], "1 to 3, 8"),
        ([2, 4, 7], "2 to 4 in steps of 2, 7"),
        ([1, 3, 5, 6, 7], "1 to 5 in steps of 2, 6 to 7"),
    ],
)
def test_runs_of_numbers(numbers: list[int], text: str) -> None:
    assert ", ".join(compatibility._spans(numbers)) == text


def test_what_is_accepted_is_not_called_refused() -> None:
    with pytest.raises(AssertionError, match="was accepted"):
        said(lambda: None)


# --- who writes it -----------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A project without releases, whose page is of yesterday."""
    shutil.copytree(ROOT / "patches", tmp_path / "patches")
    (tmp_path / "docs").mkdir()
    (tmp_path / GUIDE).write_text(f"{BEGIN}\n{END}\n")
    (tmp_path / COMPATIBILITY).write_text("old\n")
    read = SimpleNamespace(revisions=REVISIONS, table="")
    monkeypatch.setattr(documenting, "read_project", lambda context: read)
    monkeypatch.setattr(documenting, "_sites", lambda *given: {})
    return Context(tmp_path, tmp_path / "patches", tmp_path / "cache")


def written(project: Context) -> list[str]:
    """Write the documents, and name those that changed."""
    changed = documenting.write_documents(project, offline=True, progress=Progress())
    return [project.show(path) for path in changed]


def test_write_docs_brings_it_up_to_date(project: Context) -> None:
    assert COMPATIBILITY in written(project)
    assert (project.root / COMPATIBILITY).read_text("utf-8") == page()
    assert written(project) == []


def test_a_project_without_the_page_gets_none(project: Context) -> None:
    (project.root / COMPATIBILITY).unlink()
    assert COMPATIBILITY not in written(project)


def test_without_torch_it_stays_and_that_is_said(
    project: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "formats.compatibility")
    assert COMPATIBILITY not in written(project)
    assert (project.root / COMPATIBILITY).read_text() == "old\n"
    assert capsys.readouterr().err == f"{COMPATIBILITY} stays as it is: torch is not installed\n"


@pytest.mark.parametrize("note", ["", "slower"])
def test_a_note_is_optional(tmp_path: Path, note: str) -> None:
    line = f'note = "{note}"\n' if note else ""
    file = tmp_path / "revisions.toml"
    text = (ROOT / "patches" / "revisions.toml").read_text("utf-8")
    old = 'version = "0.5.23"\n'
    file.write_text(text.replace(old, old + line))
    found: Revisions = load_revisions(file)
    assert found.get("v0.5.23").note == note
