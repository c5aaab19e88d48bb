"""The error bound holds, its reference is right, and no broken codec passes for a good one."""

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import fidelity as tool
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hiqcache.codecs.int8 import Int8Block, Int8Workspace
from hiqcache.fidelity import (
    BF16_ROUNDOFF,
    BoundReport,
    ErrorBoundViolated,
    ErrorMetrics,
    HeadCounts,
    ReferenceInt8,
    error_metrics,
    round_to_bf16,
    verified_error_bound,
)
from tests.fixtures import int8_v1
from tests.unit.kv_rows import from_bits, from_bytes, int8_block, page_rows

ROOT = Path(__file__).parents[2]
ROWS = page_rows(8, 128)
LARGEST = torch.finfo(torch.bfloat16).max


def normal_rows(tokens: int = 64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((tokens, 8, 128), generator=generator).bfloat16()


def mixed_rows() -> torch.Tensor:
    """Heads of every magnitude that BF16 has, and channels of every magnitude in a head."""
    rows = normal_rows(80, seed=1).double()
    rows *= torch.exp2(torch.arange(-126, 114, 3).double())[:, None, None]
    rows[::2, :, 1:] *= torch.exp2(-(torch.arange(127) % 12).double())
    return rows.bfloat16()


# --- the reference -----------------------------------------------------------------------------


def bf16_grid() -> torch.Tensor:
    """Every finite BF16 number from zero up, as float64."""
    return torch.arange(0x7F80, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).double()


def test_the_reference_keeps_every_bf16_number() -> None:
    grid = bf16_grid()
    assert torch.equal(round_to_bf16(grid), grid)
    assert torch.equal(round_to_bf16(-grid), -grid)


def test_the_reference_rounds_to_nearest_and_ties_to_even() -> None:
    grid = bf16_grid()
    low, high = grid[:-1], grid[1:]
    middle = (low + high) / 2
    even = torch.where(torch.arange(len(low)) % 2 == 0, low, high)
    assert torch.equal(round_to_bf16(middle), even)
    assert torch.equal(round_to_bf16(-middle), -even)
    outward, inward = torch.full_like(middle, math.inf), torch.zeros_like(middle)
    assert torch.equal(round_to_bf16(middle.nextafter(outward)), high)
    assert torch.equal(round_to_bf16(middle.nextafter(inward)), low)


def test_the_reference_overflows_as_bf16_does() -> None:
    limit = LARGEST + 2.0**119  # half way to 2**128
    values = torch.tensor([math.nextafter(limit, 0), limit, math.inf, -limit], dtype=torch.float64)
    assert round_to_bf16(values).tolist() == [LARGEST, math.inf, math.inf, -math.inf]
    assert round_to_bf16(torch.tensor([math.nan], dtype=torch.float64)).isnan().all()


@given(st.floats(-(2.0**127), 2.0**127))
def test_the_reference_is_the_nearest_by_exact_fractions(value: float) -> None:
    rounded = Fraction(round_to_bf16(torch.tensor([value], dtype=torch.float64)).item())
    bits = int8_v1.nearest(*(Fraction(abs(value)) * 2**133).as_integer_ratio())
    assert abs(rounded) == Fraction(int8_v1.units(bits), 2**133)


def test_the_reference_is_the_integer_description() -> None:
    rows = int8_v1.rows()[:32]
    exact = ReferenceInt8.of(from_bytes(int8_v1.packed(rows), 8, 128).double())
    encoded = [[int8_v1.encode_head(head) for head in row] for row in rows]
    levels = [[levels for levels, _ in row] for row in encoded]
    assert torch.equal(exact.stored, torch.tensor(levels, dtype=torch.float64))
    steps = from_bits([step for row in encoded for _, step in row], 8, 1).double()
    assert torch.equal(exact.step.nan_to_num(-1), steps.nan_to_num(-1))


# --- the bound holds ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(normal_rows(), id="random"),
        pytest.param(
            (normal_rows().double() * 2.0**124).clamp(-LARGEST, LARGEST).bfloat16(), id="huge"
        ),
        pytest.param((normal_rows().double() * 2.0**-119).bfloat16(), id="tiny"),
        pytest.param(mixed_rows(), id="mixed"),
    ],
)
@pytest.mark.parametrize("page_size", [1, 16])
def test_the_bound_holds(rows: torch.Tensor, page_size: int) -> None:
    report = verified_error_bound(rows, int8_block(8, 128, page_size))
    assert report.differing == 0
    assert report.idempotent
    assert 0.49 < report.quantisation <= 0.5
    assert 0.0038 < report.output_rounding <= BF16_ROUNDOFF
    assert report.heads.not_finite == 0


def test_the_worst_error_of_all_bf16_values_is_128_137ths_of_a_step() -> None:
    # A head for each significand that its largest number can have; in it, every smaller number
    # that is not rounded to zero.
    significands = torch.arange(128, 256, dtype=torch.float64)
    smaller = torch.cat([significands * 2.0**-k for k in range(9)])
    rows = torch.minimum(smaller.expand(128, -1), significands[:, None])
    rows = torch.cat([significands[:, None], rows], 1).unsqueeze(0)
    report = verified_error_bound(rows.bfloat16(), int8_block(128, rows.shape[2]))
    assert report.errors.max_normalised == 128 / 137
    assert report.quantisation == 0.5
    assert report.total == 1.0
    assert report.clamped == 0


def test_edges_are_counted_apart_from_the_bound() -> None:
    rows = normal_rows(4)
    rows[0, 1] = 0
    rows[1, 2, 5] = math.nan
    rows[1, 3, 6] = -math.inf
    rows[2, 0] = rows[2, 0].double().mul(2.0**-130).bfloat16()
    rows[3, 7, 0] = -LARGEST
    report = verified_error_bound(rows, Int8Block(ROWS))
    assert report.heads == HeadCounts(
        ordinary=27, zeros=1, subnormal_step=1, largest=1, not_finite=2
    )
    assert report.clamped == 1
    assert (report.differing, report.idempotent) == (0, True)


def test_rows_without_an_ordinary_head() -> None:
    for rows in (normal_rows(0), torch.full((2, 8, 128), math.nan).bfloat16()):
        report = verified_error_bound(rows, Int8Block(ROWS))
        assert report.errors == ErrorMetrics(0.0, 0.0, 0.0)
        assert (report.quantisation, report.total, report.heads.ordinary) == (0.0, 0.0, 0)


def test_padding_of_a_block_is_part_of_idempotence() -> None:
    calls = itertools.count()

    class LeavesPadding(Int8Block):
        def encode(self, rows: torch.Tensor, blocks: torch.Tensor, ws: Int8Workspace) -> None:
            super().encode(rows, blocks, ws)
            blocks[:, -1] = next(calls)

    assert not verified_error_bound(normal_rows(1), LeavesPadding(ROWS)).idempotent


@pytest.mark.parametrize(
    "rows",
    [
        normal_rows(64).float(),
        normal_rows(64)[:, :4],
        normal_rows(64)[..., :64],
        normal_rows(64)[0],
        normal_rows(63),
    ],
)
def test_rows_of_another_shape_or_dtype_are_refused(rows: torch.Tensor) -> None:
    wanted = r"rows must be torch\.bfloat16 \[tokens, 8, 128\] in pages of 16, got"
    with pytest.raises(ValueError, match=wanted):
        verified_error_bound(rows, int8_block(8, 128, page_size=16))


def test_error_metrics_by_hand() -> None:
    values = torch.arange(200.0)
    restored = values + torch.tensor([1.0, -3.0]).repeat(100)
    restored[7] = values[7] + 50
    metrics = error_metrics(values, restored, torch.tensor(4.0))
    assert metrics == ErrorMetrics(50 / 4, (100 * 1 + 99 * 3 + 50) / 200, 3.0)
    without_steps = error_metrics(values, restored, torch.zeros(200))
    assert without_steps == replace(metrics, max_normalised=0.0)


@pytest.mark.parametrize(
    ("term", "limit"), [("quantisation", 0.5), ("output_rounding", 2.0**-8), ("total", 1.0)]
)
def test_there_is_no_report_of_a_bound_that_does_not_hold(term: str, limit: float) -> None:
    report = verified_error_bound(normal_rows(1), Int8Block(ROWS))
    assert getattr(replace(report, **{term: limit}), term) == limit
    for value in (math.nextafter(limit, 2), math.inf, math.nan):
        with pytest.raises(ValueError, match=rf"BoundReport\.{term} is .* above its bound"):
            replace(report, **{term: value})


# --- broken codecs -----------------------------------------------------------------------------


class Rewritten(Int8Block):
    """A codec whose quantiser is written out, so that one step of it can be wrong."""

    def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: Int8Workspace) -> None:
        values = rows.float()
        scale = self.scale(values.abs().amax(-1) / 127)
        payload = self.quantise(values, scale.float().unsqueeze(-1))
        blocks.zero_()
        self.payload(blocks).copy_(payload)
        self.scales(blocks).copy_(scale)

    def scale(self, wanted: torch.Tensor) -> torch.Tensor:
        return wanted.bfloat16()

    def quantise(self, values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (values / scale).round().clamp(-127, 127)


class ScaleRoundedUp(Rewritten):
    def scale(self, wanted: torch.Tensor) -> torch.Tensor:
        nearest = wanted.bfloat16()
        return torch.where(nearest.float() < wanted, nearest.nextafter(nearest * 2), nearest)


class ScaleRoundedDown(Rewritten):
    def scale(self, wanted: torch.Tensor) -> torch.Tensor:
        return (wanted.view(torch.int32) & -65536).view(torch.float32).bfloat16()


class Truncates(Rewritten):
    def quantise(self, values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (values / scale).trunc()


class RoundsHalfAway(Rewritten):
    def quantise(self, values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        quotient = values / scale
        return (quotient.abs() + 0.5).floor() * quotient.sign()


class MultipliesByReciprocal(Rewritten):
    def quantise(self, values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (values * (1 / scale)).round()


class ClampsEarly(Rewritten):
    def quantise(self, values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return super().quantise(values, scale).clamp(-126, 126)


class ClampsAt128(Int8Block):
    """Right for every head, except the negative of BF16's largest number."""

    def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: Int8Workspace) -> None:
        super().encode(rows, blocks, workspace)
        payload = self.payload(blocks)
        payload[rows == -LARGEST] = -128


class SwapsHeads(Int8Block):
    def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: Int8Workspace) -> None:
        super().encode(rows.roll(1, dims=-2), blocks, workspace)


class SwapsScales(Int8Block):
    def encode(self, rows: torch.Tensor, blocks: torch.Tensor, workspace: Int8Workspace) -> None:
        super().encode(rows, blocks, workspace)
        scales = self.scales(blocks)
        scales.copy_(scales.roll(1, dims=-1))


class RoundsOutputDown(Int8Block):
    def decode(self, blocks: torch.Tensor, rows: torch.Tensor, workspace: Int8Workspace) -> None:
        super().decode(blocks, rows, workspace)
        product = self.payload(blocks).double() * self.scales(blocks)[..., None]
        rows.copy_(torch.where(rows.abs() > product.abs(), rows.nextafter(rows * 0), rows))


class DecodesToNothing(Int8Block):
    def decode(self, blocks: torch.Tensor, rows: torch.Tensor, workspace: Int8Workspace) -> None:
        rows.zero_()


class Overflows(Int8Block):
    def decode(self, blocks: torch.Tensor, rows: torch.Tensor, workspace: Int8Workspace) -> None:
        super().decode(blocks, rows, workspace)
        rows.mul_(math.inf)


def test_a_scale_rounded_down_keeps_the_bound_and_is_reported() -> None:
    report = verified_error_bound(normal_rows(), ScaleRoundedDown(ROWS))
    assert report.differing > 0
    assert not report.idempotent


def test_the_codec_written_out_is_right_until_it_is_broken() -> None:
    report = verified_error_bound(normal_rows(), Rewritten(ROWS))
    assert (report.differing, report.idempotent) == (0, True)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (ScaleRoundedUp, "|q*s - x| <= s/2"),
        (Truncates, "|q*s - x| <= s/2"),
        (ClampsEarly, "|q*s - x| <= s/2"),
        (SwapsHeads, "|q*s - x| <= s/2"),
        (SwapsScales, "|q*s - x| <= s/2"),
        (RoundsOutputDown, "|y - q*s| <= 2**-8*|y|"),
        (DecodesToNothing, "|y - q*s| <= 2**-8*|y|"),
        (Overflows, "a finite head stays finite"),
    ],
)
def test_a_broken_codec_breaks_the_bound(broken: type[Int8Block], rule: str) -> None:
    with pytest.raises(ErrorBoundViolated) as raised:
        verified_error_bound(normal_rows(), broken(ROWS))
    assert raised.value.rule == rule


def test_a_clamp_at_128_is_found_where_it_matters() -> None:
    rows = normal_rows(2)
    rows[1, 2, 3] = -LARGEST
    assert verified_error_bound(rows[:1], ClampsAt128(ROWS)).differing == 0
    with pytest.raises(ErrorBoundViolated) as raised:
        verified_error_bound(rows, ClampsAt128(ROWS))
    assert raised.value.where == (1, 2, 3)
    # -128 * 2**121 is past BF16's largest number, and restored as that.
    assert raised.value.rule == "|y - q*s| <= 2**-8*|y|"
    assert raised.value.restored == -LARGEST


@pytest.mark.parametrize("broken", [MultipliesByReciprocal, RoundsHalfAway])
def test_a_tie_rounded_the_other_way_keeps_the_bound_and_is_reported(
    broken: type[Int8Block],
) -> None:
    # Steps of 1.75 and 1: 12.5 and 2.5 are ties.
    rows = torch.zeros((1, 8, 128)).bfloat16()
    rows[0, 0, :2] = torch.tensor([222.0, 21.875])
    rows[0, 1, :2] = torch.tensor([127.0, 2.5])
    rows[0, 2:, 0] = 1.0
    assert verified_error_bound(rows, Int8Block(ROWS)).differing == 0
    assert verified_error_bound(rows, broken(ROWS)).differing > 0


@pytest.mark.parametrize(
    ("fill", "rule"),
    [
        (lambda head: head.fill_(math.inf), "NaN or infinity: all of the head is NaN"),
        (lambda head: head.zero_(), "a head of zeros stays zeros"),
        (lambda head: head.fill_(2.0**-121), "a head of a subnormal step becomes zeros"),
    ],
)
def test_a_broken_edge_is_named(fill: Callable[[torch.Tensor], torch.Tensor], rule: str) -> None:
    class RestoresOnes(Int8Block):
        def decode(self, blocks: torch.Tensor, rows: torch.Tensor, ws: Int8Workspace) -> None:
            super().decode(blocks, rows, ws)
            rows[1, :, 2] = 1.0

    rows = normal_rows(3)
    fill(rows[1, 2])
    assert verified_error_bound(rows, Int8Block(ROWS)).differing == 0
    with pytest.raises(ErrorBoundViolated) as raised:
        verified_error_bound(rows, RestoresOnes(ROWS))
    assert raised.value.rule == rule
    assert raised.value.where == (1, 2, 0)


def test_a_scale_that_is_no_number_is_no_excuse() -> None:
    class RemembersRows(Int8Block):
        def encode(self, rows: torch.Tensor, blocks: torch.Tensor, ws: Int8Workspace) -> None:
            super().encode(rows, blocks, ws)
            self.scales(blocks)[1, :, 2] = math.nan
            self.seen = rows.clone()

        def decode(self, blocks: torch.Tensor, rows: torch.Tensor, ws: Int8Workspace) -> None:
            super().decode(blocks, rows, ws)
            rows[1, :, 2] = self.seen[1, :, 2]

    with pytest.raises(ErrorBoundViolated) as raised:
        verified_error_bound(normal_rows(2), RemembersRows(ROWS))
    assert (raised.value.rule, raised.value.where) == ("|q*s - x| <= s/2", (1, 2, 0))


def test_a_violation_names_the_first_element() -> None:
    class FlipsOne(Int8Block):
        def decode(self, blocks: torch.Tensor, rows: torch.Tensor, ws: Int8Workspace) -> None:
            super().decode(blocks, rows, ws)
            rows[2, :, 3, 4:6] = 7.0
            rows[3] = 7.0

    rows = normal_rows(4)
    rows[2, 3, 0], rows[2, 3, 4] = 127.0, 2.5
    with pytest.raises(ErrorBoundViolated) as raised:
        verified_error_bound(rows, FlipsOne(ROWS))
    error = raised.value
    assert (error.where, error.value, error.restored) == ((2, 3, 4), 2.5, 7.0)
    assert error.bound == BF16_ROUNDOFF * 7.0
    assert str(error) == (
        "token 2, head 3, dim 4: 2.5 is restored as 7.0, "
        "but |y - q*s| <= 2**-8*|y| (bound 0.02734375)"
    )


# --- the table ---------------------------------------------------------------------------------


def reports() -> dict[str, BoundReport]:
    results = tool.measure(torch.device("cpu"))
    assert [result.findings for result in results] == [[]] * 5
    return {result.name: result.report for result in results if result.report is not None}


def test_the_table_has_the_published_values() -> None:
    table = {name: report.errors for name, report in reports().items()}
    for name in ("random_unit", "qwen3_8b_shaped"):
        assert round(table[name].max_normalised, 3) == 0.934
        assert table[name].mean_abs == pytest.approx(0.0054, abs=1e-4)
        assert table[name].p99_abs == 0.015625
    assert round(table["random_large"].max_normalised, 3) == 0.934
    assert table["random_large"].mean_abs == pytest.approx(5.36, abs=0.1)
    assert table["random_large"].p99_abs == 16.0
    assert table["all_zeros"] == table["exact_grid"] == ErrorMetrics(0.0, 0.0, 0.0)


def test_the_inputs_are_what_their_names_say() -> None:
    rows = tool.inputs()
    assert rows["qwen3_8b_shaped"].shape == (512, 8, 128)
    assert reports()["all_zeros"].heads.zeros == rows["all_zeros"].shape[0] * 8
    assert reports()["exact_grid"].heads.ordinary == rows["exact_grid"].shape[0] * 8
    assert len(rows["exact_grid"].unique()) == 255


def test_the_tool_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines() if "random" in line] == [
        ["random_unit", "0.934"],
        ["random_large", "0.934"],
    ]
    assert err == ""


def test_the_tool_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["device"], document["holds"]) == ("cpu", True)
    assert [entry["name"] for entry in document["inputs"]] == list(tool.inputs())
    report = document["inputs"][1]["report"]
    assert report["heads"]["ordinary"] == 512 * 8
    assert report["errors"]["max_normalised"] == 128 / 137


@pytest.mark.parametrize(
    ("broken", "finding"),
    [
        (Truncates, "random_unit: token 0, head 0, dim"),
        (RoundsHalfAway, "elements differ from the reference"),
        (ScaleRoundedUp, "random_large: token 0"),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_the_tool_exits_with_1_for_a_broken_codec(
    broken: type[Rewritten],
    finding: str,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("hiqcache.codecs.int8.Int8Block", broken)
    assert tool.main(arguments) == 1
    out, err = capsys.readouterr()
    assert finding in err
    assert all(line.startswith("fidelity.py: ") for line in err.splitlines())
    assert ('"holds": false' in out) == bool(arguments)


def test_bytes_that_drift_are_a_finding() -> None:
    good = reports()["random_unit"]
    drifting = tool.Measured("x", 1, replace(good, idempotent=False), None)
    assert drifting.findings == ["x: encoding what was restored gives other bytes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "nonsense"], "fidelity.py: --device nonsense cannot be used: "),
        (["--device", "meta"], "fidelity.py: --device meta cannot be used: "),
        (["--frob"], "fidelity.py: unrecognized arguments: --frob; see fidelity.py --help"),
    ],
)
def test_a_usage_error_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_the_tool_is_a_program() -> None:
    usage = run_tool("--help")
    assert usage.returncode == 0
    assert "tools/fidelity.py --device cuda --json" in usage.stdout
    wrong = run_tool("--device", "meta")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tools" / "fidelity.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
