"""Experiments without a server: what is planned, what is written down, what is refused."""

from __future__ import annotations

import json
import pickle
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import experiment
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import provenance, random_model
from evidence.bench import bench_command, run_bench
from evidence.cases import CASES, FULL, SCALES, SMALL, Visit
from evidence.provenance import same_code
from evidence.record import (
    NO_L2,
    RAW,
    Limits,
    Pool,
    Record,
    Request,
    Setup,
    Workload,
    read_record,
    run_files,
)
from evidence.running import (
    Experiment,
    confirmed_device,
    run_experiment,
    warm_up,
    why_invalid,
)
from evidence.sizing import l2_of_bytes, l2_of_tokens
from hiqcache.geometry import KVGeometry
from patchstack.context import ROOT
from patchstack.errors import ToolError
from serving.l2 import DevicePool
from serving.metrics import snapshot
from serving.model import model_name
from serving.progress import Lines
from simulator.expectation import expected, sentence, verdict
from tests.unit.lru_server import LruServer

WORKLOAD = Workload(2, 2, 16, 4, 3, 2, 7)
GEOMETRY = KVGeometry(9, 8, 128)
TOKEN = GEOMETRY.bytes_per_token
DEVICE = DevicePool(16_384, 1)
REQUESTS = tuple(
    Request(group, 20, 3, device, host, 0.5, (0.1, 0.3))
    for group, device, host in ((0, 0, 0), (1, 0, 0), (0, 16, 0), (1, 0, 16))
)
COUNTED = {
    "sglang:load_back_tokens_total": 16.0,
    'sglang:cached_tokens_total{cache_source="device"}': 16.0,
    "sglang:hicache_backup_tokens_total": 40.0,
}
POOL = Pool(64, 64 * 20_736, 20_736)


def a_record(**changes) -> Record:
    setup = Setup("equal-bytes", "int8", "bytes", 32, 1, 64, "write_through", "tiny", WORKLOAD)
    parts = dict(
        setup=setup,
        repeat=1,
        position=3,
        started="2026-01-01T00:00:00+00:00",
        invalid=None,
        provenance={"commit": "c"},
        server_command=("python", "-m", "x"),
        bench_command=("python",),
        pool=POOL,
        limits=Limits(4096, 16384),
        counters=COUNTED,
        gauges={"sglang:hicache_host_used_tokens": 40.0},
        seconds=2.0,
        requests=REQUESTS,
        log_tail=("last",),
        l2_use=(8.0, 40.0),
    )
    return Record(**{**parts, **changes})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The folder of the model that is served by default, as far as its KV goes."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**random_model.CONFIG}))
    return folder


class TestRecord:
    def test_it_is_read_as_it_was_written(self, tmp_path):
        file = a_record().write(tmp_path)
        assert file.name == "003-int8-1.json"
        assert read_record(file) == a_record()

    def test_an_earlier_one_has_no_readings(self, tmp_path):
        file = a_record().write(tmp_path)
        found = json.loads(file.read_text())
        del found["l2_use"]
        file.write_text(json.dumps(found))
        assert read_record(file) == a_record(l2_use=())

    def test_one_that_cannot_be_used_says_so_in_its_name(self, tmp_path):
        assert a_record(invalid="why").write(tmp_path).name == "003-int8-1-INVALID.json"

    def test_figures(self):
        record = a_record()
        assert (record.device_tokens, record.host_tokens, record.prompt_tokens) == (16, 16, 80)
        assert record.hit_rate == pytest.approx(0.4)
        assert record.output_throughput == pytest.approx(6.0)
        assert record.requests[0].tpot_s == pytest.approx(0.2)

    @pytest.mark.parametrize(
        "change",
        [
            lambda found: found.pop("pool"),
            lambda found: found.update(schema=99),
            lambda found: found["setup"].update(surprise=1),
            lambda found: found["setup"]["workload"].update(groups=0),
            lambda found: found.update(requests=[3]),
        ],
    )
    def test_another_file_is_refused(self, tmp_path, change):
        file = a_record().write(tmp_path)
        found = json.loads(file.read_text())
        change(found)
        file.write_text(json.dumps(found))
        with pytest.raises(ToolError, match="is not a run"):
            read_record(file)

    def test_a_folder_is_read_whole(self, tmp_path):
        (tmp_path / "a").mkdir()
        a_record().write(tmp_path / "a")
        a_record(position=4).write(tmp_path)
        assert [read_record(file).position for file in run_files([tmp_path])] == [4, 3]

    def test_no_run_at_all_is_refused(self, tmp_path):
        with pytest.raises(ToolError, match="no runs"):
            run_files([tmp_path])


class TestCases:
    @pytest.mark.parametrize("name", CASES)
    @pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
    def test_every_configuration_serves_the_same(self, name, scale):
        visits = list(CASES[name].visits(scale))
        served = {c: [v.workloads for v in visits if v.configuration == c] for c in
                  CASES[name].configurations}  # fmt: skip
        assert len({tuple(workloads) for workloads in served.values()}) == 1
        assert Counter(v.configuration for v in visits) == Counter(
            {c: scale.repeats for c in CASES[name].configurations}
        )

    def test_configurations_follow_each_other_both_ways(self):
        order = [v.configuration for v in CASES["equal-bytes"].visits(replace(FULL, repeats=6))]
        repeats = [order[at : at + 3] for at in range(0, 18, 3)]
        assert repeats[:2] == [[NO_L2, RAW, "int8"], ["int8", RAW, NO_L2]]
        assert {repeat[0] for repeat in repeats[::2]} == {NO_L2, RAW, "int8"}
        assert sum(repeat.index(RAW) < repeat.index("int8") for repeat in repeats) == 3

    def test_repeats_have_seeds_of_their_own(self):
        seeds = {v.workloads[0].seed for v in CASES["equal-bytes"].visits(FULL)}
        assert len(seeds) == FULL.repeats

    def test_the_published_scale(self):
        assert (FULL.l1_tokens, FULL.workload.groups, FULL.workload.requests) == (16_384, 32, 128)
        raw, int8 = (
            l2_of_bytes(c, FULL.l2_tokens * TOKEN, GEOMETRY, DEVICE, "p") for c in (RAW, "int8")
        )
        assert (raw.tokens, int8.tokens) == (54_254, 96_451)
        assert raw.size == int8.size == ("--hicache-size", "2")

    def test_the_small_one_is_an_eighth(self):
        device = DevicePool(SMALL.l1_tokens, 1)
        raw, int8 = (
            l2_of_bytes(c, SMALL.l2_tokens * TOKEN, GEOMETRY, device, "p") for c in (RAW, "int8")
        )
        assert (raw.tokens, int8.tokens) == (54_254 // 8 + 1, 96_451 // 8)
        assert raw.size[0] == int8.size[0] == "--hicache-ratio"

    def test_a_sweep_moves_one_field(self):
        workloads = CASES["working-set"].workloads(FULL)
        assert [w.groups for w in workloads] == [13, 32, 51, 77, 106]
        assert len({replace(w, groups=1) for w in workloads}) == 1
        shares = [w.working_set_tokens / 54_254 for w in workloads]
        assert shares[0] < 0.5 and shares[-1] > 4


class TestSizing:
    def test_no_l2(self):
        assert l2_of_bytes(NO_L2, 10**9, GEOMETRY, DEVICE, "p") is None
        assert l2_of_tokens(NO_L2, 100, DEVICE, "p") is None

    @given(st.integers(2, 400), st.integers(1, 64), st.integers(1, 5000))
    def test_tokens_that_are_asked_for_are_had(self, pages, page_size, device_pages):
        device = DevicePool(device_pages * page_size, page_size)
        assert l2_of_tokens(RAW, pages * page_size, device, "p").tokens == pages * page_size

    def test_part_of_a_page_is_refused(self):
        with pytest.raises(ToolError, match="not whole pages"):
            l2_of_tokens(RAW, 100, DevicePool(256, 64), "p")


class TestValidity:
    def why(self, **changes):
        parts = dict(workload=WORKLOAD, pool=POOL, requests=REQUESTS, counted=COUNTED, held=64.0)
        return why_invalid(**{**parts, **changes})

    def test_a_run_that_can_be_used(self):
        assert self.why() is None

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"counted": {**COUNTED, "sglang:load_back_tokens_total": 17.0}}, "counted 17"),
            (
                {"counted": {**COUNTED, "sglang:hicache_backup_tokens_total": 0.0}},
                "nothing was written",
            ),
            ({"requests": REQUESTS[:2]}, "requests had 0 host tokens and SGLang counted 16"),
            (
                {"requests": (*REQUESTS, replace(REQUESTS[2]))},
                "requests had 32 device tokens and SGLang counted 16",
            ),
            ({"held": 65.0}, "held 65"),
            ({"requests": (*REQUESTS, replace(REQUESTS[0], output_tokens=2))}, "other lengths"),
        ],
    )
    def test_one_that_cannot(self, changes, said):
        assert said in self.why(**changes)

    def test_without_an_l2_nothing_has_to_be_written(self):
        cold = tuple(replace(request, host_tokens=0) for request in REQUESTS)
        counted = {'sglang:cached_tokens_total{cache_source="device"}': 16.0}
        assert self.why(pool=None, requests=cold, counted=counted) is None


class TestExpectation:
    @pytest.mark.parametrize(
        ("rates", "said"),
        [
            ({"none": 0.1, "raw": 0.5, "int8": 0.7}, "told apart by 20 points"),
            ({"none": 0.1, "raw": 0.7, "int8": 0.71}, "too small"),
            ({"none": 0.1, "raw": 0.11, "int8": 0.12}, "too large"),
            ({"raw": 0.5, "int8": 0.5}, "too small, or of equal tokens"),
            ({"none": 0.1, "raw": 0.5}, "no raw L2 beside an encoded one"),
        ],
    )
    def test_what_is_said_of_a_workload(self, rates, said):
        assert said in verdict(rates)

    def test_the_published_workload_tells_them_apart(self, model):
        experiment = Experiment("equal-bytes", CASES["equal-bytes"], FULL, model)
        ((working_set, rates),) = expected(experiment)
        assert working_set == 65_536
        assert rates["none"] < 0.2 < 0.5 < rates["raw"] < 0.62 < 0.7 < rates["int8"] < 0.75
        assert "told apart" in sentence(working_set, rates)

    def test_equal_tokens_do_not(self, model):
        experiment = Experiment("equal-tokens", CASES["equal-tokens"], SMALL, model)
        ((_, rates),) = expected(experiment)
        assert rates["raw"] == rates["int8"]


@dataclass
class Row:
    """A row of the benchmark's cache of prompts, as far as it is read."""

    prompt: list[int]


#: Stands in for the benchmark: it writes what SGLang's writes, and where.
BENCHMARK = """
import json, os, pathlib, shutil, sys
given, answer = sys.argv[1:3]
cache = pathlib.Path(os.environ["HOME"], ".cache/sglang/benchmark")
cache.mkdir(parents=True)
shutil.copy(given, cache / "gen_shared_prefix_7.pkl")
pathlib.Path(given).with_name("bench.jsonl").write_text(answer)
"""


class TestBench:
    ANSWER = {  # noqa: RUF012
        "duration": 2.5,
        "completed": 4,
        "errors": [""] * 4,
        "input_lens": [20] * 4,
        "output_lens": [3] * 4,
        "cached_tokens_details": [None, {"device": 0, "host": 16}, {"device": 16}, None],
        "ttfts": [0.1, 0.2, 0.3, 0.4],
        "itls": [[0.5, 0.6]] * 4,
    }

    def run(self, folder: Path, **changes):
        first, second = [1] * 16, [2] * 16
        rows = [Row([*prefix, 9, 9, 9, n]) for n, prefix in enumerate([second, first] * 2)]
        (folder / "rows.pkl").write_bytes(pickle.dumps(rows))
        answer = json.dumps({**self.ANSWER, **changes})
        command = (sys.executable, "-c", BENCHMARK, str(folder / "rows.pkl"), answer)
        return run_bench(command, {}, WORKLOAD, folder)

    def test_requests_are_told_by_their_prefixes(self, tmp_path):
        benched = self.run(tmp_path)
        assert benched.seconds == 2.5
        assert [request.group for request in benched.requests] == [0, 1, 0, 1]
        assert [r.host_tokens for r in benched.requests] == [0, 16, 0, 0]
        assert [r.device_tokens for r in benched.requests] == [0, 0, 16, 0]
        assert benched.requests[3].itl_s == (0.5, 0.6)

    def test_a_request_that_failed_is_told(self, tmp_path):
        with pytest.raises(ToolError, match="3 of 4 requests answered: the reason"):
            self.run(tmp_path, completed=3, errors=["", "a\nthe reason\n", "", ""])

    def test_a_benchmark_that_fails_is_told(self, tmp_path):
        command = (sys.executable, "-c", "raise ValueError('no such workload')")
        with pytest.raises(ToolError, match="code 1: ValueError: no such workload"):
            run_bench(command, {}, WORKLOAD, tmp_path)

    def test_its_command_names_the_workload(self, tmp_path):
        command = " ".join(bench_command("http://h:1", Path("/m"), WORKLOAD, tmp_path))
        assert "--gsp-num-groups 2 --gsp-prompts-per-group 2 --gsp-system-prompt-len 16" in command
        assert "--max-concurrency 2 --seed 7" in command


class TestSnapshot:
    TEXT = """\
# TYPE a_total counter
a_total{pid="1",reason="x"} 2
a_total{pid="2",reason="x"} 3
a_total{pid="1",reason="y"} 4
# TYPE s histogram
s_bucket{le="1.0"} 1
s_bucket{le="+Inf"} 2
s_count 2
s_sum 1.5
# TYPE g gauge
g 7
# TYPE unknown gauge
unknown NaN
"""

    def test_samples_of_one_metric(self):
        found = snapshot(self.TEXT)
        assert found.counters == {
            'a_total{reason="x"}': 5,
            'a_total{reason="y"}': 4,
            "s_count": 2,
            "s_sum": 1.5,
        }
        assert found.gauges == {"g": 7}

    def test_how_far_counters_went_on(self):
        now = snapshot(self.TEXT.replace("} 4", "} 9") + "# TYPE b_total counter\nb_total 1\n")
        assert now.counted_since(snapshot(self.TEXT)) == {
            'a_total{reason="x"}': 0,
            'a_total{reason="y"}': 5,
            "b_total": 1,
            "s_count": 0,
            "s_sum": 0,
        }


def test_a_visit_is_set_up_as_its_case_says(model, tmp_path):
    plan = Experiment("equal-tokens", CASES["equal-tokens"], FULL, model)
    visit = Visit("int8", 0, (FULL.workload,))
    setup = plan.setup(visit, FULL.workload)
    assert (setup.l2_tokens, setup.sizing) == (54_254, "tokens")
    assert setup.write_policy == "write_through"
    assert plan.l2(RAW).tokens == 54_254 and plan.l2(NO_L2) is None
    launch = plan.launch(visit, tmp_path)
    assert "--max-running-requests 8" in " ".join(launch.command)


def test_runs_are_found_among_other_documents(tmp_path):
    file = a_record().write(tmp_path)
    (tmp_path / "simulation").mkdir()
    (tmp_path / "simulation" / "sweep.json").write_text('{"points": []}')
    assert run_files([tmp_path]) == [file]
    (tmp_path / "broken.json").write_text("{")
    assert run_files([tmp_path]) == [file, tmp_path / "broken.json"], "which its reader refuses"
    file.unlink()
    (tmp_path / "broken.json").unlink()
    with pytest.raises(ToolError, match="there are no runs"):
        run_files([tmp_path])


def test_the_most_that_an_l2_held():
    gauges = {"sglang:hicache_host_used_tokens": 9.0}
    assert a_record(l2_use=(3.0, 7.0), gauges=gauges).most_held == 9
    assert a_record(l2_use=(3.0, 12.0), gauges=gauges).most_held == 12
    assert a_record(l2_use=(), gauges=gauges).most_held is None


def test_code_is_told_by_the_library_that_is_installed(tmp_path, monkeypatch):
    package = tmp_path / "hiqcache"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.setattr("hiqcache.__file__", str(package / "__init__.py"))
    before = provenance._library()
    (package / "codec.py").write_text("levels = 127")
    assert provenance._library() != before
    assert same_code({"library": before}) != same_code({"library": provenance._library()})


def test_runs_of_something_else_are_not_taken_for_these(model, tmp_path, monkeypatch):
    case = replace(CASES["equal-bytes"], configurations=("int8",))
    here = Experiment("equal-bytes", case, replace(SMALL, repeats=1), model)
    (visit,) = here.case.visits(here.scale)
    setup = here.setup(visit, visit.workloads[0])
    folder = tmp_path / "runs"
    folder.mkdir()
    monkeypatch.setattr("evidence.running.provenance", lambda: {"sglang": "s", "commit": "d"})
    record = a_record(setup=setup, repeat=0, position=0, provenance={"sglang": "s"})
    file = record.write(folder)
    assert run_experiment(here, folder, Lines()) == [file]
    replace(record, provenance={"sglang": "t"}).write(folder)
    with pytest.raises(ToolError, match="something else; name another --out"):
        run_experiment(here, folder, Lines())
    record.write(folder)
    for other in (
        replace(here, scale=replace(here.scale, l1_tokens=1_024)),
        replace(here, case=replace(case, write_policy="write_back")),
        replace(here, case=replace(case, configurations=("int4",))),
    ):
        with pytest.raises(ToolError, match="something else; name another --out"):
            run_experiment(other, folder, Lines())


def test_what_cannot_be_used_or_is_half_done_is_run_again(model, tmp_path, monkeypatch):
    case = replace(CASES["prefix-length"], configurations=("int8",))
    here = Experiment("prefix-length", case, replace(SMALL, repeats=1), model)
    monkeypatch.setattr("evidence.running.provenance", dict)
    served = []

    def serve(experiment, visit, first, scratch, progress):
        served.append(visit)
        for position, workload in enumerate(visit.workloads, first):
            setup = experiment.setup(visit, workload)
            yield a_record(setup=setup, repeat=0, position=position, provenance={})

    monkeypatch.setattr("evidence.running._serve", serve)
    files = run_experiment(here, tmp_path, Lines())
    assert len(files) == 4 == len(set(files)) and len(served) == 1
    assert run_experiment(here, tmp_path, Lines()) == files and len(served) == 1
    files[3].rename(files[3].with_name("003-int8-0-INVALID.json"))
    assert run_experiment(here, tmp_path, Lines()) == files and len(served) == 2


@pytest.mark.parametrize(
    ("tokens", "page", "agrees"), [(2048, 1, True), (2047, 1, False), (2048, 64, False)]
)
def test_a_server_with_another_l1_is_refused(tokens, page, agrees):
    info = {
        "max_total_num_tokens": tokens,
        "page_size": page,
        "chunked_prefill_size": 4096,
        "max_prefill_tokens": 16384,
    }
    client = SimpleNamespace(server_info=lambda: info)
    if agrees:
        assert confirmed_device(client, DevicePool(2048, 1)) == Limits(4096, 16384)
    else:
        with pytest.raises(ToolError, match="not of 2,048 in pages of 1"):
            confirmed_device(client, DevicePool(2048, 1))


def test_warming_up_fills_l1_asks_again_and_forgets():
    server = LruServer(l1_tokens=64, l2_tokens=640)
    asked, flushed = [], []
    complete, flush = server.complete, server.flush

    def noted(ids, **options):
        reply = complete(ids, **options)
        asked.append(reply.host_tokens)
        return reply

    server.complete, server.flush = noted, lambda: (flushed.append(len(asked)), flush())
    warm_up(server, replace(WORKLOAD, concurrency=1), DevicePool(64, 1))
    assert asked == [0, 0, 0, 0, 19] and flushed == [5]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/models/tiny", "tiny"),
        ("/c/models--Qwen--Qwen3-8B/snapshots/1f2e", "Qwen/Qwen3-8B"),
        ("/c/other/snapshots/1f2e", "1f2e"),
    ],
)
def test_a_model_has_its_own_name(folder, name):
    assert model_name(Path(folder)) == name


def test_a_first_token_without_text_has_no_time():
    request = REQUESTS[0]
    assert request.first_token_s == 0.5
    assert replace(request, itl_s=(0.1,)).first_token_s is None
    assert replace(request, ttft_s=0.0).first_token_s is None


class TestCommandLine:
    @pytest.mark.parametrize(
        "arguments",
        [["no-such"], ["equal-bytes", "--repeats", "0"], ["equal-bytes", "--scale", "huge"], []],
    )
    def test_usage(self, arguments, capsys):
        assert experiment.main(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["restore"], "--dry-run: restores are not simulated"),
            (["equal-bytes", "--configurations", "raw,raw"], "raw,raw has one twice"),
            (["equal-bytes", "--configurations", "raw,zip"], "no configuration 'zip'"),
            (["equal-bytes", "--page-size", "48"], "16,384 tokens are not whole pages"),
            (["equal-bytes", "--l2-tokens", "1"], "choose others by --configurations"),
        ],
    )
    def test_what_cannot_be_is_told_before_anything_runs(self, model, arguments, said, capsys):
        assert experiment.main([*arguments, "--model", str(model), "--dry-run"]) == 2
        assert said in capsys.readouterr().err.splitlines()[-1]

    def test_a_model_that_a_codec_saves_nothing_of(self, model, capsys):
        config = json.loads((model / "config.json").read_text())
        small = {**config, "num_key_value_heads": 1, "head_dim": 64}
        (model / "config.json").write_text(json.dumps(small))
        assert experiment.main(["equal-bytes", "--model", str(model), "--dry-run"]) == 2
        assert "choose others by" in capsys.readouterr().err.splitlines()[-1]

    def test_a_restore_needs_an_l2(self, model, monkeypatch):
        given = experiment.parser().parse_args(["restore", "--configurations", "none,raw"])
        with pytest.raises(ToolError, match="no configuration 'none'; choose from raw, int8"):
            experiment.run_restore(given, model, Lines())

    def test_a_dry_run_says_what_it_expects_and_waits_for_nobody(self, model, tmp_path, capsys):
        out = tmp_path / "results"
        arguments = ["equal-bytes", "--scale", "small", "--out", str(out), "--dry-run"]
        assert experiment.main([*arguments, "--model", str(model)]) == 0
        assert "the L2s are told apart by" in capsys.readouterr().err
        assert not out.exists()

    def test_what_the_guide_quotes_is_what_is_said(self, model, capsys):
        assert experiment.main(["equal-bytes", "--model", str(model), "--dry-run"]) == 0
        said = capsys.readouterr().err.splitlines()[-1]
        guide = (ROOT / "docs" / "reproducing.md").read_text("utf-8")
        assert f"\n    {said}\n" in guide

    def test_a_run_is_told_with_the_wait_that_the_report_has(self):
        assert "first token 0.50 s on average" in experiment.sentence(a_record())
        silent = tuple(replace(request, ttft_s=0.0) for request in REQUESTS)
        assert "first token without text" in experiment.sentence(a_record(requests=silent))

    def test_the_environment_is_asked_for(self, capsys):
        """Where these tests run there is no SGLang."""
        assert experiment.main(["equal-bytes"]) == 2
        assert "tox -e reproduce" in capsys.readouterr().err
