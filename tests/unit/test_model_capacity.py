"""``tools/capacity.py``: what host memory holds of a model, in numbers and as a plot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import capacity as tool
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import capacity_plot
from formats.capacity import Capacity, Deployment, Refused, capacity
from formats.models import PRESETS, Model, read_model
from hiqcache.capacity import GIGABYTE
from hiqcache.codecs import codec_names
from patchstack.errors import Exit, ToolError

QWEN = PRESETS["qwen3-8b"]


def of(codec: str, tp: int = 1, page_size: int = 1, size: float = 8) -> Capacity:
    found = capacity(Deployment("qwen3-8b", QWEN, tp, page_size), codec, [size])
    assert isinstance(found, Capacity), found
    return found


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    """Run the tool for JSON."""
    assert tool.main([*map(str, arguments), "--json"]) == Exit.DONE
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


# --- numbers -----------------------------------------------------------------------------------


def test_qwen3_8b_at_8_gigabytes() -> None:
    raw, int8 = of("none"), of("int8")
    assert (raw.bytes_per_token_rank, raw.ratio, raw.padding_per_token_rank) == (147_456, 1, 0)
    assert (int8.bytes_per_token_rank, int8.padding_per_token_rank) == (82_944, 8_064)
    assert [c.filled[0].tokens for c in (raw, int8)] == [54_254, 96_451]
    assert raw.filled[0].gb_per_rank == raw.filled[0].gb_total == 8.000077824


@pytest.mark.parametrize("page_size", [8, 16, 32, 64, 128])
def test_pages_of_8_tokens_need_no_padding(page_size: int) -> None:
    for codec in ("int8", "int8-hadamard"):
        found = of(codec, page_size=page_size)
        assert (found.bytes_per_token_rank, found.padding_per_token_rank) == (74_880, 0)
        assert found.ratio == pytest.approx(1.969, abs=5e-4)


@pytest.mark.parametrize(
    ("tp", "raw", "int8"), [(1, 147_456, 82_944), (2, 73_728, 46_080), (4, 36_864, 27_648)]
)
def test_ranks_share_the_heads(tp: int, raw: int, int8: int) -> None:
    for codec, rank in (("none", raw), ("int8", int8)):
        found = of(codec, tp)
        assert found.bytes_per_token_rank == rank
        assert found.bytes_per_token_total == rank * tp
        assert found.filled[0].gb_total == pytest.approx(found.filled[0].gb_per_rank * tp)
    assert of("none", tp).bytes_per_token_total == 147_456


@pytest.mark.parametrize(("tp", "page_64"), [(2, 37_440), (4, 18_720), (8, 9_360)])
def test_ranks_share_the_heads_in_pages(tp: int, page_64: int) -> None:
    found = of("int8", tp, 64)
    assert found.bytes_per_token_rank == page_64
    assert found.bytes_per_token_total == 74_880


def test_tp_8_at_page_size_1_is_refused_and_raw_is_not() -> None:
    found = capacity(Deployment("qwen3-8b", QWEN, 8, 1), "int8", [8])
    assert isinstance(found, Refused)
    assert "saves nothing for 1 KV heads of 128" in found.refused
    assert of("none", tp=8).bytes_per_token_rank == 18_432
    assert of("int4", tp=8).bytes_per_token_rank == 9_216


def test_more_ranks_than_kv_heads_have_copies() -> None:
    served = Deployment("qwen3-8b", QWEN, 16, 64)
    assert (served.rank.kv_heads, served.copies) == (1, 2)
    assert of("none", 16, 64).bytes_per_token_total == 2 * 147_456
    assert Deployment("qwen3-8b", QWEN, 8, 64).copies == 1


@pytest.mark.parametrize(
    ("model", "tp"),
    [("smollm2-135m", 2), ("qwen3-8b", 3), ("qwen2.5-7b", 8), ("smollm2-135m", 6)],
)
def test_heads_that_do_not_divide_are_refused(model: str, tp: int) -> None:
    with pytest.raises(ValueError, match=rf"do not divide among {tp} ranks"):
        Deployment(model, PRESETS[model], tp, 1)


@given(
    model=st.sampled_from(sorted(PRESETS)),
    tp=st.sampled_from([1, 2, 4, 8]),
    page_size=st.sampled_from([1, 8, 16, 64, 128]),
    codec=st.sampled_from(["none", "int8", "int8-hadamard", "k8v4", "int4"]),
    size=st.floats(0.001, 4096),
)
def test_a_pool_is_within_a_page_of_its_budget(
    model: str, tp: int, page_size: int, codec: str, size: float
) -> None:
    try:
        served = Deployment(model, PRESETS[model], tp, page_size)
    except ValueError:
        return
    found = capacity(served, codec, [size])
    if isinstance(found, Refused):
        return
    (filled,), held = found.filled, found.bytes_per_token_rank
    page = held * page_size
    assert filled.tokens % page_size == 0
    assert size * GIGABYTE - page < filled.tokens * held <= size * GIGABYTE + page
    assert filled.gb_per_rank == pytest.approx(filled.tokens * held / GIGABYTE)
    assert found.bytes_per_token_total == held * tp
    assert found.ratio > 1 or codec == "none"
    assert 0 <= found.padding_per_token_rank < held


# --- models ------------------------------------------------------------------------------------

CONFIG = {"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
          "head_dim": 128, "hidden_size": 4096}  # fmt: skip


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(CONFIG | changes))
    return file


def test_a_configuration_is_as_good_as_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_name = run(capsys, "--model", "qwen3-8b", "--tp", "2", "--page-size", "64")
    by_file = run(capsys, "--config", written(tmp_path), "--tp", "2", "--page-size", "64")
    assert (by_name.pop("model"), by_file.pop("model")) == (
        "qwen3-8b", str(tmp_path / "config.json"),
    )  # fmt: skip
    assert by_name == by_file
    assert [codec["codec"] for codec in by_name["codecs"]] == ["none", *codec_names()]


def test_what_a_configuration_says(tmp_path: Path) -> None:
    assert read_model(written(tmp_path, v_head_dim=96), "") == Model(36, 32, 8, 128, 96)
    assert read_model(written(tmp_path, head_dim=None), "") == Model(36, 32, 8, 128)
    assert read_model(written(tmp_path, num_key_value_heads=None), "") == Model(36, 32, 32, 128)
    assert read_model(written(tmp_path, layer_types=["full_attention"] * 36), "") == QWEN
    unused = dict(sliding_window=4096, use_sliding_window=False)
    assert read_model(written(tmp_path, **unused), "") == QWEN


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kv_lora_rank": 512}, "its KV is latent"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "its layers differ"),
        ({"sliding_window": 4096}, "its layers keep a window"),
        ({"full_attention_interval": 4}, "its layers differ: full_attention_interval"),
        ({"num_hidden_layers": 0}, "KVGeometry.layers must be a positive integer"),
        ({"head_dim": "128"}, "KVGeometry.head_dim must be a positive integer"),
        ({"head_dim": 0}, "KVGeometry.head_dim must be a positive integer"),
        ({"num_key_value_heads": 0}, "ZeroDivisionError"),
        ({"num_key_value_heads": 64}, "32 heads do not share 64 KV heads"),
        ({"num_attention_heads": -32, "head_dim": 128}, "heads: -32"),
        ({"num_hidden_layers": True}, "layers: True"),
        ({"num_hidden_layers": 10**400}, "layers: 10000000000000000000"),
    ],
)
def test_another_model_is_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ToolError, match=why):
        read_model(written(tmp_path, **changes), "give another")


def test_what_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(ToolError, match="does not describe a plain attention model"):
        read_model(file, "give another")


# --- the command line --------------------------------------------------------------------------


def test_a_name_is_printed_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "[red]" / "[" / ":smile:"
    folder.mkdir(parents=True)
    assert tool.main(["--config", str(file := written(folder))]) == Exit.DONE
    assert capsys.readouterr().out.startswith(f"{file}: 36 layers")


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--model", "qwen3-8b", "--size", "8", "4096", "--tp", "8"]
    assert tool.main(arguments) == Exit.DONE
    out, err = capsys.readouterr()
    assert err == ""
    assert "8 KV heads x 128; TP 8, 1 a rank; pages of 1" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["none", "18,432", "147,456", "1.000", "0"] in lines
    assert ["none", "8", "434,028", "8.000", "64.000"] in lines
    assert ["4096", "222,222,223", "4096.000", "32768.000"] in lines
    assert out.count("refused: codec '") == 3
    assert "…" not in out


def test_a_table_of_refusals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--model", "qwen3-8b", "--tp", "16", "--codec", "int8"]) == Exit.DONE
    heading, refused = capsys.readouterr().out.splitlines()
    assert "1 a rank, each on 2 ranks" in heading
    assert refused.startswith("refused: codec 'int8' saves nothing")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "--model", "qwen3-8b", "--tp", "8", "--codec", "none", "int8", "raw")
    raw, int8 = found["codecs"]
    assert raw["codec"] == "none"
    (same,) = run(capsys, "--model", "qwen3-8b", "--tp", "8", "--codec", "raw")["codecs"]
    assert same == raw
    assert raw["filled"] == [
        {"size_gb": 8, "tokens": 434_028, "gb_per_rank": 8.000004096, "gb_total": 64.000032768}
    ]
    assert set(int8) == {"codec", "refused"}
    assert found["rank_kv_heads"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one of the arguments --model --config is required"),
        (["--model", "gpt-5"], "invalid choice: 'gpt-5'"),
        (["--model", "qwen3-8b", "--config", "c"], "not allowed with argument"),
        (["--config", "nowhere.json"], "nowhere.json does not exist; give a model's config.json"),
        (["--model", "qwen3-8b", "--tp", "3"], "--tp 3: 32 heads with 8 KV heads do not divide"),
        (["--model", "qwen3-8b", "--tp", "0"], "argument --tp: 0 is not above zero"),
        (["--model", "qwen3-8b", "--tp", "two"], "argument --tp: invalid whole value: 'two'"),
        (["--model", "qwen3-8b", "--page-size", "-1"], "--page-size: -1 is not above zero"),
        (["--model", "qwen3-8b", "--size", "0"], "argument --size: 0 is not above zero"),
        (["--model", "qwen3-8b", "--size", "nan"], "argument --size: nan is not above zero"),
        (["--model", "qwen3-8b", "--size", "1e300"], "--size: 1e300 is above 1,000,000,000"),
        (["--model", "qwen3-8b", "--page-size", "1" + "0" * 400], "0 is above 1,000,000,000"),
        (["--model", "qwen3-8b", "--json", "tests"], "--json tests is a folder; name a file in it"),
        (["--model", "qwen3-8b", "--codec", "int7"], "--codec int7 is unknown; choose none, int8"),
        (["--model", "qwen3-8b", "--plot", "no/where.svg"], "--plot no/where.svg: no such folder"),
        (["--model", "qwen3-8b", "--plot", "plot.abc"], "Format 'abc' is not supported"),
        (
            ["--model", "qwen3-8b", "--tp", "8", "--codec", "int8", "--plot", "plot.svg"],
            "--plot has nothing to draw; add none to --codec",
        ),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(arguments) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("capacity.py: ") and said in err
    assert err.count("\n") == 1


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main(["--help"])
    assert "tools/capacity.py --model qwen3-8b --page-size 64 --size" in capsys.readouterr().out


# --- the plot ----------------------------------------------------------------------------------


def test_without_matplotlib_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "formats.capacity_plot")
    file = tmp_path / "plot.svg"
    assert tool.main(["--model", "qwen3-8b", "--plot", str(file)]) == Exit.USAGE
    assert capsys.readouterr().err == (
        "capacity.py: --plot needs matplotlib; pip install matplotlib\n"
    )
    assert tool.main(["--model", "qwen3-8b"]) == Exit.DONE, "the table does not need it"


@pytest.mark.parametrize("name", ["plot.svg", "plot.SVG", "plot.png"])
def test_the_same_figures_give_the_same_file(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (tmp_path / folder / name for folder in "ab")
    for file in (first, second):
        file.parent.mkdir()
        found = run(capsys, "--model", "qwen3-8b", "--size", "8", "64", "--plot", file)
        assert len(found["codecs"]) == 5
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("model", sorted(PRESETS))
@pytest.mark.parametrize("page_size", [1, 64])
def test_names_of_lines_cover_nothing(model: str, page_size: int) -> None:
    served = Deployment(model, PRESETS[model], 1, page_size)
    found = [capacity(served, codec, [4, 32, 8]) for codec in ("none", *codec_names())]
    shown = [result for result in found if isinstance(result, Capacity)]
    figure = capacity_plot.draw(served, shown)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [label.get_window_extent() for label in axes.texts]
    names = "\n".join(label.get_text() for label in axes.texts)
    assert all(f"{result.codec}, {result.ratio:.2f}x" in names for result in shown)
    for at, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:at])
        assert not box.overlaps(axes.bbox)
        assert figure.bbox.contains(box.x1, box.y1) and figure.bbox.contains(box.x0, box.y0)


def test_a_plot_is_legible_in_grey_and_has_its_units() -> None:
    served = Deployment("qwen3-8b", QWEN, 1, 1)
    shown = [of(codec) for codec in ("none", *codec_names())]
    (axes,) = capacity_plot.draw(served, shown).axes
    assert axes.get_xlabel() == "host memory, GB per rank"
    assert axes.get_ylabel() == "capacity, tokens"
    looks = {(line.get_linestyle(), line.get_marker()) for line in axes.lines}
    assert len(looks) == len(axes.lines) == 4, "int8 and int8-hadamard have the same bytes"
    assert max(line.get_ydata()[-1] for line in axes.lines) == of("int4").filled[0].tokens
