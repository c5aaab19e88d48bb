"""The benchmark on the real model: its controls, its short run, and what it keeps."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import rate_distortion
import torch

from kvbench.catalogue import QUICK
from kvbench.measure import Run, Window
from kvbench.metrics import Score, compare
from kvbench.model import KV, PREFIX, SCORED, Model
from kvbench.store import Key, Measured, Store
from kvbench.texts import documents, quick_documents


@pytest.fixture(scope="module")
def window(model: Model) -> Window:
    return Window(model, next(model.windows(quick_documents()[0].read(), 1)))


class TestControls:
    def test_the_same_kv_has_no_divergence(self, window: Window) -> None:
        assert window.score(window.kv) == Score(SCORED, 0.0, 0.0, SCORED, 0.0)

    def test_keys_of_zeros_are_a_disaster(self, window: Window) -> None:
        broken = window.score(KV(torch.zeros_like(window.kv.keys), window.kv.values))
        assert broken.divergence / SCORED > 1.0
        assert broken.agreeing < 0.5 * SCORED

    def test_values_of_another_layer_are_a_disaster(self, window: Window) -> None:
        broken = window.score(KV(window.kv.keys, window.kv.values.roll(1, 0)))
        assert broken.divergence / SCORED > 1.0

    def test_the_model_predicts_text(self, window: Window) -> None:
        following = window.tokens[PREFIX + 1 :]
        surprise = torch.nn.functional.cross_entropy(window.reference, following)
        assert surprise < 4.0  # a guess among all tokens would be 10.8

    def test_the_rotary_tables_are_float32(self, model: Model) -> None:
        assert model.network.model.rotary_emb.inv_freq.dtype == torch.float32
        assert {weight.dtype for weight in model.network.parameters()} == {torch.float32}


def test_every_text_is_long_enough(model: Model) -> None:
    for document in documents():
        windows = list(model.windows(document.read(), rate_distortion.WINDOWS))
        assert [len(window) for window in windows] == [PREFIX + SCORED + 1] * len(windows)
        assert len(windows) == rate_distortion.WINDOWS


def test_a_text_that_is_too_short_is_refused(model: Model) -> None:
    with pytest.raises(ValueError, match="1281 are needed"):
        next(model.windows("too short", 1))


def test_the_full_run_scores_what_it_must() -> None:
    assert len(documents()) >= 20
    assert len(documents()) * rate_distortion.WINDOWS * SCORED >= 20_000


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scores") / "scores.jsonl"


class TestQuickRun:
    def test_prints_and_writes_a_row_for_each_format(
        self, scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "out.json"
        command = ["--quick", "--scores", str(scores), "--json", str(out)]
        assert rate_distortion.main(command) == 0
        printed = capsys.readouterr()
        assert all(name in printed.out for name in QUICK)
        assert "2/2 " in printed.err
        rows = {row["name"]: row for row in json.loads(out.read_text())["formats"]}
        assert set(rows) == set(QUICK)
        assert rows["gguf q8_0"]["bits"] == 8.5
        assert 0 < rows["gguf q8_0"]["kl"]["estimate"] < 1e-3
        assert 1e-3 < rows["gguf q4_0"]["kl"]["estimate"] < 1e-1

    def test_what_is_scored_is_not_scored_again(
        self, scores: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(Window, "measure", lambda *_: pytest.fail("scored again"))
        assert rate_distortion.main(["--quick", "--scores", str(scores)]) == 0
        printed = capsys.readouterr().out
        assert all(name in printed for name in QUICK)


class TestStore:
    KEY = Key("setting", "int8", "1", "digest", 0)
    MEASURED = Measured(100, 200, Score(256, 0.5, 0.1, 255, 0.01))

    def test_a_line_that_was_cut_is_measured_again(self, tmp_path: Path) -> None:
        file = tmp_path / "folder" / "scores.jsonl"
        Store(file).add(self.KEY, self.MEASURED)
        with file.open("a") as stream:
            stream.write('\n[{"setting": "sett')
        again = Store(file)
        assert self.KEY in again
        assert again[self.KEY] == self.MEASURED

    def test_a_score_goes_on_a_line_of_its_own_after_a_cut_one(self, tmp_path: Path) -> None:
        file = tmp_path / "scores.jsonl"
        file.write_text('[{"setting": "sett')
        Store(file).add(self.KEY, self.MEASURED)
        assert self.KEY in Store(file)

    @pytest.mark.parametrize(
        "line", [b"5", b"[1, 2]", b'[{}, {"score": {}}]', b"[[], {}]", b"[" * 100_000, b"\xff\xfe"]
    )
    def test_a_line_of_another_program_is_passed_over(self, tmp_path: Path, line: bytes) -> None:
        file = tmp_path / "scores.jsonl"
        file.write_bytes(line)
        Store(file).add(self.KEY, self.MEASURED)
        assert Store(file)[self.KEY] == self.MEASURED

    @pytest.mark.parametrize("change", ["setting", "format", "made", "document"])
    def test_another_key_is_not_found(self, tmp_path: Path, change: str) -> None:
        store = Store(tmp_path / "scores.jsonl")
        store.add(self.KEY, self.MEASURED)
        assert Key(**vars(self.KEY) | {change: "another"}) not in store


def test_a_model_that_answers_differently_is_refused(tmp_path: Path) -> None:
    class Fickle(Model):
        def __init__(self) -> None:
            self.answers = 0

        def windows(self, text, count):
            yield torch.arange(PREFIX + SCORED + 1)

        def prefill(self, window):
            return KV(*torch.zeros(2, 1, PREFIX, 1, 64).bfloat16())

        def score(self, window, kv):
            self.answers += 1
            logits = torch.zeros(SCORED, 2000)
            logits[0, 0] = self.answers
            return logits

    from kvbench.catalogue import ours

    planned = Run("", documents()[:1], 1, ours()[:1])
    with pytest.raises(RuntimeError, match="scored differently twice"):
        planned.fill(Store(tmp_path / "scores.jsonl"), Fickle(), lambda _: None)


class TestDivergence:
    def test_of_two_coins(self) -> None:
        reference = torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log()
        found = torch.tensor([[0.25, 0.75], [0.9, 0.1]]).log() + 7.0  # logits of any level
        score = compare(reference, found, torch.tensor([0, 1]))
        expected = 0.5 * math.log(2.0) + 0.5 * math.log(2 / 3)
        assert score.divergence == pytest.approx(expected, rel=1e-5)
        assert score.largest == pytest.approx(expected, rel=1e-5)
        assert score.surprise == pytest.approx(math.log(2.0), rel=1e-5)
        assert (score.tokens, score.agreeing) == (2, 1)

    @pytest.mark.parametrize("size", [1e-4, 1e-2, 1.0])
    def test_is_that_of_float64(self, size: float) -> None:
        generator = torch.Generator().manual_seed(0)
        reference = 5 * torch.randn(64, 49152, generator=generator)
        found = reference + size * (1 + torch.randn(reference.shape, generator=generator))
        ours, theirs = (torch.log_softmax(part.double(), -1) for part in (reference, found))
        expected = (ours.exp() * (ours - theirs)).sum().item()
        following = reference.argmax(-1)
        assert compare(reference, found, following).divergence == pytest.approx(expected, rel=1e-3)

    def test_a_disaster_is_a_number(self) -> None:
        reference, found = torch.zeros(2, 100), torch.zeros(2, 100)
        found[0, 0], found[1] = 1000.0, 1000.0  # a certain error; another level alone
        score = compare(reference, found, torch.tensor([1, 1]))
        assert score.largest > 50.0
        assert score.divergence == pytest.approx(score.largest)
