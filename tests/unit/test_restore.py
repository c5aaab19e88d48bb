"""Restores of prefixes by length, without a server: the proof, the document, going on with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evidence import restore
from evidence.restore import Lengths, Tried, measure
from patchstack.errors import ToolError
from reporting.restore import load_restore
from serving.client import Reply
from serving.progress import Lines
from tests.unit.lru_server import LruServer

LENGTHS = Lengths((64, 128), 2)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.settling._POLL_S", 0.0)
    monkeypatch.setattr("evidence.restore.provenance", lambda: {"sglang": "s"})


def server(l2_tokens: int = 4096, **options: bool) -> LruServer:
    return LruServer(LENGTHS.l1_tokens, l2_tokens, page_size=64, **options)


@pytest.mark.parametrize("prefix", LENGTHS.prefixes)
def test_a_prefix_is_computed_and_comes_back(prefix: int) -> None:
    tried = restore._try(server(), 1, prefix, LENGTHS)
    assert tried.prefix_tokens == prefix
    assert min(tried.cold_ttft_s, tried.ttft_s) >= 0
    assert tried.phases == {"move_s": None, "decode_s": None}, "this server counts nothing"


@pytest.mark.parametrize("broken", [{"writes_through": False}, {"l2_tokens": 64}])
def test_without_a_restore_there_is_no_result(broken: dict) -> None:
    with pytest.raises(ToolError, match="no result: of a prefix of 128 tokens"):
        restore._try(server(**broken), 1, 128, LENGTHS)


class Counting(LruServer):
    """Counts as a GPU's server does: what a transfer took, when the next one ends."""

    def __init__(self, decodings: int = 1) -> None:
        super().__init__(LENGTHS.l1_tokens, 4096, page_size=64)
        self.decodings = decodings
        self.pending = self.counted = self.loads = 0

    def complete(self, *args: Any, **options: Any) -> Reply:
        reply = super().complete(*args, **options)
        self.counted, self.pending = self.counted + self.pending, 0
        if reply.host_tokens:
            self.pending, self.loads = self.decodings, self.loads + 1
        return reply

    def metrics(self) -> str:
        histograms = {
            "hicache_codec_decode": (self.counted, 2),
            "load_back_duration": (self.loads, 3),
        }
        return super().metrics() + "".join(
            f"# TYPE sglang:{name}_seconds summary\nsglang:{name}_seconds_count {count}\n"
            f"sglang:{name}_seconds_sum {seconds * count}\n"
            for name, (count, seconds) in histograms.items()
        )


def test_the_phases_are_those_of_the_restore() -> None:
    tried = restore._try(Counting(), 1, 128, LENGTHS)
    assert tried.phases == {"move_s": 1, "decode_s": 2}


@pytest.mark.parametrize("decodings", [0, 2])
def test_what_was_not_decoded_once_is_no_result(decodings: int) -> None:
    with pytest.raises(ToolError, match=f"was decoded {decodings} times"):
        restore._try(Counting(decodings), 1, 128, LENGTHS)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """The configurations and repetitions that are served, in place of their servers."""
    visits: list[tuple[str, int]] = []

    def visit(model: Path, name: str, repeat: int, *_: object) -> list[Tried]:
        visits.append((name, repeat))
        seconds = float(len(visits))
        phases = {"decode_s": None if name == "raw" else seconds}
        return [Tried(prefix, 9.0, seconds, phases, 1) for prefix in LENGTHS.prefixes]

    monkeypatch.setattr(restore, "_visit", visit)
    yield visits


def test_configurations_take_turns_and_each_length_has_a_row(
    tmp_path: Path, served: list[tuple[str, int]]
) -> None:
    file = tmp_path / "restore.json"
    measure(tmp_path / "tiny", ["raw", "int8"], LENGTHS, file, Lines())
    assert served == [("raw", 0), ("int8", 0), ("int8", 1), ("raw", 1)]
    rows = json.loads(file.read_text())["rows"]
    assert [(row["configuration"], row["prefix_tokens"]) for row in rows] == [
        (name, prefix) for name in ("raw", "int8") for prefix in LENGTHS.prefixes
    ]
    assert [row["ttft_s"] for row in rows] == [[1, 4], [1, 4], [2, 3], [2, 3]]
    assert rows[2]["phases"] == {"decode_s": [2, 3]} and rows[0]["cold_ttft_s"] == [9, 9]
    assert [row.phase("decode_s") for row in load_restore(file).rows] == [None, None, 2.5, 2.5]


def test_a_measurement_goes_on_where_it_was(tmp_path: Path, served: list[tuple[str, int]]) -> None:
    file = tmp_path / "restore.json"
    for names in (["raw"], ["raw", "int8"]):
        measure(tmp_path / "tiny", names, LENGTHS, file, Lines())
    assert served == [("raw", 0), ("raw", 1), ("int8", 0), ("int8", 1)]
    found = json.loads(file.read_text())
    for row in found["rows"]:
        if row["configuration"] == "int8":  # as if it had been stopped after the first
            del row["ttft_s"][1:], row["cold_ttft_s"][1:], row["phases"]["decode_s"][1:]
    file.write_text(json.dumps(found))
    measure(tmp_path / "tiny", ["raw", "int8"], LENGTHS, file, Lines())
    assert served[4:] == [("int8", 1)]


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(repeats=9),
        lambda found: found.update(model="other"),
        lambda found: found["provenance"].update(sglang="t"),
        lambda found: found.pop("provenance"),
    ],
)
def test_another_measurement_is_not_added_to(
    tmp_path: Path, served: list[tuple[str, int]], change
) -> None:
    file = tmp_path / "restore.json"
    measure(tmp_path / "tiny", ["raw"], LENGTHS, file, Lines())
    found = json.loads(file.read_text())
    change(found)
    file.write_text(json.dumps(found))
    with pytest.raises(ToolError, match="of another measurement; name another --out"):
        measure(tmp_path / "tiny", ["raw", "int8"], LENGTHS, file, Lines())
    assert served == [("raw", 0), ("raw", 1)]
