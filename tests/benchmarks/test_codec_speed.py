"""The benchmark of speed: its rows and its refusals. No speed is judged."""

from __future__ import annotations

import json
from pathlib import Path

import codec_speed
import pytest

from kvbench.catalogue import OURS, all_formats


def test_every_format_that_runs_here_has_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    command = ["--tokens", "64", "--repeats", "1", "--json", str(out)]
    assert codec_speed.main(command) == 0
    found = json.loads(out.read_text())
    assert found["bytes"] == 2 * 2 * 8 * 64 * 8 * 128
    expected = [form.name for form in all_formats() if form.kind != "emulation"]
    assert [row["name"] for row in found["rows"]] == [codec_speed.COPY, *expected]
    assert all(len(row["seconds"]["decode"]) == 1 for row in found["rows"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in expected)


def test_ours_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert codec_speed.main(["--tokens", "64", "--repeats", "1", "--ours"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == [codec_speed.COPY, *OURS]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--tokens", "100"),
        ("--tokens", "0"),
        ("--tokens", "6400000000"),
        ("--repeats", "0"),
        ("--threads", "100000000000"),
        ("--json", "no/where.json"),
    ],
)
def test_what_nothing_can_be_measured_with_is_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert codec_speed.main([option, value]) == 2
    assert option in capsys.readouterr().err
