"""How formats are compared: who dominates whom, the goals, the report and the plot."""

from __future__ import annotations

import json
from io import StringIO
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from kvbench import texts
from kvbench.catalogue import all_formats
from kvbench.goals import NVFP4, goals
from kvbench.measure import Run
from kvbench.page import page
from kvbench.plot import draw
from kvbench.report import Report
from kvbench.results import Result, dominators

HARDNESS = np.random.default_rng(0).lognormal(sigma=0.3, size=27)
#: Bits and KL of a run whose every goal is met.
GOOD = {
    "int8": (8.25, 1.0e-4),
    "int8-hadamard": (8.25, 3.0e-5),
    "k8v4": (6.25, 1.0e-3),
    "int4": (4.25, 6.5e-3),
    "gguf q8_0": (8.5, 5.0e-5),
    "gguf q4_0": (4.5, 1.2e-2),
    NVFP4: (4.5, 1.6e-2),
}


def result(name: str, bits: float, kl: float, noise: float = 0.0) -> Result:
    """Make up a format whose KL on each text is that times how hard the text is."""
    own = np.random.default_rng(sum(map(ord, name))).lognormal(sigma=noise, size=27)
    ours = name in ("int8", "int8-hadamard", "k8v4", "int4")
    return Result(
        name=name,
        kind="ours" if ours else "peer",
        version="1",
        made="up",
        bits=bits,
        divergence=kl * HARDNESS * own,
        agreement=np.full(27, 0.99),
        surprise=np.full(27, 0.001),
        groups=dict.fromkeys(texts.GROUPS, kl),
        largest=30 * kl,
    )


def run(**changed: tuple[float, float]) -> list[Result]:
    found = GOOD | {name.replace("_", "-"): figures for name, figures in changed.items()}
    return [result(name, *figures) for name, figures in found.items()]


def missed(results: list[Result]) -> list[str]:
    return [goal.text for goal in goals(results) if not goal.met]


class TestDomination:
    def test_no_more_bits_and_a_lower_kl(self) -> None:
        better, worse = result("a", 4.25, 1e-3), result("b", 4.5, 2e-3)
        assert better.dominates(worse)
        assert not worse.dominates(better)

    def test_more_bits_never(self) -> None:
        assert not result("a", 4.5, 1e-3).dominates(result("b", 4.25, 2e-3))

    def test_a_codebook_is_no_more_bits(self) -> None:
        assert result("a", 4.5002, 1e-3).dominates(result("b", 4.5, 2e-3))

    def test_a_difference_within_the_interval_never(self) -> None:
        assert not result("a", 4.5, 1.0e-3, noise=1.0).dominates(result("b", 4.5, 1.05e-3))

    def test_a_format_does_not_dominate_itself(self) -> None:
        one = result("a", 4.5, 1e-3)
        assert dominators(one, [one, result("b", 4.0, 1e-4)]) == ["b"]


class TestGoals:
    def test_all_are_met(self) -> None:
        assert len(goals(run())) == 8
        assert missed(run()) == []

    def test_a_rotation_that_gains_little(self) -> None:
        assert missed(run(int8_hadamard=(8.25, 4.5e-5))) == [
            "int8-hadamard: at most 0.4 of the KL of int8"
        ]

    def test_a_format_of_as_many_bits_is_not_below(self) -> None:
        assert missed(run(int4=(4.5, 6.5e-3))) == ["int4: below the KL of gguf q4_0 at fewer bits"]

    def test_a_dominated_format_and_who_dominates_it(self) -> None:
        results = [*run(), result("somebody's", 6.0, 5e-4)]
        found = [goal for goal in goals(results) if not goal.met]
        assert [(goal.text, goal.found) for goal in found] == [
            ("k8v4: dominated by no peer", "somebody's")
        ]

    def test_the_plain_format_may_be_dominated(self) -> None:
        assert missed([*run(), result("somebody's", 8.25, 5e-5)]) == []


@pytest.fixture
def report() -> Report:
    return Report.of(Run("", texts.documents(), 3, []), run(), goals(run()))


class TestReport:
    def test_the_table_has_every_format_and_goal(self, report: Report) -> None:
        written = StringIO()
        report.show(Console(width=140, file=written))
        text = written.getvalue()
        assert all(name in text for name in GOOD)
        assert text.count("met ") == 8
        assert "20,736 in all" in " ".join(text.split())

    def test_the_page_has_a_row_for_each(self, report: Report) -> None:
        lines = page(report, "plot.svg").splitlines()
        rows = [line for line in lines if line.startswith("| ")]
        assert len(rows) == 2 + len(GOOD) + 2 + 8 + 2 + 4
        assert "| **int8** | ours | 8.250 |" in "\n".join(rows)
        assert "![bits for each value against KL](plot.svg)" in lines

    def test_padding_is_told(self, report: Report) -> None:
        row = next(line for line in page(report, "").splitlines() if line.startswith("| int4 |"))
        cells = [float(cell) for cell in row.split("|")[2:-1]]
        assert cells == sorted(cells[:4], reverse=True) + sorted(cells[4:], reverse=True)
        assert cells[3] == cells[7] == 4.25

    def test_the_json_has_every_document(self, report: Report) -> None:
        found = json.loads(report.as_json())
        assert len(found["documents"]) == 27
        assert {row["name"] for row in found["formats"]} == set(GOOD)
        assert all(len(row["kl_by_document"]) == 27 for row in found["formats"])

    def test_what_was_written_is_read(self, report: Report) -> None:
        again = Report.read(report.as_json())
        assert again.as_json() == report.as_json()
        assert page(again, "") == page(report, "")


class TestPlot:
    def test_every_name_finds_a_free_place(self) -> None:
        names = [form.name for form in all_formats()]
        places = [(8.25, 3e-5), (4.5, 1e-2), (5.0, 7e-3)]  # where the formats really are
        crowded = [result(name, *places[at % 3], noise=0.3) for at, name in enumerate(names)]
        ElementTree.fromstring(draw(crowded))  # draw refuses names that would overlap

    def test_the_same_results_are_the_same_file(self) -> None:
        assert draw(run()) == draw(run())
