"""The shape of a KV cache: its raw bytes, the rows of a page, and what is refused."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch

from hiqcache.geometry import KVGeometry, PageRows


def test_qwen3_8b_takes_147456_raw_bytes_per_token() -> None:
    geometry = KVGeometry(layers=36, kv_heads=8, head_dim=128)
    assert geometry.keys == geometry.values == PageRows(1, 8, 128, torch.bfloat16)
    assert (geometry.keys.row_values, geometry.keys.row_bytes) == (1024, 2048)
    assert geometry.bytes_per_token == 147_456


def test_every_dimension_counts() -> None:
    assert KVGeometry(30, 3, 64).bytes_per_token == 23_040
    assert KVGeometry(1, 1, 7).bytes_per_token == 28
    assert KVGeometry(2, 3, 16, v_head_dim=8).bytes_per_token == 2 * (96 + 48)


def test_pages_do_not_change_what_a_token_takes() -> None:
    assert KVGeometry(30, 3, 64, page_size=16).bytes_per_token == 23_040


def test_v_may_be_of_another_width() -> None:
    geometry = KVGeometry(2, 3, 192, 128, page_size=16, dtype=torch.float16)
    assert geometry.keys.shape == (16, 3, 192)
    assert geometry.values.shape == (16, 3, 128)
    assert geometry.keys.dtype == geometry.values.dtype == torch.float16
    assert KVGeometry(2, 3, 192) == KVGeometry(2, 3, 192, 192)


@pytest.mark.parametrize("name", ["layers", "kv_heads", "head_dim", "v_head_dim", "page_size"])
@pytest.mark.parametrize("value", [0, -1, 8.0, "8"])
def test_a_size_that_is_no_positive_integer_is_refused(name: str, value: Any) -> None:
    sizes: dict[str, Any] = {"layers": 1, "kv_heads": 8, "head_dim": 128}
    KVGeometry(**sizes)
    with pytest.raises(ValueError, match=rf"KVGeometry\.{name} must be a positive integer, got"):
        KVGeometry(**{**sizes, name: value})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn, torch.uint8])
def test_a_cache_of_another_dtype_is_refused_with_the_way_out(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="serve with --kv-cache-dtype auto") as raised:
        KVGeometry(1, 8, 128, dtype=dtype)
    assert str(dtype) in str(raised.value)
    assert "torch.bfloat16 and torch.float16" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_geometry_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        KVGeometry(1, 8, 128).layers = 2  # type: ignore[misc]
