"""The command that runs all, and the committed page that it makes."""

from __future__ import annotations

from pathlib import Path

import experiment
import pytest
import report
import reproduce
import simulate

from evidence.cases import SMALL
from formats.capacity import Deployment, capacity
from formats.models import PRESETS

ROOT = Path(__file__).parents[2]
PARSERS = {
    "experiment.py": experiment.parser,
    "simulate.py": simulate.parser,
    "report.py": report.parser,
}


@pytest.mark.parametrize("chosen", [reproduce.full, reproduce.quick])
def test_its_commands_are_ones(chosen):
    for tool, *arguments in chosen(Path("out")).commands():
        PARSERS[tool]().parse_args(arguments)


def test_sweeps_are_simulated_at_the_scale_at_which_they_are_run():
    given = simulate.parser().parse_args(["--model", "qwen3-8b", *reproduce._SMALL])
    w = SMALL.workload
    assert (given.l1, given.prefix, given.question) == (
        SMALL.l1_tokens, w.prefix_tokens, w.question_tokens
    )  # fmt: skip
    assert (given.page_size, given.chunk) == (SMALL.page_size, 4096)
    assert (given.output, given.concurrency) == (w.output_tokens, w.concurrency)
    found = capacity(Deployment("m", PRESETS["qwen3-8b"], 1, 1), "none", [given.size])
    assert found.filled[0].tokens == SMALL.l2_tokens


def test_the_list_is_what_would_be_run(capsys):
    assert reproduce.main(["--quick", "--list", "--out", str(ROOT / "elsewhere")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list(reproduce.quick(Path("elsewhere")).commands()))
    assert lines[0] == ("tools/experiment.py equal-bytes --scale small --repeats 1 --out elsewhere")


def test_a_command_that_fails_ends_it(monkeypatch, tmp_path):
    (tmp_path / "experiment.py").write_text("import sys; sys.exit(1)")
    monkeypatch.setattr(reproduce, "TOOLS", tmp_path)
    with pytest.raises(reproduce.ToolError, match=r"experiment.py equal-bytes ended with code 1"):
        reproduce.carry_out(reproduce.quick(tmp_path / "out"))


def test_the_environment_is_asked_for(capsys):
    """Where these tests run there is no SGLang."""
    assert reproduce.main(["--quick"]) == 2
    assert "tox -e reproduce" in capsys.readouterr().err


def test_the_committed_page_is_what_the_results_say(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    *_, (tool, *arguments) = reproduce.full(Path("results")).commands()
    assert tool == "report.py"
    without_html = arguments[: arguments.index("--html")]
    assert report.main([*without_html, "--check"]) == 0, capsys.readouterr().out
