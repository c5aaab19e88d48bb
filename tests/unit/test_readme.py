"""The README's figures are those of the tools and of the committed results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from statistics import median

import pytest

from evidence.record import NO_L2, RAW
from formats.capacity import Capacity, Deployment, capacity
from formats.catalogue import built_in
from formats.models import PRESETS
from hiqcache.codecs import codec_class
from hiqcache.geometry import KVGeometry
from patchstack.context import ROOT
from reporting.comparisons import pairings
from reporting.measures import FIRST_TOKEN
from reporting.restore import load_restore
from reporting.runs import Results, load_runs
from reporting.simulation import load_validation

README = (ROOT / "README.md").read_text("utf-8")
RESULTS = json.loads((ROOT / "docs" / "rate-distortion.json").read_text("utf-8"))


def table(heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table whose first heading this is."""
    _, _, after = README.partition(f"\n| {heading} |")
    for line in after.splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def test_the_bytes_and_tokens_are_capacitys() -> None:
    assert "`tools/capacity.py --model qwen3-8b --page-size 64`" in README
    served = Deployment("qwen3-8b", PRESETS["qwen3-8b"], tp=1, page_size=64)
    expected = []
    for codec in ("none", *built_in()):
        found = capacity(served, codec, [8])
        assert isinstance(found, Capacity)
        expected.append((codec, f"{found.bytes_per_token_rank:,}", f"{found.filled[0].tokens:,}"))
    shown = [(row[0], row[2], row[3]) for row in table("`--hicache-l2-codec`")]
    assert shown == expected


def test_the_bytes_and_tokens_of_pages_of_one_token() -> None:
    found = capacity(Deployment("qwen3-8b", PRESETS["qwen3-8b"], 1, 1), "int8", [8])
    assert isinstance(found, Capacity)
    said = f"`int8` has {found.bytes_per_token_rank:,} bytes and {found.filled[0].tokens:,} tokens"
    assert said in " ".join(README.split())


def test_what_a_format_costs_is_what_was_measured() -> None:
    rows = {row["name"]: row for row in RESULTS["formats"]}
    shown = list(table("format"))
    assert len(shown) == 8
    for name, bits, kl, top1 in shown:
        row = rows[name]
        assert bits == f"{round(row['bits'], 2):g}"
        assert kl == f"{row['kl']['estimate']:.2e}"
        assert top1 == f"{row['top1_percent']['estimate']:.2f} %"


def test_how_it_was_measured() -> None:
    tokens = len(RESULTS["documents"]) * RESULTS["windows"] * RESULTS["scored"]
    said = (
        rf"{RESULTS['scored']} tokens scored after a {RESULTS['prefix']:,}-token prefix .*"
        rf"\({tokens:,} tokens of {len(RESULTS['documents'])} texts"
    )
    assert re.search(said, " ".join(README.split()))


def padded(heads: int, page: int) -> set[str]:
    """Name the codecs whose pages of that size are padded."""
    geometry = KVGeometry(36, heads, 128, page_size=page)
    return {name for name in built_in() if codec_class(name)(geometry).padding_bytes}


@pytest.mark.parametrize(("heads", "page"), [(8, 16), (1, 128)])
def test_where_padding_ends(heads: int, page: int) -> None:
    assert padded(heads, page // 2)
    assert not any(padded(heads, pages * page) for pages in range(1, 9))


def test_padding_is_told_as_it_is() -> None:
    assert padded(8, 8) == {"k8v4"}
    text = " ".join(README.split())
    told = "8 KV heads × 128 on a rank need no padding in pages of 16 tokens (INT8: of 8)"  # noqa: RUF001
    assert f"{told}, one head in pages of 128, and neither in their multiples" in text


def test_the_logprob_differences_are_the_committed_ones() -> None:
    codecs = json.loads((ROOT / "docs" / "quality.json").read_text("utf-8"))["codecs"]
    _, _, told = README.partition("the mean difference of a token's logprob")
    sentence = " ".join(told.partition("([docs/quality.md]")[0].split())
    shown = re.findall(r"(0\.\d{3})(?: nats)? with `([a-z0-9-]+)`", sentence)
    assert len(shown) == len(codecs)
    assert {name: value for value, name in shown} == {
        name: f"{codec['figures']['mean']['value']:.3f}" for name, codec in codecs.items()
    }


def test_how_many_answers_are_the_same_is_what_was_measured() -> None:
    codecs = json.loads((ROOT / "docs" / "quality.json").read_text("utf-8"))["codecs"]
    _, _, told = README.partition("tokens that are\ngenerated greedily then")
    sentence = " ".join(told.partition(":")[0].split())
    shown = re.findall(r"(\d+) %(?: of the answers)? with `([a-z0-9-]+)`", sentence)
    assert {name: value for value, name in shown} == {
        name: f"{codec['figures']['tokens_32']['value']:.0%}".rstrip("%")
        for name, codec in codecs.items()
    }


def test_the_hit_rates_are_those_of_the_committed_runs() -> None:
    shown = {row[0]: row[1:] for row in table("| no L2 | raw BF16 L2 | INT8 L2")}
    runs = [run for run in load_runs([ROOT / "results/runs/equal-bytes"]) if not run.invalid]
    for column, name in enumerate((NO_L2, RAW, "int8")):
        found = [run for run in runs if run.setup.configuration == name]
        assert f"Medians of {len(found)} repeats" in README
        rate = median(run.hit_rate for run in found)
        assert shown["hit rate"][column] == f"{rate:.1%}".replace("%", " %")
        restored = median(run.host_tokens for run in found)
        assert shown["tokens restored from L2"][column] == f"{restored:,}"
        if pool := found[0].pool:
            assert shown["L2 capacity, tokens"][column] == f"{pool.slots:,}"


def flat(text: str) -> str:
    return " ".join(text.split())


def test_where_denser_formats_hit_more_is_what_was_measured() -> None:
    runs = [run for run in load_runs([ROOT / "results/runs/working-set"]) if not run.invalid]
    sweep = [run for run in runs if run.setup.workload.working_set_tokens == 19_712]
    hits = {run.setup.configuration: f"{run.hit_rate:.0%}".replace("%", " %") for run in sweep}
    assert f"{19_712 / 6_782:.1f}" == "2.9"
    told = ", ".join(f"{hits[name]} `{name}`" for name in ("int8", "k8v4", "int4"))
    assert f"at 2.9 times the raw L2, {hits[RAW]} raw, {told}" in flat(README)


def test_how_long_requests_waited_is_what_was_measured() -> None:
    results = Results(tuple(load_runs([ROOT / "results/runs/equal-bytes"])))
    (pair,) = (pair for pair in pairings(results.cases[0]) if pair.one.name == "int8")
    found = pair.difference(FIRST_TOKEN)
    raw = median(pair.other.values(FIRST_TOKEN.of).values())
    told = f"{found.mean:.1f} s longer ({found.low:.1f} to {found.high:.1f}) than"
    assert f"{told} the raw L2's {raw:.1f} s" in flat(README)


def test_what_a_restore_takes_is_what_was_measured() -> None:
    rows = load_restore(ROOT / "results/restore.json").rows
    raw, int8 = (
        next(row for row in rows if (row.configuration, row.prefix_tokens) == (name, 2048))
        for name in (RAW, "int8")
    )
    assert (
        f"a restore of 2,048 tokens takes {median(raw.ttft_s):.2f} s from the raw L2, "
        f"{median(int8.ttft_s):.2f} s from the INT8 one and computing it "
        f"{median(raw.cold_ttft_s):.1f} s"
    ) in flat(README)


def test_how_near_the_simulation_is() -> None:
    found = load_validation(ROOT / "results/validation.json")
    near = len(found.runs) - len(found.off)
    (off,) = found.off
    told = f"within {found.tolerated:g} points of hit rate of {near} of {len(found.runs)} runs"
    assert f"{told} ({abs(off.difference):.1f} of the other)" in flat(README)


def test_where_more_tokens_pay_is_what_was_simulated() -> None:
    budget = json.loads((ROOT / "results/simulation/budget.json").read_text("utf-8"))
    found = next(one for one in budget["payoffs"] if one["format"] == "int8")
    workload = budget["scene"]["workload"]
    tokens = workload["groups"] * workload["prefix_tokens"]
    pays = found["pays_at"]
    assert (
        f"for {tokens / 1e6:.1f} million tokens of prefixes with Qwen3-8B, `int8` gains a point or "
        f"more with {pays[0]:,.0f} to {pays[-1]:,.0f} GB, and {found['most']:.0f} with "
        f"{found['most_at']:,.0f} GB"
    ) in flat(README)
