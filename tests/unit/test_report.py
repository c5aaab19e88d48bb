"""``tools/report.py``: what it says of synthetic runs, and what it refuses to say."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import report as tool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.record import Record
from patchstack.errors import Exit, ToolError
from reporting.break_even import break_evens
from reporting.capacity_figure import capacities, draw_capacity
from reporting.content import Document, Plot, Section, Text
from reporting.distortion import load_distortion
from reporting.distortion_plot import draw_distortion
from reporting.document import make_document
from reporting.files import make_files
from reporting.hit_plot import draw_hits
from reporting.inputs import Inputs
from reporting.loading import LARGEST_NUMBER, build, clean
from reporting.looks import looks
from reporting.markdown_page import to_markdown
from reporting.measures import FIRST_TOKEN, HIT_RATE, JUDGED, three_digits
from reporting.restore import load_restore
from reporting.restore_plot import RECOMPUTED, draw_restore
from reporting.runs import Results, load_runs
from reporting.simulation import Compared, Simulation, Validation, load_simulations
from reporting.simulation_plot import draw_simulated
from reporting.spread import Difference, Spread
from reporting.ttft_plot import draw_first_tokens
from reporting.unmeasured import DISTORTION, ON_A_GPU, RESTORE, SIMULATIONS, VALIDATION
from reporting.validation_plot import draw_validation
from reporting.varied import WORKING_SET
from tests.synthetic_runs import (
    CONFIGURATIONS,
    SWEEPS,
    WORKLOAD,
    synthetic_restore,
    synthetic_run,
    synthetic_runs,
    synthetic_simulation,
    synthetic_sweep,
    synthetic_validation,
    write_json,
    write_runs,
)

DISTORTIONS = Path(__file__).parents[2] / "docs" / "rate-distortion.json"
SMALL = replace(WORKLOAD, groups=4, prompts_per_group=2)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three repeats of three configurations."""
    return write_runs(tmp_path / "runs", synthetic_runs(repeats=3, workload=SMALL))


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run the tool and return what it printed."""
    assert tool.main([*map(str, arguments)]) == Exit.DONE
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run the tool and return the line that it refuses with."""
    assert tool.main([*map(str, arguments)]) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def page_of(*records: Record, **others: Any) -> str:
    """Return the Markdown page of some runs."""
    return to_markdown(make_document(Inputs(Results(records), **others)), "plots")


def simulation(folder: Path, varied: str = "working-set", /, **changes: Any) -> Simulation:
    """Return a sweep as it is read."""
    file = write_json(folder / varied, {**synthetic_simulation(varied), **changes})
    return load_simulations([file])[0]


def rows_of(page: str, name: str) -> list[list[str]]:
    """Return the cells of all rows of that name."""
    found = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in found]
    return [row[1:] for row in cells if row[0] == name]


# --- repeats and differences -------------------------------------------------------------------


def test_a_spread_is_a_median_and_its_bounds() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)


def test_a_constant_difference_is_told_apart_and_none_is_not() -> None:
    assert Difference.between([2.0, 3.0, 4.0], [1.0, 2.0, 3.0]).told_apart
    assert not Difference.between([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).told_apart
    assert not Difference.between([2.0, 3.0], [1.0, 2.0]).told_apart, (
        "two pairs may agree by chance"
    )


def test_one_pair_tells_nothing() -> None:
    found = Difference.between([5.0], [1.0])
    assert (found.pairs, found.told_apart) == (1, False)
    assert FIRST_TOKEN.difference(found) == "not told apart (one pair)"


def test_no_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="no pair"):
        Difference.between([], [])


@pytest.mark.parametrize(("pairs", "half"), [(2, 12.706), (3, 4.303), (5, 2.776), (21, 2.086)])
def test_the_interval_is_students(pairs: int, half: float) -> None:
    values = np.random.default_rng(0).normal(size=pairs)
    found = Difference.between(values.tolist(), [0.0] * pairs)
    assert found.high - found.mean == pytest.approx(half * values.std(ddof=1) / pairs**0.5)


@pytest.mark.parametrize("pairs", [3, 5, 8, 25, 60])
def test_equal_configurations_are_seldom_told_apart(pairs: int) -> None:
    draw = np.random.default_rng(pairs)
    claims = [
        Difference.between(*draw.normal(size=(2, pairs)).tolist()).told_apart for _ in range(2000)
    ]
    assert 0.03 < np.mean(claims) < 0.07


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60), st.floats(-1e6, 1e6))
def test_an_interval_holds_its_mean(values: list[float], other: float) -> None:
    found = Difference.between(values, [other] * len(values))
    assert found.low <= found.mean <= found.high


def test_equal_runs_are_not_told_apart() -> None:
    """Two configurations whose times are drawn from the same distribution."""
    raw = synthetic_runs(["raw"], workload=SMALL, seed=1)
    same = [
        replace(other, setup=replace(other.setup, configuration="int8"))
        for other in synthetic_runs(["raw"], workload=SMALL, seed=2)
    ]
    for cells in rows_of(page_of(*raw, *same), "time to first token, mean, s")[1:]:
        assert cells[0].startswith("not told apart (")


def test_different_runs_are_told_apart() -> None:
    raw = synthetic_runs(["raw"], seed=1)
    slow = [
        replace(other, setup=replace(other.setup, configuration="int8"))
        for other in synthetic_runs(["raw"], seed=1, slowness=1.5)
    ]
    page = page_of(*raw, *slow)
    assert rows_of(page, "time to first token, mean, s")[-1][0].startswith("+0.")
    assert rows_of(page, "hit rate, percentage points") == [["not told apart (+0.0 to +0.0)"]]


def test_repeats_are_paired_by_their_number() -> None:
    """The second repeat of one and the first of the other are no pair."""
    raw, int8 = synthetic_run("raw", 0, workload=SMALL), synthetic_run("int8", 1, workload=SMALL)
    assert rows_of(page_of(raw, int8), "hit rate, percentage points") == [["-"]]


# --- what the page says ------------------------------------------------------------------------


def test_figures_are_medians_over_repeats() -> None:
    records = synthetic_runs(workload=replace(WORKLOAD, prompts_per_group=1))
    rates = [100 * one.hit_rate for one in records if one.setup.configuration == "raw"]
    cells = dict(zip(CONFIGURATIONS, rows_of(page_of(*records), "hit rate, %")[0], strict=True))
    assert cells["raw"] == f"{median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"


def test_each_figure_has_its_row_and_unit() -> None:
    page = page_of(*synthetic_runs(workload=SMALL))
    for title in ("L2 capacity, tokens", "L2 memory, bytes", "L2, bytes/token", "repeats"):
        assert len(rows_of(page, title)[0]) == len(CONFIGURATIONS)
    for measure in JUDGED:
        assert rows_of(page, measure.title)
        assert rows_of(page, measure.difference_title)


def test_none_and_raw_come_first() -> None:
    page = page_of(*synthetic_runs(["int4", "int8", "raw", "none"], 2, workload=SMALL))
    assert "| median (least to largest repeat) | none | raw | int4 | int8 |" in page


def test_working_sets_are_not_mixed() -> None:
    results = Results(tuple(synthetic_sweep()))
    assert [len(cases) for cases in results.experiments.values()] == [5]
    assert all(len(one.runs) == 3 for case in results.cases for one in case.configurations)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"groups": 7}, "working set 5,376 tokens"),
        ({"prefix_tokens": 100}, "prefixes of 100 tokens"),
        ({"concurrency": 64}, "64 requests at a time"),
    ],
)
def test_cases_are_called_by_what_is_varied(changes: dict[str, Any], said: str) -> None:
    other = synthetic_run(workload=replace(SMALL, **changes))
    cases = Results((synthetic_run(workload=SMALL), other)).cases
    assert said in [case.said for case in cases]
    assert len({case.said for case in cases}) == 2
    (axes,) = draw_hits(cases, cases[0].varied).axes
    assert axes.get_xlabel() == cases[0].varied.axis


def test_seeds_of_repeats_are_repeats() -> None:
    records = [
        synthetic_run("raw", repeat, workload=replace(SMALL, seed=repeat)) for repeat in range(3)
    ]
    (case,) = Results(tuple(records)).cases
    assert len(case.configurations[0].runs) == 3


def test_two_sizes_of_one_codec_have_names_of_their_own() -> None:
    one = synthetic_run("int8", workload=SMALL)
    other = replace(one, setup=replace(one.setup, sizing="tokens", l2_tokens=11_968))
    (case,) = Results((one, other)).cases
    names = [each.name for each in case.configurations]
    assert names == ["int8, 23,040 tokens by bytes", "int8, 11,968 tokens by tokens"]


def test_invalid_runs_are_named_and_have_no_part_in_figures() -> None:
    good = synthetic_runs(workload=SMALL, repeats=2)
    bad = replace(synthetic_run("int8", 2, workload=SMALL), invalid="restored *nothing*", seconds=0)
    page = page_of(*good, bad)
    assert r"equal-bytes, int8, repeat 2: restored \*nothing\*" in page
    assert "7 runs of the experiments equal-bytes; 1 of them cannot be used" in page
    assert rows_of(page, "repeats") == [["2", "2", "2"]]


def test_a_page_of_invalid_runs_alone_claims_nothing() -> None:
    page = page_of(replace(synthetic_run(workload=SMALL), invalid="no server", requests=()))
    assert "No two configurations of a workload were measured" in page
    assert "told apart" not in page


def test_provenance_is_that_of_all_runs() -> None:
    page = page_of(*synthetic_runs(workload=SMALL))
    assert rows_of(page, "packages sglang") == [["0.5.23+hiqcache.1"]]
    assert rows_of(page, "revision") == [["0123456789abcdef0123456789abcdef01234567"]]
    ((load,),) = rows_of(page, "load")
    assert " to " in load
    assert "    python3 -m sglang.launch\\_server" not in page
    assert "    python3 -m sglang.launch_server --model-path synthetic" in page
    assert "/usr/bin" not in page


def test_what_is_said_first_is_of_experiments_of_one_workload() -> None:
    page = page_of(*synthetic_runs(workload=SMALL), *synthetic_sweep())
    first = page.split("## Experiment")[0]
    assert "equal-bytes, working set 3,072 tokens: int8 - raw" in first
    assert "working-set, " not in first


def test_runs_of_other_code_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = synthetic_runs(workload=SMALL, repeats=2)
    other = replace(runs[-1], provenance={**runs[-1].provenance, "torch": "1.0"})
    folder = write_runs(tmp_path / "runs", [*runs[:-1], other])
    assert "runs of different code or machines" in refused(capsys, folder)
    unused = replace(other, invalid="it was disturbed")
    written = write_runs(tmp_path / "others", [*runs[:-1], unused])
    assert load_runs([written])


def test_a_configuration_without_first_tokens_has_no_curve() -> None:
    runs = synthetic_runs(workload=SMALL)
    silent = [
        replace(one, requests=tuple(replace(each, ttft_s=0.0) for each in one.requests))
        if one.setup.configuration == "int8" else one
        for one in runs
    ]  # fmt: skip
    assert rows_of(page_of(*silent), "time to first token, mean, s")[0][-1] == "-"


def test_what_served_is_said_first() -> None:
    runs = synthetic_runs(workload=SMALL)
    said = "No time here says anything about a GPU."
    told = f"Measured with synthetic-135m on: cpu. {said}"
    assert told in page_of(*_on("cpu", runs)).split("## Experiment")[0]
    assert "on: NVIDIA L4." in (page := page_of(*_on("NVIDIA L4", runs))) and said not in page


def _on(device: str, runs: Sequence[Record]) -> list[Record]:
    return [replace(one, provenance={**one.provenance, "device": device}) for one in runs]


def test_sweeps_come_last() -> None:
    sweep = [replace(one, setup=replace(one.setup, experiment="a")) for one in synthetic_sweep()]
    page = page_of(*sweep, *synthetic_runs(workload=SMALL))
    assert page.index("## Experiment: equal-bytes") < page.index("## Experiment: a\n")


def test_one_repeat_is_no_difference_and_no_table_of_them() -> None:
    page = page_of(*synthetic_runs(workload=SMALL, repeats=1))
    assert (
        "There is one repeat, which tells no two of them apart." in page.split("## Experiment")[0]
    )
    assert "one pair" not in page and "| difference |" not in page


def test_a_sweep_has_a_row_for_each_workload() -> None:
    runs = synthetic_sweep()
    page = page_of(*runs)
    names = dict.fromkeys(one.setup.configuration for one in runs)
    assert page.count(f"| workload | {' | '.join(names)} |") == 2, "hits and waits"
    sizes = {one.setup.workload.working_set_tokens for one in runs}
    for size in sizes:
        hits, waits = rows_of(page, f"working set {size:,} tokens")
        assert len(hits) == len(waits) == len(names) and "-" not in (*hits, *waits)


def test_each_run_is_drawn_against_its_simulation() -> None:
    runs = (Compared("a", "raw", 40.0, 41.0), Compared("b", "int8", 70.0, 70.5))
    (axes,) = draw_validation(Validation(2.0, runs)).axes
    marks = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert (marks["raw"], marks["int8"]) == ([[41, 40]], [[70.5, 70]])
    bounds = [line.get_ydata()[0] for line in axes.lines[:3]]
    assert bounds == [0, -2, 2]


def test_what_did_not_serve_a_workload_of_a_sweep_has_no_figure() -> None:
    *runs, last = synthetic_sweep()
    largest = last.setup.workload
    kept = [one for one in runs if (one.setup.workload, one.setup.configuration) != (
        largest, last.setup.configuration)]  # fmt: skip
    hits, waits = rows_of(page_of(*kept), f"working set {largest.working_set_tokens:,} tokens")
    assert (hits[-1], waits[-1]) == ("-", "-") and "-" not in hits[:-1]


def test_what_a_policy_copies_and_when_is_said() -> None:
    runs = synthetic_runs(workload=SMALL)
    back = [replace(one, setup=replace(one.setup, write_policy="write_back")) for one in runs]
    assert "copies to L2 what it has computed" in page_of(*runs)
    assert "copies to L2 what L1 gives up" in page_of(*back)


def test_the_reference_stands_beside_ours() -> None:
    page = page_of(*synthetic_runs(workload=SMALL))
    seed = ["12.2", "56.1 (repeats 56.8 to 57.6)", "72.7 (repeats 72.7 to 73.4)"]
    assert rows_of(page, "reference") == [seed]
    assert "Qwen3-8B on an NVIDIA A6000" in page


def test_the_l2_has_its_use_and_what_was_dropped_for_which_reason() -> None:
    page = page_of(*synthetic_runs(workload=replace(WORKLOAD, groups=48)))
    assert rows_of(page, "used at the end, tokens") == [["-", "11,781", "22,680"]]
    assert rows_of(page, "used at the end, % of capacity") == [["-", "98.4", "98.4"]]
    assert rows_of(page, "used at most, tokens") == [["-", "11,968", "23,040"]]
    assert rows_of(page, "hicache dropped, host pressure, tokens") == [["-", "8,298", "4,608"]]
    assert rows_of(page, "evicted, tokens") == [["60,000", "60,000", "60,000"]]


def test_what_was_not_measured_has_its_command() -> None:
    page = page_of(*synthetic_runs(workload=SMALL))
    for missing in (*ON_A_GPU, RESTORE, DISTORTION, *SIMULATIONS.values(), VALIDATION):
        assert all(f"    {line}" in page for line in missing.commands)


def test_what_was_given_is_not_missing(tmp_path: Path) -> None:
    given = {
        "restore": load_restore(write_json(tmp_path / "r", synthetic_restore())),
        "simulations": (simulation(tmp_path), simulation(tmp_path, "budget")),
        "distortion": load_distortion(DISTORTIONS),
    }
    page = page_of(*synthetic_runs(workload=SMALL), **given)
    for missing in (RESTORE, DISTORTION, SIMULATIONS["working-set"], SIMULATIONS["budget"]):
        assert f"    {missing.commands[0]}\n" not in page
    for missing in (VALIDATION, SIMULATIONS["prefix"], SIMULATIONS["concurrency"]):
        assert f"    {missing.commands[0]}" in page
    assert rows_of(page, "int8, 512 tokens")[0][-1] == "6,144,000"


def test_gains_of_restores_are_claimed_by_the_same_rule(tmp_path: Path) -> None:
    found = synthetic_restore()
    found["rows"][-1].update(ttft_s=[1.0, 2.0, 3.0], cold_ttft_s=[2.9, 2.1, 1.0])
    page = page_of(
        synthetic_run(workload=SMALL), restore=load_restore(write_json(tmp_path / "r", found))
    )
    assert rows_of(page, "int8, 4,096 tokens")[0][2].startswith("not told apart")
    assert rows_of(page, "raw, 4,096 tokens")[0][2].startswith("+")


def test_a_run_that_was_done_again_is_not_there_twice(tmp_path: Path) -> None:
    good = synthetic_run("int8", 2, workload=SMALL)
    bad = replace(good, position=good.position - 1, invalid="it was disturbed")
    write_runs(tmp_path, [bad, good])
    assert [run.invalid for run in load_runs([tmp_path])] == ["it was disturbed", None]


def test_decoding_is_weighed_where_it_was_timed(tmp_path: Path) -> None:
    found = load_restore(write_json(tmp_path / "r", synthetic_restore()))
    page = page_of(synthetic_run(workload=SMALL), restore=found)
    restored, weighed = rows_of(page, "int8, 512 tokens")
    one = next(one for one in break_evens(found) if one.prefix_tokens == 512)
    rows = {row.configuration: row for row in found.rows if row.prefix_tokens == 512}
    times = median(rows["int8"].ttft_s) / median(rows["raw"].ttft_s)
    assert restored[3] == three_digits(times)
    assert weighed[1] == three_digits(one.bandwidth / 1e9) != restored[1]
    assert len(rows_of(page, "raw, 512 tokens")) == 1
    untimed = synthetic_restore()
    for row in untimed["rows"]:
        row["phases"] = {}
    other = load_restore(write_json(tmp_path / "u", untimed))
    assert "Break-even" not in page_of(synthetic_run(workload=SMALL), restore=other)


def test_runs_beside_their_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    validation = write_json(tmp_path / "v.json", synthetic_validation())
    write_runs(tmp_path / "runs", synthetic_runs(repeats=1, workload=SMALL))
    page = tmp_path / "page.md"
    run(capsys, tmp_path / "runs", "--validation", validation, "--page", page)
    text = page.read_text()
    assert "1 of 3 runs differ by more than 1.5" in text
    assert "002-int8-0.json: 52.0 % simulated, 50.2 % in the engine" in text


def test_a_simulation_is_compared_with_runs_of_its_sizes_alone(tmp_path: Path) -> None:
    found = simulation(tmp_path)
    same = synthetic_run("raw")
    other = replace(same, setup=replace(same.setup, l1_tokens=4096))
    assert [found.is_of(case) for case in Results((same, other)).cases] == [True, False]
    skewed = simulation(tmp_path, scene={**synthetic_simulation()["scene"], "zipf": 1.1})
    assert not skewed.is_of(Results((same,)).cases[0])


def test_l2s_of_the_same_tokens_are_not_those_of_the_same_bytes(tmp_path: Path) -> None:
    raw, int8 = synthetic_run("raw"), synthetic_run("int8")
    assert int8.pool
    alike = replace(int8, pool=raw.pool, setup=replace(int8.setup, sizing="tokens"))
    found = simulation(tmp_path)
    assert found.is_of(Results((raw, int8)).cases[0])
    assert not found.is_of(Results((raw, alike)).cases[0])


@pytest.mark.parametrize(
    ("varied", "changes", "same"),
    [
        ("working-set", {"groups": 48}, True),
        ("working-set", {"concurrency": 8}, False),
        ("prefix", {}, True),
        ("prefix", {"groups": 16, "prefix_tokens": 1536}, True),
        ("prefix", {"prefix_tokens": 1536}, False),
        ("concurrency", {"concurrency": 8, "seed": 7}, True),
        ("concurrency", {"groups": 48}, False),
        ("budget", {}, False),
    ],
)
def test_a_sweep_is_compared_with_what_was_measured_along_it(
    varied: str, changes: dict[str, int], same: bool, tmp_path: Path
) -> None:
    case = Results((synthetic_run("raw", workload=replace(WORKLOAD, **changes)),)).cases[0]
    assert simulation(tmp_path, varied).is_of(case) == same


def test_each_sweep_has_its_section(tmp_path: Path) -> None:
    sweeps = [simulation(tmp_path, varied) for varied in reversed(SWEEPS)]
    page = page_of(*synthetic_runs(("raw", "int8"), 1), simulations=tuple(sweeps))
    titles = [missing.what for missing in SIMULATIONS.values()]
    assert re.findall(r"^## (.*, simulated)$", page, re.MULTILINE) == titles
    sections = [page.split(f"## {title}\n")[1].split("\n## ")[0] for title in titles]
    for varied, section in zip(SIMULATIONS, sections, strict=True):
        assert "Simulated, with the bytes of synthetic-135m: " in section
        assert f"hit-rate-simulated-{varied}.svg" in section
        assert ("full marks: measured" in section) == (varied != "budget")
    assert "0.0246 million tokens of prefixes, 32 groups x 4 prompts" in sections[1]
    assert "0.0957 to 24.5 million tokens" in sections[1]


def test_each_sweep_says_where_more_tokens_pay_and_where_no_longer(tmp_path: Path) -> None:
    found = synthetic_simulation("budget", ("none", "raw", "int8", "int8-hadamard"))
    rates = {"none": [0] * 9, "raw": [1, 1, 1, 5, 9, 20, 40, 80, 80]}
    more = [1, 1, 3, 5, 19, 45, 80, 80, 80]
    for point in found["points"]:
        at = found["values"].index(point["value"])
        point["hit_rate"] = float(rates.get(point["format"], more)[at])
    found["ceilings"] = [80.0] * 9
    sweep = simulation(tmp_path, "budget", **found)
    page = page_of(synthetic_run(workload=SMALL), simulations=(sweep,))
    assert (
        "int8, int8-hadamard: at most 40.0 points above raw, at 512 GB per rank; 1 point or more "
        "at 32 and 128 to 512 GB per rank; within 1 point of all that could be hit at 512 to 2,048 "
        "GB per rank"
    ) in page.replace("\n  ", " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.41234, "0.412"), (1.0, "1.00"), (99.96, "100"), (1234.5, "1,234"), (0.0, "0.00"),
        (0.00000123, "1.23e-06"), (2e7, "2.00e+07"),
    ],
)  # fmt: skip
def test_three_digits(value: float, text: str) -> None:
    assert three_digits(value) == text


# --- drawings ----------------------------------------------------------------------------------


def figures(tmp_path: Path) -> dict[str, Any]:
    cases = Results(tuple(synthetic_sweep())).cases
    many = [*CONFIGURATIONS, "int8-hadamard", "k8v4", "int4", "a", "b", "c", "d", "e", "f"]
    wide = Results(tuple(synthetic_runs(many, 1, workload=SMALL))).cases
    simulated = {
        varied: draw_simulated(simulation(tmp_path, varied), cases if varied != "budget" else ())
        for varied in SWEEPS
    }
    return {
        "hits": draw_hits(cases, WORKING_SET),
        **simulated,
        "first tokens": draw_first_tokens(wide[0]),
        "restore": draw_restore(load_restore(write_json(tmp_path / "r", synthetic_restore()))),
        "capacity": draw_capacity(capacities()),
        "distortion": draw_distortion(load_distortion(DISTORTIONS).formats),
    }


def test_drawings_are_legible_in_grey_and_have_their_units(tmp_path: Path) -> None:
    for name, figure in figures(tmp_path).items():
        (axes,) = figure.axes
        handles, _ = axes.get_legend_handles_labels()
        lines = [handle[0] if isinstance(handle, tuple) else handle for handle in handles]
        marks = [str(line.get_marker()) for line in lines]
        assert len(set(marks)) == len(marks) > 1, name
        for label in (axes.get_xlabel(), axes.get_ylabel()):
            assert re.search(r", \S|bits for each value", label), (name, label)


def test_factors_are_drawn_as_equal_steps_where_there_are_several(tmp_path: Path) -> None:
    for varied in SWEEPS:
        (axes,) = draw_simulated(simulation(tmp_path, varied), ()).axes
        assert axes.get_xscale() == ("linear" if varied == "working-set" else "log"), varied
    near = synthetic_simulation("prefix")
    near["points"] = [point for point in near["points"] if point["value"] in (768, 1024)]
    found = simulation(tmp_path, "prefix", **{**near, "values": [768, 1024], "ceilings": [9, 9]})
    assert draw_simulated(found, ()).axes[0].get_xscale() == "linear"


def test_what_is_simulated_alike_is_one_line(tmp_path: Path) -> None:
    formats = ("raw", "int8", "int8-hadamard")
    found = simulation(tmp_path, "prefix", **synthetic_simulation("prefix", formats))
    _, names = draw_simulated(found, ()).axes[0].get_legend_handles_labels()
    assert names == ["ceiling", "raw", "int8, int8-hadamard"]


def test_lines_are_told_apart_by_their_dashes_too() -> None:
    dashes = [
        str(look["linestyle"])
        for look in looks([*CONFIGURATIONS, "int8-hadamard", "k8v4", "int4", RECOMPUTED]).values()
    ]
    assert len(set(dashes)) == len(dashes)


def test_the_look_of_a_configuration_does_not_depend_on_the_others() -> None:
    assert looks(["int8"])["int8"] == looks(CONFIGURATIONS)["int8"]


# --- one file, and nothing from elsewhere ------------------------------------------------------


class Seen(HTMLParser):
    """What a page has that could ask for something or run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def html_of(*records: Record) -> str:
    document = make_document(Inputs(Results(records)))
    return next(iter(make_files(document, Path("page.html"), None).values()))


def asserted_alone(page: str) -> Seen:
    """Assert that a page needs no other file and runs nothing."""
    seen = Seen(page)
    assert not {"script", "link", "iframe", "img", "object", "embed", "base"} & set(seen.tags)
    for name, value in seen.attributes:
        assert not name.startswith("on")
        if name in ("href", "src", "srcset", "xlink:href", "action", "data", "poster", "style"):
            assert value.startswith("#") or name == "style", (name, value)
    assert not re.search(r"url\((?!#)|@import|javascript:", page)
    return seen


def test_the_page_asks_for_nothing() -> None:
    seen = asserted_alone(html_of(*synthetic_runs(workload=SMALL)))
    ids = [value for name, value in seen.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    links = {value for name, value in seen.attributes if name.endswith("href")}
    assert links <= {f"#{name}" for name in ids}


HOSTILE = "</svg><script>alert(1)</script>|`*$x_1$\u202e\x1b[31m\x00&amp;<img src=//x onerror=y>"


def test_hostile_texts_are_shown_as_they_are() -> None:
    one = synthetic_run(workload=SMALL)
    setup = replace(one.setup, experiment=HOSTILE, configuration=HOSTILE, model=HOSTILE)
    runs = [
        replace(
            one, setup=setup, repeat=at, provenance={HOSTILE: HOSTILE}, invalid=bad,
            server_command=(HOSTILE,), counters={f'drop{{reason="{HOSTILE}"}}': 1.0},
        )
        for at, bad in enumerate((None, HOSTILE))
    ]  # fmt: skip
    cleaned = [build(Record, each) for each in runs]
    page = html_of(*cleaned)
    asserted_alone(page)
    assert "&lt;script&gt;alert(1)" in page
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", page)
    markdown = page_of(*cleaned)
    outside_code = re.sub(r"(?m)^    .*$", "", markdown)
    assert not re.search(r"(?<!\\)<", outside_code)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", markdown)


@pytest.mark.parametrize("words", ["# no heading", "- no item", "1. no item", "> none", "+ none"])
def test_a_paragraph_stays_one(words: str) -> None:
    page = to_markdown(Document("title", (Section("section", (Text(words),)),)), "plots")
    assert page.splitlines()[-1].replace("\\", "") == words
    assert "\\" in page.splitlines()[-1][:3]


# --- what is not a run -------------------------------------------------------------------------


def changed(path: Sequence[str | int], value: Any) -> str:
    """Return the JSON of a run in which one thing is another."""
    found = json.loads(json.dumps(asdict(synthetic_run(workload=SMALL))))
    place = found
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return json.dumps(found)


BROKEN = {
    "": "Expecting value",
    "[]": "is not a run",
    "null": "is not a run",
    '{"schema": 1}': "is not a run",
    "[" * 100_000: "recursion",
    "9" * 5000: "digits",
    changed(["schema"], 2): "schema 2, not 1",
    changed(["seconds"], float("nan")): "it has NaN in it",
    changed(["seconds"], float("inf")): "it has Infinity in it",
    changed(["seconds"], 0): "without time",
    changed(["seconds"], "1"): "seconds is no float",
    changed(["seconds"], None): "seconds is no float",
    changed(["requests"], []): "without a request",
    changed(["requests"], 3): "is not a run",
    changed(["requests", 0, "ttft_s"], True): "requests[0].ttft_s is no float",
    changed(["requests", 0, "ttft_s"], LARGEST_NUMBER * 10): "is no number that was measured",
    changed(["requests", 0, "itl_s"], ["x"]): "requests[0].itl_s[0] is no float",
    changed(["requests", 0, "group"], 0.5): "requests[0].group is no int",
    changed(["requests", 0, "ttft_s"], -1.0): "a request has a time or tokens below zero",
    changed(["requests", 0, "host_tokens"], 10**6): "more tokens in caches than in its prompt",
    changed(["repeat"], "0"): "repeat is no int",
    changed(["counters"], []): "counters is no",
    changed(["counters"], {"a": "b"}): "counters is no float",
    changed(["pool"], "big"): "is not a run",
    changed(["pool", "slots"], "4"): "pool.slots is no int",
    changed(["setup", "workload", "groups"], 0): "groups = 0",
    changed(["setup", "model"], 7): "setup.model is no str",
    changed(["provenance"], "here"): "provenance is no",
    changed(["log_tail"], [1]): "log_tail[0] is no str",
}


@pytest.mark.parametrize(("text", "why"), BROKEN.items(), ids=range(len(BROKEN)))
def test_what_is_no_run_is_one_line(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "run.json").write_text(text)
    said = refused(capsys, file, "--html", tmp_path / "page.html")
    assert str(file) in said
    assert why in said
    assert list(tmp_path.iterdir()) == [file]


def test_bytes_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file := tmp_path / "run.json").write_bytes(b'{"a": "\xff"}')
    assert "can't decode byte" in refused(capsys, file)


@pytest.mark.parametrize(
    ("option", "text", "why"),
    [
        ("restore", "{}", "no model"),
        ("restore", json.dumps({**synthetic_restore(), "kind": "x"}), "of kind x, schema 2"),
        ("restore", json.dumps({**synthetic_restore(), "rows": []}), "it has no rows"),
        ("restore", json.dumps({**synthetic_restore(), "rows": [1]}), "rows[0] is no object"),
        ("simulation", "[]", "it is no object"),
        ("simulation", json.dumps({**synthetic_simulation(), "varied": "l1"}), "it varies l1"),
        ("simulation", json.dumps({**synthetic_simulation(), "points": []}), "has a raw L2"),
        ("simulation", json.dumps({**synthetic_simulation(), "ceilings": []}), "have a ceiling"),
        ("simulation", json.dumps({**synthetic_simulation(), "values": [1.0] * 7}), "each of its"),
        ("simulation", json.dumps({**synthetic_simulation(), "ceilings": [101] * 7}), "101 % is"),
        ("simulation", json.dumps(synthetic_validation()), "is not a sweep of tools/simulate.py"),
        ("simulation", json.dumps(synthetic_restore()), "is not a sweep of tools/simulate.py"),
        ("validation", json.dumps(synthetic_simulation()), "is not a validation"),
        ("validation", '{"tolerated": 2, "runs": []}', "it has no runs"),
        ("validation", '{"tolerated": NaN, "runs": []}', "it has NaN in it"),
        ("rate-distortion", '{"formats": 1}', "formats is no"),
        ("rate-distortion", json.dumps({**synthetic_validation()}), "has no formats"),
    ],
)
def test_other_files_are_read_as_strictly(
    option: str, text: str, why: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "other.json").write_text(text)
    assert why in refused(capsys, runs, f"--{option}", file, "--html", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_one_sweep_of_each_kind(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write_json(tmp_path / "one.json", synthetic_simulation("budget"))
    other = write_json(tmp_path / "other.json", synthetic_simulation("budget"))
    said = refused(capsys, runs, "--simulation", one, other)
    assert f"{other} varies the budget, as another sweep does; give one of each" in said


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
RUN = json.loads(json.dumps(asdict(synthetic_run(workload=replace(SMALL, groups=1)))))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), value=ANYTHING)
def test_whatever_stands_in_a_run_it_is_read_or_refused(
    data: st.DataObject, value: Any, tmp_path: Path
) -> None:
    found = json.loads(json.dumps(RUN))
    place: Any = found
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        inside = place[key]
        if not (isinstance(inside, (dict, list)) and inside) or data.draw(st.booleans()):
            break
        place = inside
    place[key] = value
    (file := tmp_path / "run.json").write_text(json.dumps(found))
    try:
        page_of(*load_runs([file])).encode()
    except ToolError as error:
        assert "\n" not in str(error)
        assert error.exit_code == Exit.USAGE


@given(st.text())
def test_clean_text_can_be_written_and_shows_itself(text: str) -> None:
    clean(text).encode("utf-8")
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", clean(text))


# --- the command line --------------------------------------------------------------------------


def test_it_prints_a_line_for_each_configuration(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_words = re.findall(r"(?m)^  (\S+)", run(capsys, runs))
    assert [word for word in first_words if word in CONFIGURATIONS] == [*CONFIGURATIONS]


def test_json_has_every_figure(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, runs, "--json"))
    (case,) = found["cases"]
    assert set(case["configurations"]) == set(CONFIGURATIONS)
    assert case["configurations"]["raw"][HIT_RATE.title]["runs"] == 3
    assert set(case["differences"]) == {"raw - none", "int8 - raw"}
    apart = case["differences"]["raw - none"]["hit rate, percentage points"]
    assert set(apart) == {"mean", "low", "high", "pairs", "told_apart"}


def test_a_difference_without_bounds_is_json_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_runs(tmp_path, synthetic_runs(repeats=1, workload=SMALL))
    (case,) = json.loads(run(capsys, tmp_path, "--json"))["cases"]
    assert case["differences"]["raw - none"]["output, tokens/s"]["low"] is None


def test_other_measurements_in_a_folder_of_runs_are_passed_over(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(runs / "restore.json", synthetic_restore())
    assert json.loads(run(capsys, runs, "--json"))["runs"] == 9


def test_the_page_and_its_drawings_are_files(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "results.md"
    run(capsys, runs, "--page", page, "--rate-distortion", DISTORTIONS)
    shown = re.findall(r"\]\((results/[\w-]+\.svg)\)", page.read_text())
    assert len(shown) == 3
    assert sorted((tmp_path / "results").iterdir()) == sorted(tmp_path / name for name in shown)
    for name in shown:
        asserted_alone((tmp_path / name).read_text())


def test_the_same_runs_give_the_same_files(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        run(capsys, runs, "--html", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def check(capsys: pytest.CaptureFixture[str], *arguments: Path | str) -> list[str]:
    """Return what a check finds."""
    code = tool.main([*map(str, arguments), "--check"])
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert code == (Exit.DONE if lines == ["the page is what the results say"] else Exit.FINDINGS)
    return lines if code else []


def test_a_stale_page_is_found(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, html = tmp_path / "results.md", tmp_path / "results.html"
    both = (runs, "--page", page, "--html", html)
    run(capsys, *both)
    assert check(capsys, *both) == []
    write_runs(runs, [synthetic_run("raw", 3, workload=SMALL)])
    drawing = tmp_path / "results" / "first-tokens-1.svg"
    stale = [f"{file} is not what the results say" for file in (html, page, drawing)]
    assert check(capsys, *both) == stale


def test_a_page_of_other_sweeps_is_stale(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "results.md"
    files = [write_json(tmp_path / f"{at}.json", synthetic_simulation(at)) for at in SWEEPS]
    run(capsys, runs, "--page", page, "--simulation", *files)
    assert check(capsys, runs, "--page", page, "--simulation", *reversed(files)) == []
    found = synthetic_simulation("prefix")
    found["points"][0]["hit_rate"] += 5
    write_json(tmp_path / "prefix.json", found)
    drawing = tmp_path / "results" / "hit-rate-simulated-prefix.svg"
    assert f"{drawing} is not what the results say" in check(
        capsys, runs, "--page", page, "--simulation", *files
    )
    assert f"{drawing} is shown no more" in check(
        capsys, runs, "--page", page, "--simulation", files[0]
    )


def test_what_is_missing_edited_or_left_over_is_found(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, drawings = tmp_path / "results.md", tmp_path / "results"
    run(capsys, runs, "--page", page)
    (drawings / "capacity.svg").unlink()
    (drawings / "old.svg").touch()
    page.write_text(page.read_text().replace("In short", "In brief"))
    assert check(capsys, runs, "--page", page) == [
        f"{page} is not what the results say",
        f"{drawings / 'capacity.svg'} is missing",
        f"{drawings / 'old.svg'} is shown no more",
    ]
    assert not (drawings / "capacity.svg").exists()


def test_how_a_release_of_matplotlib_draws_is_no_difference(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "results.html"
    run(capsys, runs, "--html", html)
    html.write_text(re.sub(r' d="M [^"]*"', ' d="M 0 0"', html.read_text()))
    assert check(capsys, runs, "--html", html) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: RESULTS"),
        (["nowhere"], "nowhere is not a run: No such file or directory"),
        (["RUNS", "--check"], "--check has nothing to look at; name --page or --html"),
        (["RUNS", "--html", "no/where.html"], "--html no/where.html: no such folder"),
        (["RUNS", "--page", "RUNS"], "is a folder"),
        (["RUNS", "--page", "page"], "--page page has no ending; try page.md"),
        (
            ["RUNS", "--restore", "nowhere"],
            "not a measurement of restores of schema 2: No such",
        ),
        (["RUNS", "RUNS"], "has repeat 0 of raw twice, once as "),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], said: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(runs) if argument == "RUNS" else argument for argument in arguments]
    assert said in refused(capsys, *given)


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"there are no runs in {tmp_path}; run tools/experiment.py" in refused(capsys, tmp_path)


@pytest.mark.parametrize("option", ["--html", "--page", "--json"])
def test_what_is_read_is_not_written_over(
    option: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = tmp_path / "restore.md"
    read.write_text(json.dumps(synthetic_restore()))
    said = refused(capsys, runs, "--restore", read, option, read)
    assert f"{option} {read} is a file that is read; name another file" in said
    said = refused(capsys, runs, "--html", tmp_path / "a.md", "--json", tmp_path / "a.md")
    assert "is a file that is written by --html" in said


def test_a_run_that_an_option_took_for_its_file_stays(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = sorted(runs.rglob("*.json"))
    before = first.read_text()
    assert "is a file that is read" in refused(capsys, "--json", first, *others)
    assert first.read_text() == before


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda found: found["requests"].pop(), "requests, and not"),
        (lambda found: found["requests"].extend(found["requests"]), "requests, and not"),
        (lambda found: found["setup"].update(configuration="none"), "do not go together"),
        (lambda found: found.update(repeat=-5), "it is repeat -5"),
        (lambda found: found.update(seconds=5e-324), "without time"),
        (lambda found: found["provenance"].update(a=_deep(450)), "is not a run"),
    ],
)
def test_a_run_that_cannot_have_been_is_refused(
    change: Any, why: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = next(file for file in runs.rglob("*.json") if "raw" in file.name)
    found = json.loads(file.read_text())
    change(found)
    file.write_text(json.dumps(found))
    assert why in refused(capsys, file)


def _deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def test_two_models_of_an_experiment_are_not_one_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = synthetic_runs(workload=SMALL, repeats=1)
    others = [replace(one, setup=replace(one.setup, model="Qwen3-8B")) for one in runs]
    write_runs(tmp_path / "a", runs)
    write_runs(tmp_path / "b", others)
    assert "runs of two models" in refused(capsys, tmp_path / "a", tmp_path / "b")


def test_folders_are_read_through_links_and_not_for_ever(tmp_path: Path) -> None:
    folder = write_runs(tmp_path / "real", synthetic_runs(workload=SMALL, repeats=1))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "there").symlink_to(folder)
    (folder / "loop").symlink_to(tmp_path / "linked")
    assert len(load_runs([tmp_path / "linked"])) == len(load_runs([folder])) == 3


def test_a_pipe_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(pipe := tmp_path / "x.json")
    assert "it is no regular file" in refused(capsys, tmp_path)
    assert "it is no regular file" in refused(capsys, pipe)


def test_no_text_is_a_heading_or_a_block_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        replace(one, setup=replace(one.setup, model="    # Hit rate 99 %", experiment="# y"))
        for one in synthetic_runs(workload=SMALL)
    ]
    lines = page_of(*runs).splitlines()
    assert not [line for line in lines if line.startswith(("# Hit", "    # Hit", "# y"))]


def test_a_page_in_a_folder_with_a_space_shows_its_drawings(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, runs, "--page", page := tmp_path / "my results.md")
    assert "(my%20results/capacity.svg)" in page.read_text()
    assert (tmp_path / "my results" / "capacity.svg").is_file()


def test_drawings_of_an_earlier_page_go(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    restore = write_json(tmp_path / "restore.json", synthetic_restore())
    run(capsys, runs, "--page", page, "--restore", restore)
    own = tmp_path / "page" / "own.svg"
    own.write_text("<svg/>")
    run(capsys, runs, "--page", page)
    assert not (tmp_path / "page" / "restore.svg").exists() and own.exists()
    own.unlink()
    assert check(capsys, runs, "--page", page) == []
    assert "leave --json out" in refused(capsys, runs, "--page", page, "--check", "--json")


@pytest.mark.parametrize("columns", ["", "0", "20", "80"])
def test_no_figure_is_cut_on_a_narrow_terminal(
    columns: str, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = run(capsys, runs)
    assert "23,040" in out and "\u2026" not in out


def test_a_file_in_the_place_of_the_drawings(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page").touch()
    said = refused(capsys, runs, "--page", tmp_path / "page.md")
    assert "in the place of the folder for the drawings" in said


def test_without_matplotlib_the_extra_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("reporting")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "drawings need matplotlib; pip install matplotlib" in refused(capsys, runs)


def test_a_failure_leaves_no_part_of_a_page(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Plot) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reporting.files.to_html", full)
    assert "No space left" in refused(capsys, runs, "--html", tmp_path / "page.html")
    assert [file.name for file in tmp_path.iterdir()] == ["runs"]


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.main(["--help"])
    assert ended.value.code == 0
    assert "tools/report.py docs/runs --page docs/results.md" in capsys.readouterr().out
