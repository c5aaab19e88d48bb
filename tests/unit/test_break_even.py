"""From which bandwidth on decoding costs more than the saved bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.record import NO_L2, RAW
from reporting.break_even import BreakEven, break_evens
from reporting.restore import Restore, Row

HALF = BreakEven("int8", 512, raw_bytes=200, encoded_bytes=100, decode_s=4.0)


def row(name: str, tokens: int = 512, nbytes: int | None = 200, **phases: float | None) -> Row:
    found = {phase: (seconds, seconds) for phase, seconds in phases.items()}
    return Row(name, tokens, (1.0,), (2.0,), found, nbytes)


def measured(*rows: Row) -> Restore:
    return Restore("tiny", rows, {}, 2, "restore")


def test_the_bandwidth_at_which_both_take_as_long():
    assert HALF.bandwidth == 25
    assert HALF.against_raw(HALF.bandwidth) == 1
    assert HALF.against_raw(10) < 1 < HALF.against_raw(50)


@given(st.integers(2, 10**9), st.integers(1, 10**9), st.floats(1e-6, 1e3), st.floats(1, 1e12))
def test_a_decoder_of_the_needed_rate_breaks_even(raw, encoded, decode_s, bandwidth):
    encoded = 1 + encoded % (raw - 1)
    found = BreakEven("x", 1, raw, encoded, decode_s)
    needed = found.needed_rate(bandwidth)
    at_that_rate = BreakEven("x", 1, raw, encoded, raw / needed)
    assert at_that_rate.against_raw(bandwidth) == pytest.approx(1)
    assert at_that_rate.decode_rate == pytest.approx(needed)
    assert (found.decode_rate > needed) == (found.bandwidth > bandwidth) or found.against_raw(
        bandwidth
    ) == pytest.approx(1)


@pytest.mark.parametrize(
    "parts", [dict(encoded_bytes=200), dict(encoded_bytes=0), dict(decode_s=0.0)]
)
def test_nothing_to_weigh_is_refused(parts):
    with pytest.raises(ValueError, match="nothing to weigh"):
        BreakEven(**{**vars(HALF), **parts})


def test_rows_are_weighed_against_the_raw_one_of_their_length():
    found = break_evens(
        measured(
            row(RAW),
            row("int8", nbytes=100, decode_s=4.0),
            row("int8", tokens=1024, nbytes=100, decode_s=4.0),  # no raw one
            row("int4", nbytes=50, decode_s=None),  # not timed
            row("k8v4", nbytes=None, decode_s=1.0),  # not counted
            row(NO_L2, nbytes=None),
        )
    )
    assert found == [HALF]
