"""``tools/simulate.py``: formats beside each other, and real runs beside their simulation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import simulate as tool

from evidence.record import NO_L2, RAW, Limits, Pool, Record, Request, Setup, Workload
from formats.capacity import Deployment
from formats.models import PRESETS, Model
from patchstack.errors import Exit
from serving.l2 import SELECTIVE
from simulator.engine import simulate
from simulator.server import Server
from simulator.sizes import pools
from simulator.sweep import Point, Scene, Sweep, ceiling, payoffs, sweep
from simulator.trace import Ask, generated, recorded
from simulator.validation import server_of, validate

QWEN = Deployment("qwen3-8b", PRESETS["qwen3-8b"], 1, 1)
SMALL = Workload(8, 3, 64, 8, 4, 2, seed=5)


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    """Run the tool for JSON."""
    assert tool.main([*map(str, arguments), "--json", "--quiet"]) == Exit.DONE
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


# --- sizes and sweeps ----------------------------------------------------------------------------


def test_what_8_gigabytes_hold() -> None:
    found = pools(QWEN, ["int8"])
    assert found.formats == (NO_L2, RAW, "int8")
    assert [found.tokens(name, 8) for name in found.formats] == [0, 54_254, 96_451]


def test_a_codec_that_does_not_serve_the_model_is_told_and_left_out() -> None:
    odd = Deployment("odd", Model(2, 2, 2, 512), 1, 1)
    found = pools(odd, ["int8-hadamard"])
    assert found.formats == (NO_L2, RAW) and len(found.refused) == 1


def test_a_sweep_varies_one_thing() -> None:
    scene = Scene(SMALL, Server(500), 8)
    assert scene.at("budget", 4, 0) == replace(scene, size_gb=4)
    assert scene.at("concurrency", 3, 0).workload == replace(SMALL, concurrency=3)
    assert scene.at("working-set", 2, 640).workload == replace(SMALL, groups=20)
    longer = scene.at("prefix", 128, 0).workload
    assert longer.working_set_tokens == SMALL.working_set_tokens


def test_the_ceiling_is_what_was_sent_before() -> None:
    trace = [Ask(0, 60, 40, 1), Ask(0, 60, 40, 1), Ask(0, 80, 20, 1), Ask(1, 60, 40, 1)]
    assert ceiling(trace, 1) == pytest.approx(100 * 120 / 400)
    assert ceiling(trace, 16) == pytest.approx(100 * 96 / 400)


def test_no_point_is_above_the_ceiling_and_a_large_l2_is_at_it() -> None:
    scene = Scene(replace(SMALL, concurrency=1), Server(200), 0.001, repeats=2)
    found = sweep(scene, pools(QWEN, ["int8", "int8-hadamard"]), "budget", [0.02, 1.0])
    assert len(found.points) == 8
    for value, bound in zip(found.values, found.ceilings, strict=True):
        assert all(p.hit_rate <= bound + 1e-9 for p in found.points if p.value == value)
    assert found.line("int8")[1].hit_rate == pytest.approx(found.ceilings[1])
    alike = zip(found.line("int8"), found.line("int8-hadamard"), strict=True)
    assert all(replace(one, format="") == replace(other, format="") for one, other in alike)


def line(name: str, *rates: float) -> list[Point]:
    zeros = (0.0,) * 6
    return [Point(at, name, 0, rate, rate, rate, *zeros) for at, rate in enumerate(rates)]


def test_where_extra_tokens_pay() -> None:
    points = [*line(RAW, 10, 20, 60, 70), *line("int8", 10, 50, 70, 70)]
    (payoff,) = payoffs(Sweep("budget", (0, 1, 2, 3), (70, 70, 70, 70), tuple(points)))
    assert (payoff.most, payoff.most_at, payoff.pays_at) == (30, 1, (1, 2))
    assert payoff.full_at == (2, 3)


# --- the command line ----------------------------------------------------------------------------


def test_a_sweep_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "--at", 0.1, "--repeats", 1, "--codec", "int8", "--prefix", 512)
    assert found["scene"]["workload"]["prefix_tokens"] == 512
    assert [p["format"] for p in found["points"]] == ["none", "raw", "int8"]
    assert found["values"] == [0.1] and found["ceilings"][0] > 60


def test_a_sweep_as_a_table_and_a_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "hits.svg"
    given = ["--sweep", "concurrency", "--at", "1", "2", "--groups", "4", "--details", "-q"]
    assert tool.main([*given, "--plot", str(plot)]) == Exit.DONE
    out, err = capsys.readouterr()
    assert err == "" and "ceiling" in out and "backed up" in out
    drawn = plot.read_text()
    assert "<svg" in drawn
    assert tool.main([*given, "--plot", str(plot)]) == Exit.DONE
    assert plot.read_text() == drawn, "the same figures, the same file"


def test_a_budget_sweep_names_the_model_and_its_tokens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["--at", "0.1", "0.2", "--groups", "64", "--prefix", "512", "--codec", "int8", "-q"]
    assert tool.main(["--sweep", "budget", *small]) == Exit.DONE
    out, _ = capsys.readouterr()
    assert out.startswith("qwen3-8b: ")
    assert "0.0328 million tokens of prefixes, 64 groups x 4 prompts" in out
    assert " GB per rank; 1 point or more " in out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--codec", "zip"], "--codec zip is unknown; choose"),
        (["--at", "0"], "not above zero"),
        (["--sweep", "concurrency", "--at", "1.5", "-q"], "it is not a whole number"),
        (["--groups", "1.5"], "not a whole number"),
        (["--sweep", "budget", "--validate", "x"], "not allowed with"),
        (["--at", "0.1", "--l1", "100", "-q"], "does not fit in an L1 of 100"),
        (["--l1", "100", "--page-size", "64"], "no pages of 64"),
        (["--tp", "7"], "do not divide among 7 ranks"),
        (["--plot", "/no/such/place.svg"], "no such folder"),
        (["--validate", "/no/such/file.json", "-q"], "is not a run"),
    ],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    assert tool.main(given) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.count("\n") == 1


# --- real runs -----------------------------------------------------------------------------------


def record(l2: int, configuration: str = RAW, simulated_with: int | None = None) -> Record:
    """A run of an engine that does what the simulator does, with an L2 of its own."""
    server = Server(200, l2 if simulated_with is None else simulated_with)
    trace = generated(SMALL)
    served = simulate(server, trace, SMALL.concurrency).requests
    requests = tuple(
        Request(ask.group, ask.prompt, ask.output, s.device_tokens, s.host_tokens, 0.1, ())
        for ask, s in zip(trace, served, strict=True)
    )
    setup = Setup("e", configuration, "bytes", 200, 1, l2, "write_through", "m", SMALL)
    return Record(
        setup, 0, 0, "2026-01-01T00:00:00", None, {}, ("python", "-m", "sglang"), (),
        Pool(l2, 1, 1) if l2 else None, Limits(8192, 16384), {}, {}, 1.0, requests, (),
    )  # fmt: skip


def test_a_runs_trace_is_its_requests() -> None:
    assert recorded(record(400)) == generated(SMALL)
    short = replace(record(400), requests=(Request(3, 60, 4, 0, 0, 0.1, ()),))
    assert recorded(short) == (Ask(3, 60, 0, 4),)


def test_a_run_that_does_what_the_simulator_does_agrees() -> None:
    for compared in validate([record(0, NO_L2), record(400)]):
        assert compared.difference == 0 and compared.agrees
        assert compared.simulated_restored == compared.engine_restored


def test_a_run_with_another_l2_does_not() -> None:
    (compared,) = validate([record(1000, simulated_with=100)])
    assert not compared.agrees


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["requests"][0].update(host_tokens="1"),
        lambda found: found["requests"][0].update(host_tokens=10**9),
        lambda found: found["requests"][0].update(device_tokens=float("nan")),
        lambda found: found["setup"].update(page_size=None),
        lambda found: found["setup"].update(configuration=5),
        lambda found: found["server_command"].append(1),
        lambda found: found.update(position=None),
    ],
)
def test_a_run_is_read_as_strictly_as_by_the_report(
    change: Callable[[dict], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = record(400).write(tmp_path)
    found = json.loads(file.read_text())
    change(found)
    file.write_text(json.dumps(found))
    assert tool.main(["--validate", str(tmp_path), "-q"]) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == "" and "is not a run" in err and err.count("\n") == 1


def test_the_runs_are_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = record(400).write(tmp_path)
    before = file.read_text()
    assert tool.main(["--validate", str(tmp_path), "-q", "--json", str(file)]) == Exit.USAGE
    assert "is a file that is read" in capsys.readouterr().err and file.read_text() == before


def test_a_run_that_cannot_be_used_is_passed_over() -> None:
    assert validate([replace(record(400), invalid="it was disturbed")]) == []


def test_what_a_server_was_started_with() -> None:
    options = ("--disable-overlap-schedule", "--max-running-requests", "3")
    told = record(400)
    other = replace(
        told,
        server_command=options,
        limits=Limits(512, 4096),
        setup=replace(told.setup, write_policy=SELECTIVE),
    )
    assert server_of(other) == Server(200, 400, 1, SELECTIVE, 512, 4096, 3, overlap=False)
    assert server_of(told) == Server(200, 400)


def test_validation_exits_with_what_it_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record(400).write(tmp_path)
    found = run(capsys, "--validate", tmp_path)
    assert found["runs"][0]["difference"] == 0
    replace(record(1000, simulated_with=100), position=1).write(tmp_path)
    assert tool.main(["--validate", str(tmp_path), "-q"]) == Exit.FINDINGS
    assert "1 of 2 runs differ by more than 2 points" in capsys.readouterr().out


def test_agreement_as_a_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    record(400).write(tmp_path)
    plot = tmp_path / "agreement.png"
    assert tool.main(["--validate", str(tmp_path), "-q", "--plot", str(plot)]) == Exit.DONE
    assert plot.read_bytes().startswith(b"\x89PNG")
