"""Tokens of a host pool, by SGLang's rule, and the ratio that fills a budget."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiqcache.capacity import codec_ratio, ratio_for_bytes, tokens_for_ratio, tokens_for_size
from hiqcache.codecs import make_codec
from hiqcache.geometry import KVGeometry

QWEN3_8B = KVGeometry(layers=36, kv_heads=8, head_dim=128)


def test_8_gigabytes_of_qwen3_8b() -> None:
    assert tokens_for_size(8, QWEN3_8B.bytes_per_token) == 54_254
    assert tokens_for_size(8, make_codec("int8", QWEN3_8B).bytes_per_token) == 96_451


def test_the_pool_that_a_size_gives_has_one_page_more_than_the_budget_holds() -> None:
    assert tokens_for_size(8, 147_456) * 147_456 == 8_000_077_824
    assert 54_253 * 147_456 <= 8e9 < 54_254 * 147_456


@pytest.mark.parametrize(
    ("page_size", "tokens"), [(1, 101), (16, 112), (64, 128), (100, 200), (101, 101)]
)
def test_tokens_are_whole_pages_and_one_more(page_size: int, tokens: int) -> None:
    assert tokens_for_size(1e-6, 10, page_size) == tokens
    assert tokens_for_ratio(2.0, 50, page_size) == tokens
    assert tokens_for_ratio(2.019, 50, page_size) == tokens


def test_a_fraction_of_a_gigabyte() -> None:
    assert tokens_for_size(0.5, 147_456) == 3_391
    assert tokens_for_size(0, 147_456) == 1


@given(
    bytes_per_token=st.integers(2, 10**7),
    page_size=st.sampled_from([1, 16, 32, 64, 128]),
    pages=st.integers(2, 10**7),
    rest=st.floats(0, 1, exclude_max=True),
    device_tokens=st.integers(1, 10**9),
)
def test_ratio_for_bytes_fills_the_budget_to_a_page(
    bytes_per_token: int, page_size: int, pages: int, rest: float, device_tokens: int
) -> None:
    page_bytes = bytes_per_token * page_size
    budget = pages * page_bytes + int(rest * page_bytes)
    ratio = ratio_for_bytes(budget, bytes_per_token, device_tokens, page_size)
    tokens = tokens_for_ratio(ratio, device_tokens, page_size)
    assert tokens == pages * page_size
    assert 0 <= budget - tokens * bytes_per_token < page_bytes


def test_equal_tokens_for_an_equal_budget_by_size_and_by_ratio() -> None:
    tokens = tokens_for_size(8, 82_944)
    ratio = ratio_for_bytes(tokens * 82_944, 82_944, device_tokens=16_384)
    assert tokens_for_ratio(ratio, 16_384) == tokens


@pytest.mark.parametrize("page_size", [1, 64])
def test_the_default_ratio_buys_the_tokens_that_a_raw_pools_bytes_hold(page_size: int) -> None:
    codec = make_codec("int8", replace(QWEN3_8B, page_size=page_size))
    ratio = codec_ratio(2.0, codec, SimpleNamespace(hicache_ratio=None))
    raw, encoded = (tokens_for_ratio(r, 16_384, page_size) for r in (2.0, ratio))
    spare = raw * QWEN3_8B.bytes_per_token - encoded * codec.bytes_per_token
    assert 0 <= spare < page_size * QWEN3_8B.bytes_per_token
    assert codec_ratio(2.0, codec, SimpleNamespace(hicache_ratio=2.0)) == 2.0, "was chosen"


@pytest.mark.parametrize(("budget", "pages"), [(0, 0), (15_999, 0), (16_000, 1), (31_999, 1)])
def test_a_budget_below_two_pages_is_refused(budget: int, pages: int) -> None:
    with pytest.raises(ValueError, match=rf"{budget} bytes hold {pages} page.*at least two"):
        ratio_for_bytes(budget, 1000, 4096, page_size=16)
    assert ratio_for_bytes(32_000, 1000, 4096, page_size=16) > 0
