"""The transfer that a device pool gets: its geometry, its refusals, and metrics where wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hiqcache.geometry import KVGeometry
from hiqcache.metrics import MeasuredTransfer
from hiqcache.staging import StagedTransfer
from hiqcache.transfers import staged_transfer

LAYERS = 2


def server(metrics: bool = False, served_as: str | None = "qwen") -> SimpleNamespace:
    return SimpleNamespace(
        enable_metrics=metrics, served_model_name=served_as, model_path="Qwen/Qwen3-8B"
    )


def transfer(
    codec: str = "int8",
    page_size: int = 16,
    config: SimpleNamespace | None = None,
    v_head_dim: int = 64,
    dtype: torch.dtype = torch.bfloat16,
    layout: Any = "nhd",
    scales: Any = None,
    drafts: Any = (),
) -> StagedTransfer:
    """Build a transfer for a small pool of 3 heads."""
    keys, values = (
        [torch.zeros(32, 3, dim, dtype=dtype) for _ in range(LAYERS)] for dim in (64, v_head_dim)
    )
    return staged_transfer(
        codec, page_size, config or server(), keys, values, layout, scales, drafts
    )


@pytest.mark.parametrize("codec", ["int8", "int8-hadamard", "k8v4", "int4"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("page_size", "v_head_dim"), [(1, 96), (16, 64), (64, 128)])
def test_the_geometry_is_the_pools(
    codec: str, dtype: torch.dtype, page_size: int, v_head_dim: int
) -> None:
    made = transfer(codec, page_size, v_head_dim=v_head_dim, dtype=dtype)
    assert made.codec.id == codec
    assert made.codec.geometry == KVGeometry(LAYERS, 3, 64, v_head_dim, page_size, dtype)
    assert made.backup_halves[0].device == torch.device("cpu")


def test_without_metrics_it_is_the_plain_transfer() -> None:
    assert type(transfer()) is StagedTransfer


LOOK = """
import sys
from types import SimpleNamespace
import torch
from hiqcache.transfers import staged_transfer
config = SimpleNamespace(enable_metrics=METRICS, served_model_name="qwen", model_path="qwen")
rows = [torch.zeros(32, 3, 64, dtype=torch.bfloat16)]
made = staged_transfer("int8", 16, config, rows, rows, "nhd", None, ())
print(type(made).__name__, "prometheus_client" in sys.modules, "hiqcache.metrics" in sys.modules)
"""


@pytest.mark.parametrize(
    ("metrics", "said"),
    [(False, "StagedTransfer False False"), (True, "MeasuredTransfer True True")],
)
def test_without_metrics_nothing_of_them_is_imported(metrics: bool, said: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    script = LOOK.replace("METRICS", str(metrics))
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == said


@pytest.mark.parametrize(
    ("served_as", "label"), [("qwen", "qwen"), (None, "Qwen/Qwen3-8B"), ("", "Qwen/Qwen3-8B")]
)
def test_with_metrics_the_model_is_named_as_it_is_served(
    monkeypatch: pytest.MonkeyPatch, served_as: str | None, label: str
) -> None:
    named: list[tuple[str, str]] = []

    class Metric:
        def labels(self, model_name: str, codec: str) -> SimpleNamespace:
            named.append((model_name, codec))
            return SimpleNamespace(set=lambda value: None)

    names = ("encode", "decode", "encoded", "decoded", "bytes_per_token", "ratio")
    monkeypatch.setattr("hiqcache.metrics._instruments", lambda: dict.fromkeys(names, Metric()))
    made = transfer("k8v4", config=server(metrics=True, served_as=served_as))
    assert type(made) is MeasuredTransfer
    assert set(named) == {(label, "k8v4")}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"layout": "hnd"}, "does not encode the device layout 'hnd'"),
        ({"scales": torch.ones(1)}, "does not encode a quantised KV cache"),
        ({"drafts": [object()]}, "does not encode packed draft layers"),
        ({"dtype": torch.float32}, r"the device KV cache is torch\.float32"),
        ({"codec": "int7"}, "unknown codec 'int7'"),
        ({"codec": "int4", "v_head_dim": 130}, "heads of 130 values"),
        ({"codec": "int8-hadamard", "v_head_dim": 512}, "heads of 512 values are not rotated"),
    ],
)
def test_what_a_codec_does_not_serve_is_refused(case: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        transfer(**case)
    assert "\n" not in str(raised.value)
