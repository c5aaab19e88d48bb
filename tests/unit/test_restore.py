"""Restores of prefixes by length, without a server: the proof, the document, going on with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evidence import restore
from evidence.restore import Lengths, Row, measure
from patchstack.errors import ToolError
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
    cold, restored, counted = restore._try(server(), 1, prefix, LENGTHS)
    assert (cold.cached_tokens, restored.device_tokens, restored.host_tokens) == (0, 0, prefix)
    assert counted["sglang:hicache_backup_tokens_total"] == 0  # this server's stand still


@pytest.mark.parametrize("broken", [{"writes_through": False}, {"l2_tokens": 64}])
def test_without_a_restore_there_is_no_result(broken: dict) -> None:
    with pytest.raises(ToolError, match="no result: of a prefix of 128 tokens"):
        restore._try(server(**broken), 1, 128, LENGTHS)


def test_what_is_not_counted_is_not_measured() -> None:
    row = restore._row(server(), "raw", 128, LENGTHS)
    assert row.phases == {"move_s": None, "decode_s": None, "encode_s": None}
    assert len(row.ttft_s) == len(row.cold_ttft_s) == LENGTHS.repeats


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The configurations that are served, in place of their servers."""
    names: list[str] = []

    def rows(model: Path, name: str, *_: object) -> list[Row]:
        names.append(name)
        return [Row(name, prefix, (1.0,), (0.5,), {}, 1) for prefix in LENGTHS.prefixes]

    monkeypatch.setattr(restore, "_rows", rows)
    yield names


def test_a_measurement_goes_on_where_it_was(tmp_path: Path, served: list[str]) -> None:
    file = tmp_path / "restore.json"
    for names in (["raw"], ["raw", "int8"]):
        measure(tmp_path / "tiny", names, LENGTHS, file, Lines())
    assert served == ["raw", "int8"]
    found = json.loads(file.read_text())
    assert [row["configuration"] for row in found["rows"]] == ["raw", "raw", "int8", "int8"]


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(repeats=9),
        lambda found: found.update(model="other"),
        lambda found: found["provenance"].update(sglang="t"),
        lambda found: found.pop("provenance"),
    ],
)
def test_another_measurement_is_not_added_to(tmp_path: Path, served: list[str], change) -> None:
    file = tmp_path / "restore.json"
    measure(tmp_path / "tiny", ["raw"], LENGTHS, file, Lines())
    found = json.loads(file.read_text())
    change(found)
    file.write_text(json.dumps(found))
    with pytest.raises(ToolError, match="of another measurement; name another --out"):
        measure(tmp_path / "tiny", ["raw", "int8"], LENGTHS, file, Lines())
    assert served == ["raw"]
