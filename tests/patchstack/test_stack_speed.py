"""``benchmarks/stack_speed.py``: what it refuses before it measures, and what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import stack_speed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeats", "0"], "--repeats must be 1 or more; see --help"),
        (["--json", "no/where.json"], "--json no/where.json: no such folder; mkdir -p no"),
        (["--json", "."], "--json . is a folder; name a file in it"),
    ],
)
def test_what_would_fail_at_the_end_is_refused_at_once(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stack_speed, "bring_wheel", lambda _: pytest.fail("it began"))
    assert stack_speed.main(arguments) == 2
    assert capsys.readouterr() == ("", f"stack_speed.py: {said}\n")


def test_every_time_is_in_the_table_and_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cold, first, *_ = stack_speed.CASES
    for name in ("bring_wheel", "bring_release"):
        monkeypatch.setattr(stack_speed, name, lambda _: None)
    monkeypatch.setattr(stack_speed, "measure", lambda *_: {cold: [3.0, 1.0, 2.0]})
    file = tmp_path / "times.json"
    assert stack_speed.main(["--json", str(file)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [*cold.group.split(), *cold.what.split(), "2.00", "1.00", "3.00"] in rows
    assert [first.group, first.what, "git", "is", "not", "installed"] in rows
    assert json.loads(file.read_text())["rows"] == [
        {"group": cold.group, "what": cold.what, "seconds": [3.0, 1.0, 2.0]}
    ]
    assert list(tmp_path.iterdir()) == [file]


def test_a_command_that_fails_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail = ("sh", "-c", "echo first; echo second >&2; exit 3")
    monkeypatch.setattr(stack_speed, "bring_wheel", lambda place: place.run(*fail))
    assert stack_speed.main([]) == 1
    assert capsys.readouterr() == (
        "", "stack_speed.py: sh: first second; put that right and run again\n",
    )  # fmt: skip
