"""What each format loses of keys with outliers, and that docs/formats.md says what it does."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch

import format_tables as tool
from hiqcache.codecs import codec_names
from hiqcache.codecs.int4 import CLIPS
from hiqcache.codecs.layout import LONGEST_MOVER_ROW, MOVER_ALIGNMENT

OUTLIERS = [case for case in tool.OUTLIERS if case[1]]
CASES = pytest.mark.parametrize(("offset", "channels"), OUTLIERS)
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


# --- outliers ----------------------------------------------------------------------------------


@CASES
def test_the_outliers_are_where_and_as_large_as_they_are_said_to_be(
    offset: int, channels: int
) -> None:
    keys = tool.Draw.of(offset, channels).keys.double()
    far = (keys.mean(0).abs() > offset / 2).all(0)
    assert far.sum() == channels
    assert torch.allclose(
        keys.mean(0)[:, far].abs(), torch.tensor(float(offset)).double(), atol=0.2
    )
    assert torch.allclose(keys.std(0), torch.tensor(1.0).double(), atol=0.15)


@CASES
def test_an_offset_in_a_channel_changes_no_attention_weight(offset: int, channels: int) -> None:
    # What makes such keys harmless to the model, and every loss here the format's.
    draw = tool.Draw.of(offset, channels)
    keys = draw.keys.double()
    shifted, _ = draw.attention(keys - keys.mean(0), draw.values)
    weights, _ = draw.attention(keys, draw.values)
    assert torch.allclose(weights, shifted, atol=1e-9)


def test_without_outliers_rotating_costs_nothing() -> None:
    found = tool.losses(0, 0)
    assert found["int8-hadamard"].keys < 1.02 * found["int8"].keys
    assert found["int8-hadamard"].output < 1.05 * found["int8"].output < 0.011
    assert 5 < found["int4"].output / found["int8"].output < 20


@CASES
def test_rotated_int8_loses_much_less_than_int8(offset: int, channels: int) -> None:
    found = tool.losses(offset, channels)
    print(offset, channels, found)
    plain, rotated = found["int8"], found["int8-hadamard"]
    assert rotated.keys < plain.keys / 2
    assert 5.5 < plain.divergence / rotated.divergence < 45
    assert rotated.output < plain.output / 2


@CASES
def test_int8s_error_is_that_of_the_offset(offset: int, channels: int) -> None:
    # A step reaches the offset or some deviations more; its rounding errors' is step / 12**0.5.
    low, high = ((offset + more) / 127 / math.sqrt(12) for more in (-0.5, 3))
    assert low < tool.losses(offset, channels)["int8"].keys < high


@CASES
def test_k8v4_loses_of_keys_what_rotated_int8_does(offset: int, channels: int) -> None:
    found = tool.losses(offset, channels)
    assert found["k8v4"].keys == found["int8-hadamard"].keys
    assert found["k8v4"].divergence == found["int8-hadamard"].divergence
    assert 0.08 < found["k8v4"].output < 0.11


@CASES
def test_int4_is_not_for_keys_with_outliers(offset: int, channels: int) -> None:
    found = tool.losses(offset, channels)
    assert found["int4"].divergence > 4 * found["int8"].divergence
    assert found["int4"].divergence > 100 * found["int8-hadamard"].divergence
    assert found["int4"].output > 1.2 * tool.losses(0, 0)["int4"].output
    assert found["int4"].output < 0.65


@pytest.mark.parametrize("name", codec_names())
@pytest.mark.parametrize("offset", [20, 40])
def test_more_outliers_lose_no_less(name: str, offset: int) -> None:
    errors = [tool.losses(offset, channels)[name].keys for channels in (1, 2, 4)]
    assert errors == sorted(errors)
    assert errors[0] > tool.losses(0, 0)[name].keys


# --- the document ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def document() -> str:
    return tool.DOCUMENT.read_text("utf-8")


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def section_of(document: str, name: str) -> str:
    (found,) = tool.section_pattern(name).finditer(document)
    return found[2].strip()


@pytest.mark.parametrize("name", ["units", "sizes"])
def test_what_a_layout_fixes_is_in_the_document(name: str, document: str) -> None:
    assert section_of(document, name) == tool.SECTIONS[name]()


@pytest.mark.parametrize("name", ["losses", "drift", "heads"])
def test_what_is_measured_is_in_the_document(name: str, document: str) -> None:
    found, measured = section_of(document, name), tool.SECTIONS[name]()
    assert NUMBER.sub("#", found) == NUMBER.sub("#", measured)
    # Another processor may draw numbers that differ in their last bit.
    assert numbers(found) == pytest.approx(numbers(measured), rel=0.1, abs=1e-4)


def test_the_summary_is_of_the_codecs(document: str) -> None:
    raw = tool.qwen3_8b(64).bytes_per_token
    for name in codec_names():
        codec = tool.codec_of(name, tool.qwen3_8b(64))
        line = next(line for line in document.splitlines() if line.startswith(f"| `{name}` |"))
        assert line.endswith(
            f"{codec.bytes_per_token:,} B/token | {raw / codec.bytes_per_token:.3f} |"
        )
    assert f"{raw:,} B/token | 1 |" in document


@pytest.mark.parametrize(
    "claim",
    [
        f"{CLIPS[1]}, {CLIPS[2]}, ... {CLIPS[-1]} of it",
        f"rows of at most {LONGEST_MOVER_ROW:,} bytes",
        f"a multiple\nof {MOVER_ALIGNMENT} bytes",
        f"({tool.TOKENS:,} tokens, heads of {tool.HEAD_DIM} values, {tool.QUERIES} queries a head)",
        f"{torch.finfo(torch.float16).max:,.0f}",
        "off by up to 60 %",
    ],
)
def test_a_number_of_the_text_is_the_codes(claim: str, document: str) -> None:
    assert claim in document


def test_how_much_less_rotated_int8_diverges_is_the_tables(document: str) -> None:
    _, _, table = section_of(document, "losses").partition("weights, nats:\n\n")
    rows = [numbers(line) for line in table.splitlines()[2 : 2 + len(tool.OUTLIERS)]]
    ratios = [plain / rotated for offset, _, plain, rotated, *_ in rows if offset]
    assert len(ratios) == len(OUTLIERS)
    said = f"{min(ratios):.2g} to {max(ratios):.2g} times less"
    assert said in " ".join(document.split())


def test_writing_restores_what_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: str
) -> None:
    copy = tmp_path / "formats.md"
    copy.write_text(document.replace("74,880 |", "74,881 |"), "utf-8")
    monkeypatch.setattr(tool, "DOCUMENT", copy)
    monkeypatch.setattr(tool, "SECTIONS", {"sizes": tool.sizes_section})
    assert tool.main(["--write"]) == 0
    assert copy.read_text("utf-8") == document


def test_a_document_without_markers_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    document: str,
) -> None:
    copy = tmp_path / "formats.md"
    copy.write_text(document.replace("<!-- drift", "<!-- draft"), "utf-8")
    monkeypatch.setattr(tool, "DOCUMENT", copy)
    monkeypatch.setattr(tool, "SECTIONS", {"drift": tool.drift_section})
    assert tool.main(["--write"]) == 1
    assert "formats.md does not have the markers of 'drift' once; put" in capsys.readouterr().err


def test_the_tool_prints_what_the_document_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], document: str
) -> None:
    monkeypatch.setattr(tool, "SECTIONS", {"units": tool.units_section})
    assert tool.main([]) == 0
    assert capsys.readouterr().out in document
    assert tool.main(["--frob"]) == 2
    assert capsys.readouterr().err == (
        "format_tables.py: unrecognized arguments: --frob; see format_tables.py --help\n"
    )
