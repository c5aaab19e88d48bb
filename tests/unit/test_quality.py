"""Quality after restores: prompts, rounds, proof, figures, and what is no result.

Servers are stores that remember what they were sent. None of it needs SGLang.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import quality
from hypothesis import given
from hypothesis import strategies as st

from hiqcache.codecs import codec_names
from patchstack.errors import Exit, ToolError
from serving.client import Reply
from serving.l2 import usable_codecs
from serving.launch import free_port
from serving.progress import Lines
from serving.quality.agreement import Agreement
from serving.quality.answers import Answer, collect
from serving.quality.document import make_document, read_document, to_json
from serving.quality.facts import read_facts, refuse_incomparable
from serving.quality.measuring import Measured, measure
from serving.quality.output import notes, page, print_table
from serving.quality.prompts import NEW_TOKENS, SCORED_TOKENS, Draw, Size, draw_prompts
from serving.quality.rounds import plan_rounds
from tests.unit.lru_server import LruServer
from tests.unit.refusing import refusal

SIZE = Size(requests=20, prefix_tokens=64)
TEXTS = [[1000 * text + token for token in range(500)] for text in range(10)]


@pytest.fixture
def draw() -> Draw:
    return draw_prompts(TEXTS, SIZE)


class TestPrompts:
    def test_no_two_begin_alike_nor_does_a_filler(self, draw):
        assert len({prompt[0] for prompt in draw.prompts}) == SIZE.requests
        assert all(len(prompt) == SIZE.prompt_tokens for prompt in draw.prompts)
        fillers = list(draw.fillers(3))
        assert {len(filler) for filler in fillers} == {SIZE.prefix_tokens}
        assert not {filler[0] for filler in fillers} & {prompt[0] for prompt in draw.prompts}

    def test_they_are_always_the_same(self, draw):
        assert draw_prompts(TEXTS, SIZE) == draw
        assert list(draw.fillers(3)) == list(draw.fillers(3))

    def test_texts_that_repeat_their_beginning_are_entered_later(self):
        repeated = [[1, 2, *range(100 * n, 100 * n + 90)] for n in range(1, 4)]
        found = draw_prompts(repeated, Size(3, 64))
        assert sorted(prompt[0] for prompt in found.prompts) == [1, 2, 300]

    def test_too_little_text_is_refused(self):
        error = refusal(lambda: draw_prompts(TEXTS[:1], SIZE))
        assert error.exit_code == Exit.USAGE
        assert "the text holds 6 prompts of 81 tokens, fewer than 20" in str(error)


class TestRounds:
    def test_a_prefix_is_whole_pages(self):
        facts = read_facts(LruServer(500, 5000, page_size=48))
        assert "give --prefix-tokens 96" in str(refusal(lambda: plan_rounds(facts, SIZE)))

    def test_an_l2_that_loses_what_l1_has_to_lose_is_refused(self):
        facts = read_facts(LruServer(500, 600))
        error = refusal(lambda: plan_rounds(facts, SIZE))
        assert error.exit_code == Exit.USAGE
        assert "an L2 of 600 tokens is too small beside an L1 of 500" in str(error)

    @given(
        page_size=st.sampled_from([1, 4, 16, 64]),
        l1_pages=st.integers(3, 40),
        ratio=st.floats(1.1, 20),
    )
    def test_whatever_the_caches_every_prefix_is_restored_or_it_is_refused(
        self, page_size, l1_pages, ratio
    ):
        l1_tokens = max(l1_pages * page_size, SIZE.served_tokens + page_size)
        server = LruServer(l1_tokens, int(l1_tokens * ratio), page_size)
        try:
            plan_rounds(read_facts(server), SIZE)
        except ToolError:
            return
        answers = served(server, draw_prompts(TEXTS, SIZE))
        assert all(answer.is_restored for answer in answers)


def served(server: LruServer, draw: Draw) -> tuple[Answer, ...]:
    return collect(server, read_facts(server), draw, Lines())


def reply(device: int = 0, host: int = 0, tokens: int = 4) -> Reply:
    return Reply(tokens, device, host, 0.0, (), ((1, -1.0),))


class TestProof:
    @pytest.mark.parametrize(
        ("prefix", "prompt", "proven"),
        [
            (reply(), reply(host=4, tokens=6), True),
            (reply(), reply(host=3, tokens=6), False),
            (reply(), reply(host=5, tokens=6), False),
            (reply(), reply(device=4, tokens=6), False),
            (reply(), reply(device=1, host=4, tokens=6), False),
            (reply(), reply(tokens=6), False),
            (reply(host=1), reply(host=4, tokens=6), False),
            (reply(device=1), reply(host=4, tokens=6), False),
        ],
    )
    def test_the_whole_prefix_from_l2_and_nothing_before(self, prefix, prompt, proven):
        assert Answer(prefix, prompt).is_restored is proven

    def test_nothing_restored_is_no_result(self, draw):
        error = refusal(lambda: served(LruServer(200, 5000, writes_through=False), draw))
        assert error.exit_code == Exit.FINDINGS
        assert "no result: 0 of 20 requests were restored from the L2 of http://lru" in str(error)

    def test_that_is_found_out_after_one_round(self, draw):
        error = refusal(lambda: served(LruServer(200, 800, writes_through=False), draw))
        assert "0 of 4 requests" in str(error)


class TestFacts:
    def test_a_server_without_an_l2_is_refused(self, monkeypatch):
        server = LruServer(200, 5000)
        monkeypatch.setattr(server, "server_info", dict)
        assert "has no L2; start it with" in str(refusal(lambda: read_facts(server)))

    def test_a_server_without_metrics_is_refused(self, monkeypatch):
        server = LruServer(200, 5000)
        monkeypatch.setattr(server, "metrics", str)
        assert "--enable-metrics" in str(refusal(lambda: read_facts(server)))

    @pytest.mark.parametrize("codecs", [("int8", "int8"), ("none", "none"), ("int8", "none")])
    def test_the_first_is_raw_and_the_second_encoded(self, codecs):
        raw, encoded = (read_facts(LruServer(200, 5000, codec=codec)) for codec in codecs)
        assert "the L2s are" in str(refusal(lambda: refuse_incomparable(raw, encoded)))

    def test_no_codec_is_the_raw_l2(self, monkeypatch):
        server = LruServer(200, 5000)
        info = {**server.server_info(), "hicache_l2_codec": None}
        monkeypatch.setattr(server, "server_info", lambda: info)
        assert read_facts(server).codec == "none"

    def test_servers_that_differ_are_refused(self):
        raw, encoded = (
            read_facts(LruServer(200, 5000, page_size=page, codec=codec))
            for page, codec in ((1, "none"), (2, "int8"))
        )
        error = refusal(lambda: refuse_incomparable(raw, encoded))
        assert "the servers differ in page_size: 1 and 2" in str(error)


def answer(tokens: dict[int, int] | None = None, off: dict[int, float] | None = None) -> Reply:
    """A restored answer of zeros, but for tokens and logprobs at these places."""
    tokens, off = tokens or {}, off or {}
    scored = tuple(off.get(at, 0.0) - 1 for at in range(SCORED_TOKENS))
    generated = tuple(
        (tokens.get(at, 0), off.get(SCORED_TOKENS + at, 0.0) - 1) for at in range(NEW_TOKENS)
    )
    return Reply(417, 0, 384, 0.0, scored, generated)


class TestAgreement:
    def test_answers_that_are_alike(self):
        figures = Agreement.between([(answer(), answer())] * 3).figures(resamples=10)
        assert [figures[name].value for name in ("mean", "p95", "p99", "max")] == [0.0] * 4
        shares = ("first_token", "tokens_16", "tokens_32", "per_token")
        assert [figures[name].value for name in shares] == [1.0] * 4

    def test_figures_that_can_be_followed_by_hand(self):
        pairs = [
            (answer(), answer()),
            (answer(), answer({0: 9})),  # another first token, and 31 that are the same again
            (answer(), answer({15: 9})),
            (answer(), answer({16: 9, 17: 9})),
        ]
        values = Agreement.between(pairs).values()
        assert values["first_token"] == 3 / 4
        assert values["tokens_16"] == 2 / 4
        assert values["tokens_32"] == 1 / 4
        assert values["per_token"] == (32 + 31 + 31 + 30) / (4 * 32)

    def test_logprobs_count_up_to_the_first_other_token(self):
        # Places 0 to 15 are scored, 16 and on generated; the third generated token differs.
        encoded = answer({2: 9}, {3: 0.5, 17: -0.25, 18: 7.0, 19: 8.0})
        agreement = Agreement.between([(answer(), encoded)])
        assert agreement.positions == SCORED_TOKENS + 2
        values = agreement.values()
        assert values["max"] == 0.5
        assert values["mean"] == pytest.approx(0.75 / 18)

    def test_percentiles_are_of_all_tokens(self):
        rng = np.random.default_rng(1)
        off = [dict(enumerate(rng.normal(size=48))) for _ in range(20)]
        values = Agreement.between([(answer(), answer(off=o)) for o in off]).values()
        apart = np.abs([list(o.values()) for o in off]).ravel()
        assert values["p95"] == pytest.approx(np.quantile(apart, 0.95))
        assert values["p99"] == pytest.approx(np.quantile(apart, 0.99))

    def test_intervals_hold_the_truth_as_often_as_they_say(self):
        rng, held, trials = np.random.default_rng(0), 0, 100
        for _ in range(trials):
            agrees = rng.random(80) < 0.7
            same = np.repeat(agrees[:, None], NEW_TOKENS, axis=1)
            figure = Agreement(same, np.ones((80, 48))).figures(resamples=100)["per_token"]
            held += figure.low <= 0.7 <= figure.high
        # Tokens agree or differ with their request: by tokens the interval would be 5.7 times
        # narrower, and hold the truth in a quarter of the trials.
        assert 0.87 <= held / trials <= 0.99

    def test_they_are_always_the_same(self):
        pairs = [(answer(), answer({at: 9}, {at: 0.5})) for at in range(5)]
        assert Agreement.between(pairs).figures(50) == Agreement.between(pairs).figures(50)


class TestMeasure:
    CUT = Size(requests=8, prefix_tokens=64)

    def measured(self, *encoded: LruServer, raw: LruServer | None = None) -> Measured:
        return measure(raw or LruServer(200, 5000), encoded, self.CUT, Lines())

    def document(self, *encoded: LruServer) -> dict:
        return make_document(self.measured(*encoded), "tools/quality.py", None)

    def test_one_raw_run_serves_all_codecs(self):
        servers = [LruServer(200, 5000, codec="a"), LruServer(300, 900, codec="b", error=0.5)]
        codecs = self.document(*servers)["codecs"]
        assert list(codecs) == ["a", "b"]
        assert [c["restored"] for c in codecs.values()] == [8, 8]
        assert [c["computed_alike"] for c in codecs.values()] == [8, 8]
        assert [c["figures"]["max"]["value"] for c in codecs.values()] == [0.0, 0.5]
        assert codecs["b"]["requests"][0] == {
            "raw_device": 0,
            "raw_host": 64,
            "codec_device": 0,
            "codec_host": 64,
            "restored": True,
            "same_tokens": 32,
            "same_until_first_other": 32,
            "mean": pytest.approx(0.5 * 16 / 48),
            "max": 0.5,
        }

    def test_a_second_raw_server_is_refused_before_it_serves(self):
        assert "the L2s are 'none' and 'none'" in str(
            refusal(lambda: self.document(LruServer(200, 5000)))
        )

    def spoilt(self, measured: Measured, *which: int) -> Measured:
        """What was measured, had L1 given a page to these of the encoded requests."""
        (encoded,) = measured.encoded
        answers = tuple(
            replace(a, prompt=replace(a.prompt, device_tokens=1)) if at in which else a
            for at, a in enumerate(encoded.answers)
        )
        return replace(measured, encoded=(replace(encoded, answers=answers),))

    def test_what_was_not_restored_is_counted_and_left_out(self):
        measured = self.measured(LruServer(200, 5000, codec="int8", error=0.5))
        int8 = make_document(self.spoilt(measured, 0, 3), "", None)["codecs"]["int8"]
        assert int8["restored"] == 6
        assert int8["positions"] == 6 * 48
        left_out = [at for at, row in enumerate(int8["requests"]) if not row["restored"]]
        assert left_out == [0, 3]
        assert int8["requests"][0] == {
            "raw_device": 0,
            "raw_host": 64,
            "codec_device": 1,
            "codec_host": 64,
            "restored": False,
        }

    def test_none_in_common_is_no_result(self):
        measured = self.spoilt(self.measured(LruServer(200, 5000, codec="int8")), *range(8))
        error = refusal(lambda: make_document(measured, "", None))
        assert error.exit_code == Exit.FINDINGS
        assert (
            "no result: 0 of 8 requests were restored from both the raw L2 (8) and int8's (0)"
            in str(error)
        )


class TestOutput:
    @pytest.fixture
    def document(self) -> dict:
        servers = [LruServer(200, 5000, codec="int8", error=0.5)]
        measured = measure(LruServer(200, 5000), servers, Size(8, 64), Lines())
        return make_document(measured, "tools/quality.py --requests 8", None)

    def test_table(self, document, capsys):
        print_table(document)
        printed = capsys.readouterr().out
        cells = [re.split(r" {2,}", line.strip()) for line in printed.splitlines()]
        assert ["requests restored from both L2s", "8 of 8"] in cells
        assert ["same 32 tokens", "100.0% [100.0, 100.0]"] in cells
        assert ["|Δ logprob|, largest", "0.500 [0.500, 0.500]"] in cells
        assert "tiny: 8 prompts from the Python language reference" in printed
        assert "SGLang 0 on cpu." in printed

    def test_page(self, document):
        written = page(document)
        assert "\n    tools/quality.py --requests 8\n" in written
        assert "| requests restored from both L2s | 8 of 8 |\n" in written
        assert "| \\|Δ logprob\\|, largest | 0.500 [0.500, 0.500] |\n" in written
        assert written.endswith(notes(document)[-1])

    def test_json_is_read_again(self, document, tmp_path):
        file = tmp_path / "f.json"
        file.write_text(to_json(document))
        assert read_document(file) == document
        assert sum("raw_host" in line for line in file.read_text().splitlines()) == 8

    @pytest.mark.parametrize("text", ["{", "[" * 100_000, "[]", "{}", '{"schema": 0}'])
    def test_other_files_are_refused(self, tmp_path, text):
        file = tmp_path / "f.json"
        file.write_text(text)
        error = refusal(lambda: read_document(file))
        assert error.exit_code == Exit.USAGE
        assert "holds no result of this tool" in str(error)


class TestCommand:
    def run(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
        code = quality.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    def test_help_has_an_example(self, capsys):
        with pytest.raises(SystemExit):
            quality.main(["--help"])
        assert "tools/quality.py --quick --codec int8" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--raw-url", "http://a"], "--raw-url and --codec-url go together"),
            (["--raw-url", "http://a", "--codec-url", "http://b", "--codec", "int8"], "--codec"),
            (["--requests", "0"], "at least 1"),
            (["--prefix-tokens", "0"], "at least 1"),
            (["--page", "nowhere/f.md"], "--page nowhere/f.md: no such folder"),
        ],
    )
    def test_contradictions_are_refused(self, capsys, arguments, said):
        code, out, err = self.run(capsys, *arguments)
        assert (code, out) == (Exit.USAGE, "")
        assert said in err
        assert err.count("\n") == 1

    def test_an_address_where_nothing_answers_is_one_line(self, capsys):
        nowhere = f"http://127.0.0.1:{free_port()}/"
        code, out, err = self.run(capsys, "--raw-url", nowhere, "--codec-url", nowhere)
        assert (code, out) == (Exit.FINDINGS, "")
        assert f"{nowhere} failed a request (/server_info was not answered" in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize("address", ["here", "http://[::1", "http://a b"])
    def test_what_is_no_address_is_one_line(self, capsys, address):
        code, out, err = self.run(capsys, "--raw-url", address, "--codec-url", "http://b")
        assert (code, out) == (Exit.FINDINGS, "")
        assert f"{address} failed a request" in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        "text", ['{"schema": 1}', '{"schema": 1, "codecs": 5}', '{"schema": 1, "codecs": {}}']
    )
    def test_a_result_with_parts_missing_is_one_line(self, capsys, tmp_path, text):
        (file := tmp_path / "f.json").write_text(text)
        code, out, err = self.run(capsys, "--from", file)
        assert (code, out) == (Exit.USAGE, "")
        assert f"{file} holds no result of this tool" in err

    def test_a_result_is_shown_again(self, capsys, tmp_path):
        servers = [LruServer(200, 5000, codec="int8", error=0.5)]
        measured = measure(LruServer(200, 5000), servers, Size(8, 64), Lines())
        file, written = tmp_path / "f.json", tmp_path / "f.md"
        file.write_text(to_json(make_document(measured, "the command", None)))
        code, out, _ = self.run(capsys, "--from", file, "--page", written)
        assert code == Exit.DONE
        assert "requests restored from both L2s" in out
        assert "    the command\n" in written.read_text()
        _, out, _ = self.run(capsys, "--from", file, "--json")
        assert json.loads(out) == read_document(file)

    def test_codecs_are_known_before_any_server_starts(self):
        from hiqcache.geometry import KVGeometry

        geometry = KVGeometry(30, 3, 64, page_size=16)
        assert "int8" in usable_codecs(geometry, None)
        assert usable_codecs(geometry, ["int8", "int8"]) == ["int8"]
        error = refusal(lambda: usable_codecs(geometry, ["int9"]))
        assert error.exit_code == Exit.USAGE
        assert "unknown codec 'int9'" in str(error)


class TestCommitted:
    DOCS = Path(__file__).parents[2] / "docs"

    def test_the_page_is_what_the_result_says(self):
        document = read_document(self.DOCS / "quality.json")
        assert (self.DOCS / "quality.md").read_text() == page(document) + "\n"

    def test_every_codec_was_restored_often_enough(self):
        codecs = read_document(self.DOCS / "quality.json")["codecs"]
        assert set(codecs) == set(codec_names())
        assert all(codec["restored"] >= 200 for codec in codecs.values())
