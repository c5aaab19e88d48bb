"""The experiments' package: workload, figures, refusals, and servers that leave nothing behind.

None of it needs SGLang. Servers are small scripts, started, waited for and stopped the same way.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace

import demo
import pytest
import torch

from hiqcache.geometry import KVGeometry
from patchstack.errors import Exit, ToolError
from serving.client import Client, Reply, RequestError
from serving.delivery import write_file
from serving.environment import Environment
from serving.experiment import Run, run_workload
from serving.l2 import L2, NO_CODEC, DevicePool, equal_l2s
from serving.launch import Launch, Serving, free_port, logs_folder, sglang_launch
from serving.metrics import TransferCounters, l2_capacity, parse_counters
from serving.model import model_geometry
from serving.output import print_table, to_json
from serving.pool_report import (
    PLUGIN,
    PoolReport,
    confirmed_pool,
    read_pool_report,
    refuse_unequal_bytes,
)
from serving.progress import Lines
from serving.results import Comparison, Difference
from serving.server import last_words, living, running
from serving.text import encoded_topics
from serving.workload import FULL, QUICK, Prompt, Scale, Workload, draw_workload, expect
from tests.unit.refusing import refusal

TOOLS = Path(demo.__file__).parent
SCALE = Scale(
    groups=6,
    prefix_tokens=8,
    suffix_tokens=4,
    draws=24,
    l1_tokens=16,
    raw_l2_tokens=36,
    page_size=4,
)


def texts(count: int = 12, tokens: int = 60) -> list[list[int]]:
    return [[1000 * text + token for token in range(tokens)] for text in range(count)]


@pytest.fixture
def workload() -> Workload:
    return draw_workload(SCALE, texts(), seed=1)


class TestWorkload:
    def test_a_seed_fixes_the_draw(self, workload):
        assert draw_workload(SCALE, texts(), seed=1) == workload
        assert draw_workload(SCALE, texts(), seed=2).prompts != workload.prompts

    def test_every_group_is_drawn_and_has_one_prefix(self, workload):
        by_group: dict[int, set[tuple[int, ...]]] = {}
        for prompt in workload.prompts:
            by_group.setdefault(prompt.group, set()).add(prompt.tokens[: SCALE.prefix_tokens])
        assert sorted(by_group) == list(range(SCALE.groups))
        assert all(len(prefixes) == 1 for prefixes in by_group.values())

    def test_prompts_share_no_page_but_their_prefix(self, workload):
        page, prefix = SCALE.page_size, SCALE.prefix_tokens
        assert len({p.tokens[:page] for p in workload.prompts}) == SCALE.groups
        assert len({p.tokens[prefix : prefix + page] for p in workload.prompts}) == SCALE.draws

    def test_texts_that_begin_alike_give_one_prefix(self):
        alike = [[1, 2, 3, 4, *range(100 * n, 100 * n + 40)] for n in range(1, 13)]
        assert "1 prefixes" in str(refusal(lambda: draw_workload(SCALE, alike, seed=1)))

    def test_too_little_text_is_refused(self):
        error = refusal(lambda: draw_workload(SCALE, texts(count=5), seed=1))
        assert error.exit_code == Exit.USAGE
        assert "5 prefixes of 8 tokens" in str(error)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"page_size": 0},
            {"prefix_tokens": 9},
            {"suffix_tokens": 0},
            {"groups": 0},
            {"groups": 25},
            {"l1_tokens": 12},
        ],
    )
    def test_a_scale_that_cannot_be_served_is_none(self, wrong):
        with pytest.raises(ValueError):
            replace(SCALE, **wrong)


def ordered(*groups: int) -> Workload:
    """A workload of these groups in this order."""
    prompts = [Prompt(g, (*range(100 * g, 100 * g + 8), *range(i, i + 4)))
               for i, g in enumerate(groups)]  # fmt: skip
    return Workload(SCALE, 0, tuple(prompts))


class TestExpectation:
    def test_of_an_order_that_can_be_followed_by_hand(self):
        # A prefix takes 8 tokens, and each draw 4 for its suffix. Since its last use:
        # 0 again at once: 12, in L1 (16). 1 after 1 0 0: 28, in the raw L2 (36).
        # 2 after 2 3 4 5: 48, in the encoded one (72) alone.
        e = expect(ordered(1, 0, 0, 1, 2, 3, 4, 5, 2), raw_l2_tokens=36, encoded_l2_tokens=84)
        assert (e.l1_hits, e.raw_restores, e.encoded_restores) == (1, 1, 2)
        assert (e.prefix_tokens, e.stored_tokens) == (48, 84)

    def test_says_what_it_expects(self, workload):
        said = expect(workload, 36, 144).sentence()
        assert "(48 tokens) overflow the raw L2 (36) and fit the encoded one (144)" in said

    @pytest.mark.parametrize(
        ("raw", "encoded", "reason"),
        [
            (48, 200, "the prefixes (48 tokens) fit in the raw L2 (48)"),
            (36, 143, "what is served (144 tokens) overflows the encoded L2 (143) too"),
            (12, 200, "restores nothing from the raw L2"),
        ],
    )
    def test_a_workload_too_small_or_too_large_is_refused(self, workload, raw, encoded, reason):
        error = refusal(lambda: expect(workload, raw, encoded))
        assert error.exit_code == Exit.USAGE
        assert reason in str(error)

    def test_an_l1_that_holds_much_is_refused(self, workload):
        large = replace(workload, scale=replace(SCALE, l1_tokens=20))
        assert "L1 (20 tokens) holds over a third" in str(refusal(lambda: expect(large, 36, 144)))

    def test_a_draw_that_needs_no_larger_l2_is_refused(self):
        order = ordered(1, 0, 0, 1, 2, 3, 4, 5)
        assert "no more from the encoded" in str(refusal(lambda: expect(order, 36, 84)))

    @pytest.mark.parametrize("scale", [FULL, QUICK], ids=["full", "quick"])
    @pytest.mark.parametrize("row_bytes", [200, 1152 * 384 // 2048], ids=["d64", "d128"])
    def test_the_shipped_scales_tell_int8_from_raw(self, scale, row_bytes):
        # What INT8 makes of a row of 384 bytes, with 64 and with 128 values for each scale.
        encoded = scale.raw_l2_tokens * 384 // row_bytes
        for seed in range(20):
            draw = draw_workload(scale, texts(40, 1000), seed)
            e = expect(draw, scale.raw_l2_tokens, encoded)
            assert 0 < e.raw_restores < e.encoded_restores


class TestEqualL2s:
    GEOMETRY = KVGeometry(30, 3, 64, page_size=16)

    def test_of_the_packaged_model(self):
        raw, int8 = equal_l2s(self.GEOMETRY, "int8", 4032, DevicePool(1216, 16))
        assert (raw.codec, raw.tokens, int8.codec, int8.tokens) == (NO_CODEC, 4032, "int8", 7728)
        assert 0 <= raw.tokens * 23_040 - int8.tokens * 12_000 < 16 * 12_000


def reply(host: int = 0, device: int = 0, seconds: float = 1.0, logprobs=(-1.0, -2.0)) -> Reply:
    return Reply(12, device, host, seconds, tuple(logprobs), ((7, -0.5),))


def pool(name: str = "Pool", slots: int = 36, size: int = 100, nbytes: int | None = None):
    return PoolReport(name, slots, size, slots * size if nbytes is None else nbytes, 4, "x", 16)


def served(name: str, replies: Sequence[Reply], report: PoolReport | None = None) -> Run:
    host = sum(r.host_tokens for r in replies)
    counters = TransferCounters(24, 2400, host, 100 * host) if report else TransferCounters()
    return Run(name, ("program", name), report, counters, tuple(replies), 9.0)


@pytest.fixture
def comparison() -> Comparison:
    """Three prompts. The raw L2 restores the second, INT8 the second and the third."""
    order = ordered(1, 0, 0, 1, 2, 3, 4, 5, 2)
    return Comparison(
        "tiny",
        Environment("3.11", "2", "0", "1", "Linux", "a CPU", 2, 0.5),
        order,
        expect(order, 36, 84),
        none=served("none", [reply(seconds=3), reply(logprobs=(-1.0, -2.25)), reply(device=8)]),
        raw=served("raw", [reply(seconds=3), reply(host=8, seconds=0.5), reply()], pool()),
        encoded=served(
            "int8",
            [reply(), reply(host=8, logprobs=(-1.5, -2.0)), reply(host=8, logprobs=(-9.0, -9.0))],
            pool("Encoded", slots=72, size=50),
        ),
    )


class TestComparison:
    def test_columns(self, comparison):
        none, raw, int8 = comparison.summaries().values()
        assert (none.restored_tokens, raw.restored_tokens, int8.restored_tokens) == (0, 8, 16)
        assert [s.hit_rate for s in (none, raw, int8)] == [8 / 36, 8 / 36, 16 / 36]
        assert (none.arena_bytes, raw.arena_bytes, int8.arena_bytes) == (None, 3600, 3600)
        assert (raw.stored_bytes_per_token, int8.stored_bytes_per_token) == (100, 50)
        assert raw.moved_bytes_per_token == 100
        assert (none.cold.requests, none.l1_hit.requests, none.restored.requests) == (2, 1, 0)
        assert (raw.cold.median_s, raw.restored.median_s) == (2.0, 0.5)

    def test_logprobs_are_compared_where_both_restored_the_same(self, comparison):
        none, raw, int8 = comparison.summaries().values()
        assert raw.difference is None
        assert int8.difference == Difference(1, 2, 0.5, 0.25)
        assert none.difference == Difference(1, 2, 0.25, 0.125)

    def test_nothing_in_common_is_no_difference(self, comparison):
        other = [reply(host=8), reply(host=4, device=4), reply()]
        apart = replace(comparison, encoded=served("int8", other, comparison.encoded.pool))
        assert apart.summaries()["int8"].difference == Difference(0, 0, None, None)

    def test_table(self, comparison, capsys):
        print_table(comparison)
        printed = capsys.readouterr().out
        cells = [re.split(r" {2,}", line.strip()) for line in printed.splitlines()]
        assert ["no L2", "raw BF16 L2", "INT8 L2"] in cells
        assert ["L2 capacity, tokens", "-", "36", "72"] in cells
        assert ["tokens restored from L2", "0", "8", "16"] in cells
        assert ["first token, restored from L2", "-", "0.50 s (1)", "1.00 s (2)"] in cells
        assert ["largest |logprob difference|", "0.250 (2)", "reference", "0.500 (2)"] in cells
        assert "tiny, seed 0: 24 requests, one at a time, from 6 prefixes" in printed
        assert "a CPU, 2 cores, load 0.5" in printed

    def test_json(self, comparison):
        document = json.loads(to_json(comparison, {"quick": True, "json": Path("f")}))
        assert list(document) == [
            "schema",
            "arguments",
            "model",
            "environment",
            "workload",
            "expectation",
            "runs",
            "table",
        ]
        assert document["schema"] == 1
        assert document["arguments"] == {"quick": True, "json": "f"}
        assert document["workload"]["order"] == [1, 0, 0, 1, 2, 3, 4, 5, 2]
        assert document["runs"]["none"]["pool"] is None
        assert document["runs"]["int8"]["pool"] == asdict(comparison.encoded.pool)
        assert document["runs"]["raw"]["requests"][1]["host_tokens"] == 8
        assert document["runs"]["raw"]["counters"]["load_back_tokens"] == 8
        assert document["table"]["int8"]["difference"]["positions"] == 2

    @pytest.mark.parametrize("codec", ["raw", "encoded"])
    def test_no_restores_are_no_result(self, comparison, codec):
        run = getattr(comparison, codec)
        cold = served(run.name, [reply(), reply(), reply()], run.pool)
        error = refusal(lambda: replace(comparison, **{codec: cold}))
        assert error.exit_code == Exit.FINDINGS
        assert "no result: " in str(error)
        assert " 0 tokens were restored" in str(error) or " 0 from the encoded" in str(error)

    def test_unequal_bytes_are_refused(self, comparison):
        larger = replace(comparison.encoded, pool=pool("Encoded", slots=80, size=50))
        error = refusal(lambda: replace(comparison, encoded=larger))
        assert error.exit_code == Exit.FINDINGS
        assert "3,600 bytes and the encoded one 4,000" in str(error)

    def test_requests_that_the_counters_deny_are_no_result(self):
        counters = TransferCounters(24, 2400, 7, 700)
        error = refusal(lambda: Run("raw", (), pool(), counters, (reply(host=8),), 1.0))
        assert "8 tokens restored and SGLang counted 7" in str(error)


class TestPoolReport:
    def test_a_page_is_allowed_and_no_more(self):
        raw, page = pool(slots=36, size=100), 4 * 50
        refuse_unequal_bytes(raw, pool(size=50, nbytes=3600 - page))
        for nbytes in (3600 - page - 1, 3600 + page + 1):
            assert "more than one page (200)" in str(
                refusal(lambda n=nbytes: refuse_unequal_bytes(raw, pool(size=50, nbytes=n)))
            )

    @pytest.mark.parametrize("field", ["slots", "nbytes", "page_size"])
    def test_figures_are_positive(self, field):
        with pytest.raises(ValueError, match=field):
            replace(pool(), **{field: 0})

    def test_is_read_from_what_the_plug_in_writes(self, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(PLUGIN))
        import hiqcache_pool_probe as probe

        class HostPool(SimpleNamespace):
            pass

        host_pool = HostPool(
            size=32,
            size_per_token=48,
            kv_buffer=[torch.zeros(32, 8), torch.zeros(32, 4)],
            page_size=16,
            layout="page_first",
        )
        file = tmp_path / "report"
        monkeypatch.setenv("HIQCACHE_POOL_REPORT", str(file))
        entry = SimpleNamespace(host_pool=host_pool, device_pool=SimpleNamespace(size=64))
        probe.report(None, SimpleNamespace(), [entry])
        assert read_pool_report(file) == PoolReport(
            "HostPool", 32, 48, 32 * 48, 16, "page_first", 64
        )
        probe.report(None, SimpleNamespace(), [entry])
        assert "2 host pools, not one" in str(refusal(lambda: read_pool_report(file)))

    @pytest.mark.parametrize(
        ("slots", "gauge", "said"),
        [(64, 64, None), (63, 64, "allocated 63"), (64, 65, "its gauge 65"), (64, None, "None")],
    )
    def test_another_size_than_planned_is_refused(self, tmp_path, slots, gauge, said):
        l2 = L2(NO_CODEC, ("--hicache-ratio", "2.0"), 64)
        launch = Launch("raw", (), {}, 1, tmp_path / "log", l2, tmp_path / "report")
        found = pool(slots=slots, nbytes=slots * 100)
        launch.pool_report.write_text(json.dumps(asdict(found)))
        metrics = f"sglang:hicache_host_total_tokens {gauge}\n" if gauge else ""
        if said is None:
            assert confirmed_pool(launch, metrics) == found
            assert confirmed_pool(replace(launch, l2=None), "") is None
        else:
            assert said in str(refusal(lambda: confirmed_pool(launch, metrics)))

    def test_sglang_can_find_the_plug_in(self):
        (plugin,) = distributions(path=[str(PLUGIN)])
        (entry,) = plugin.entry_points.select(group="sglang.srt.plugins")
        assert entry.value == "hiqcache_pool_probe:install"

    def test_a_server_that_reports_nothing_is_refused(self, tmp_path):
        assert "0 host pools" in str(refusal(lambda: read_pool_report(tmp_path / "none")))

    @pytest.mark.parametrize("line", ["{", "[]", '{"pool": "x"}', '{"slots": 0}'])
    def test_other_files_are_refused(self, tmp_path, line):
        file = tmp_path / "report"
        file.write_text(line)
        assert "is not a pool report" in str(refusal(lambda: read_pool_report(file)))


METRICS = """\
# HELP sglang:hicache_backup_tokens_total Tokens.
# TYPE sglang:hicache_backup_tokens_total counter
sglang:hicache_backup_tokens_total{pool="kv",tp_rank="0",note="a \\"b} 5\\""} 2048.0
# TYPE sglang:hicache_backup_bytes_total counter
sglang:hicache_backup_bytes_total{tp_rank="0"} 2.4576e+07
# TYPE sglang:load_back_tokens_total counter
sglang:load_back_tokens_total{pool="kv",tp_rank="0"} 448.0
sglang:load_back_tokens_total{pool="kv",tp_rank="1"} 2.0
# TYPE sglang:hicache_host_used_tokens gauge
sglang:hicache_host_used_tokens 99.0
"""


class TestMetrics:
    def test_counters_are_summed_and_absent_ones_are_zero(self):
        assert parse_counters(METRICS) == TransferCounters(2048, 24_576_000, 450, 0)
        assert parse_counters("") == TransferCounters()

    def test_the_size_of_an_l2_is_no_sum(self):
        sample = "sglang:hicache_host_total_tokens{tp_rank=%s} 2064.0\n"
        assert l2_capacity(sample % '"0"' + sample % '"1"') == 2064
        assert l2_capacity(METRICS) is None

    def test_since(self):
        counters = TransferCounters(5, 50, 3, 30).since(TransferCounters(1, 10, 0, 0))
        assert counters == TransferCounters(4, 40, 3, 30)
        assert counters.bytes_per_token == 10
        assert TransferCounters().bytes_per_token is None


class TestModel:
    def geometry(self, folder: Path, text: str) -> KVGeometry:
        (folder / "config.json").write_text(text)
        return model_geometry(folder, page_size=16)

    def test_geometry(self, tmp_path):
        config = {"num_hidden_layers": 30, "num_attention_heads": 9, "hidden_size": 576}
        assert self.geometry(tmp_path, json.dumps(config)) == KVGeometry(30, 9, 64, page_size=16)
        grouped = {**config, "num_key_value_heads": 3, "head_dim": 128}
        assert self.geometry(tmp_path, json.dumps(grouped)) == KVGeometry(30, 3, 128, page_size=16)

    @pytest.mark.parametrize("text", ["{", "[]", "{}", '{"num_attention_heads": 0}'])
    def test_other_models_are_refused(self, tmp_path, text):
        assert refusal(lambda: self.geometry(tmp_path, text)).exit_code == Exit.USAGE

    def test_no_model_is_refused(self, tmp_path):
        assert "config.json does not exist" in str(refusal(lambda: model_geometry(tmp_path, 16)))

    def test_no_tokenizer_is_refused(self, tmp_path):
        pytest.importorskip("tokenizers")
        (tmp_path / "tokenizer.json").write_text("{}")
        assert "is not a tokenizer" in str(refusal(lambda: encoded_topics(tmp_path)))


class TestLaunch:
    SERVING = Serving(Path("/models/m"), 1216, 16)

    def test_the_options_of_an_l2(self, tmp_path):
        l2 = L2("int8", ("--hicache-ratio", "2.5"), 7, "write_back")
        launch = sglang_launch("int8", self.SERVING, l2, tmp_path)
        command = " ".join(launch.command)
        assert "--enable-hierarchical-cache --hicache-l2-codec int8" in command
        assert "--hicache-write-policy write_back --hicache-ratio 2.5" in command
        assert "--max-running-requests 1 " in command
        assert launch.environment["HIQCACHE_POOL_REPORT"] == str(launch.pool_report)
        assert launch.environment["PYTHONPATH"].split(os.pathsep)[0] == str(PLUGIN)
        assert launch.url == f"http://127.0.0.1:{launch.port}"

    @pytest.mark.parametrize("gpu", [True, False])
    def test_the_cpu_serves_where_there_is_no_gpu(self, tmp_path, monkeypatch, gpu):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        monkeypatch.delenv("SGLANG_USE_CPU_ENGINE", raising=False)
        launch = sglang_launch("none", self.SERVING, None, tmp_path)
        assert ("--device" in launch.command) is not gpu
        assert ("SGLANG_USE_CPU_ENGINE" in launch.environment) is not gpu

    def test_no_l2(self, tmp_path):
        launch = sglang_launch("none", self.SERVING, None, tmp_path)
        assert "hi" not in {option[2:4] for option in launch.command}
        assert launch.l2 is None

    def test_the_environment_cannot_turn_the_raw_l2_into_int8(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SGLANG_EXPERIMENTAL_HICACHE_INT8", "1")
        monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
        launch = sglang_launch(
            "raw", self.SERVING, L2(NO_CODEC, ("--hicache-ratio", "2.0"), 7), tmp_path
        )
        assert "SGLANG_EXPERIMENTAL_HICACHE_INT8" not in launch.environment
        assert launch.environment["OMP_WAIT_POLICY"] == "ACTIVE"


CHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
"""
HTTP = """
import http.server, json, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    seen, restored = set(), 0

    def log_message(self, *args): pass

    def answer(self, text, status=200):
        self.send_response(status); self.end_headers(); self.wfile.write(text.encode())

    def do_GET(self):
        tokens = Handler.restored * COUNTED
        self.answer("sglang:load_back_tokens_total{pool=\\"kv\\"} %d\\n" % tokens
                    if self.path == "/metrics" else "")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.startswith("/flush_cache"):
            Handler.seen.clear()
            return self.answer("")
        if FAIL == "crash":
            print("RuntimeError: out of memory", flush=True)
            os._exit(3)
        if FAIL:
            return self.answer("out of luck", 500)
        ids, start = body["input_ids"], body["logprob_start_len"]
        known = tuple(ids[:start]) in Handler.seen
        Handler.seen.add(tuple(ids[:start]))
        Handler.restored += start if known else 0
        details = {"device": 0, "host": start} if known else None
        scored = [[None, ids[start], None]] + [[-float(i % 7), i, None] for i in ids[start + 1:]]
        self.answer(json.dumps({"meta_info": {"prompt_tokens": len(ids),
            "cached_tokens_details": details, "input_token_logprobs": scored,
            "output_token_logprobs": [[-0.5, 7, None]]}}))

server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
"""
SERVE = "server.serve_forever()"


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Launch]:
    """Describe a server that is a script of these parts; it gets its port as an argument."""

    def make(*parts: str, fail: str = "", counted: int = 1) -> Launch:
        file = tmp_path / "server.py"
        file.write_text("\n".join([f"FAIL, COUNTED = {fail!r}, {counted}", *parts]))
        port, log = free_port(), tmp_path / "server.log"
        command = (sys.executable, str(file), str(port))
        return Launch("fake", command, os.environ, port, log, None, tmp_path / "pool")

    return make


def start(launch: Launch, grace_s: float = 10.0) -> int:
    """Wait until a server is ready and return its session."""
    with running(launch, grace_s) as server:
        server.wait_until_ready()
        assert living(server.process.pid)
        return server.process.pid


class TestServer:
    def test_ends_with_its_children(self, script):
        assert living(start(script(HTTP, CHILD, SERVE))) == []

    def test_one_that_ignores_the_request_to_end_is_killed(self, script):
        deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
        assert living(start(script(HTTP, CHILD, deaf, SERVE), grace_s=1)) == []

    def test_one_that_dies_as_it_starts_is_one_line_and_leaves_no_child(self, script):
        launch = script(CHILD, "raise ValueError('no such codec\\n')", "")
        sessions = []

        def attempt() -> None:
            with running(launch) as server:
                sessions.append(server.process.pid)
                server.wait_until_ready()

        error = refusal(attempt)
        assert error.exit_code == Exit.FINDINGS
        assert "'fake' ended with code 1 as it started: ValueError: no such codec" in str(error)
        assert str(launch.log) in str(error)
        assert living(sessions[0]) == []

    @pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
    def test_an_interruption_leaves_nothing(self, script, interruption):
        with pytest.raises(interruption), running(script(HTTP, CHILD, SERVE)) as s:
            s.wait_until_ready()
            raise interruption
        assert living(s.process.pid) == []

    def test_one_that_is_never_ready_is_refused(self, script):
        with running(script("import time; print('still loading'); time.sleep(600)")) as server:
            assert "was not ready after 0 s" in str(
                refusal(lambda: server.wait_until_ready(timeout_s=0.1))
            )

    def test_the_last_error_tells_most(self, tmp_path):
        log = tmp_path / "log"
        log.write_text("ValueError: the reason\n  \nkill_process_tree called\n")
        assert last_words(log) == "ValueError: the reason"
        log.write_text("loading\nbye\n\n")
        assert last_words(log) == "bye"
        log.write_text("")
        assert last_words(log) == "it wrote nothing"
        log.write_text("x" * 1000)
        assert len(last_words(log)) < 400


class TestRunWorkload:
    @pytest.fixture(autouse=True)
    def _poll_at_once(self, monkeypatch):
        monkeypatch.setattr("serving.settling._POLL_S", 0.0)

    def test_every_prompt_is_answered_and_the_counters_agree(self, script, workload, capsys):
        run = run_workload(script(HTTP, SERVE), workload, Lines(quiet_s=0))
        again = SCALE.draws - SCALE.groups
        assert run.restored_tokens == run.counters.load_back_tokens == again * 8
        assert len(run.replies) == SCALE.draws
        assert all(len(r.logprobs) == SCALE.suffix_tokens - 1 for r in run.replies)
        assert run.replies[0].cached_tokens == 0  # the warm-up was flushed
        assert f"requests {SCALE.draws}/{SCALE.draws}" in capsys.readouterr().err

    def test_a_request_that_fails_is_one_line(self, script, workload):
        launch = script(HTTP, SERVE, fail="500")
        error = refusal(lambda: run_workload(launch, workload, Lines()))
        assert "'fake' failed a request (/generate answered 500 out of luck)" in str(error)
        assert str(launch.log) in str(error)

    def test_a_server_that_dies_meanwhile_is_one_line(self, script, workload):
        launch = script(HTTP, SERVE, fail="crash")
        error = refusal(lambda: run_workload(launch, workload, Lines()))
        assert "/generate was not answered" in str(error)
        assert "RuntimeError: out of memory; read " in str(error)

    def test_a_missing_pool_report_is_refused(self, script, workload):
        launch = replace(script(HTTP, SERVE), l2=L2(NO_CODEC, ("--hicache-ratio", "2.0"), 7))
        assert "0 host pools" in str(refusal(lambda: run_workload(launch, workload, Lines())))

    def test_counters_that_deny_the_restores_are_refused(self, script, workload):
        launch = script(HTTP, SERVE, counted=0)
        assert "SGLang counted 0" in str(refusal(lambda: run_workload(launch, workload, Lines())))

    def test_no_server_is_no_answer(self):
        with pytest.raises(RequestError, match="was not answered"):
            Client(f"http://127.0.0.1:{free_port()}").metrics()


class TestProgress:
    def test_counts_are_throttled_and_facts_are_not(self, capsys):
        quiet = Lines(quiet_s=1e9)
        quiet.count("requests", 1, 2)
        quiet.say("a fact")
        quiet.stage("a stage")
        assert capsys.readouterr().err.splitlines() == ["a fact", "a stage"]
        Lines(quiet_s=0).count("requests", 1, 2)
        assert capsys.readouterr().err == "requests 1/2\n"


class TestWriteFile:
    def test_replaces(self, tmp_path):
        file = tmp_path / "f"
        file.write_text("old")
        write_file(file, "new")
        assert file.read_text() == "new\n"
        assert list(tmp_path.iterdir()) == [file]

    def test_leaves_nothing_behind(self, tmp_path):
        (tmp_path / "folder").mkdir()
        with pytest.raises(OSError):
            write_file(tmp_path / "folder", "new")
        assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def run_demo(*arguments: str, path: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
    """Run the demo with no packages but those of ``path``."""
    environment = {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", str(TOOLS / "demo.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


class TestDemo:
    def test_help_has_an_example(self):
        assert "tools/demo.py --quick --json" in run_demo("--help").stdout

    def test_an_environment_without_the_series_is_refused(self, tmp_path):
        (tmp_path / "sglang").mkdir()
        (tmp_path / "sglang" / "__init__.py").touch()
        for path, said in (
            ([], "hiqcache is not installed here"),
            ([TOOLS.parent], "SGLang is not installed here"),
            ([TOOLS.parent, tmp_path], "SGLang unknown is not patched"),
        ):
            done = run_demo(path=path)
            assert (done.returncode, done.stdout) == (Exit.USAGE, "")
            assert done.stderr.startswith(f"demo.py: {said}; run tox -e demo")
            assert done.stderr.count("\n") == 1

    def test_a_file_that_cannot_be_written_is_refused_at_once(self, tmp_path):
        done = run_demo("--json", str(tmp_path / "none" / "f.json"))
        assert done.returncode == Exit.USAGE
        assert "no such folder; mkdir -p" in done.stderr

    @pytest.mark.parametrize(
        ("error", "stays"), [(None, False), (KeyboardInterrupt, False), (ToolError, True)]
    )
    def test_logs_stay_after_a_failure_alone(self, error, stays):
        folder = Path()
        try:
            with logs_folder("demo") as folder:
                (folder / "none.log").touch()
                if error is ToolError:
                    raise ToolError("it failed", "read the log", Exit.FINDINGS)
                if error:
                    raise error
        except (ToolError, KeyboardInterrupt):
            pass
        assert (folder / "none.log").exists() is stays
        if stays:
            shutil.rmtree(folder)
