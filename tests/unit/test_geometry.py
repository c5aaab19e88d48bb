"""The shape of a KV cache: its raw bytes, its row alignment, and what is refused."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch

from hiqcache.geometry import KVGeometry, row_alignment


def test_qwen3_8b_takes_147456_raw_bytes_per_token() -> None:
    geometry = KVGeometry(layers=36, kv_heads=8, head_dim=128)
    assert geometry.row_values == 1024
    assert geometry.row_bytes == 2048
    assert geometry.bytes_per_token == 147_456


def test_every_dimension_counts() -> None:
    assert KVGeometry(30, 3, 64).bytes_per_token == 23_040
    assert KVGeometry(1, 1, 7).bytes_per_token == 28


@pytest.mark.parametrize("name", ["layers", "kv_heads", "head_dim"])
@pytest.mark.parametrize("value", [0, -1, 8.0, "8", None])
def test_a_size_that_is_no_positive_integer_is_refused(name: str, value: Any) -> None:
    sizes: dict[str, Any] = {"layers": 1, "kv_heads": 8, "head_dim": 128}
    KVGeometry(**sizes)
    with pytest.raises(ValueError, match=rf"KVGeometry\.{name} must be a positive integer, got"):
        KVGeometry(**{**sizes, name: value})


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float8_e4m3fn, torch.uint8])
def test_a_cache_that_is_not_bf16_is_refused_with_the_way_out(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="serve with --kv-cache-dtype auto") as raised:
        KVGeometry(1, 8, 128, "cuda", dtype)
    assert str(dtype) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_geometry_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        KVGeometry(1, 8, 128).layers = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("payload_bytes", "device_type", "alignment"),
    [
        (1024, "cuda", 128),
        (1024, "cpu", 128),
        (1024, "mps", 128),
        (128, "cpu", 128),
        (192, "cuda", 128),
        (192, "cpu", 8),
        (192, "mps", 8),
        (7, "cuda", 128),
        (7, "cpu", 8),
    ],
)
def test_row_alignment(payload_bytes: int, device_type: str, alignment: int) -> None:
    assert row_alignment(payload_bytes, device_type) == alignment
