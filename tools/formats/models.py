"""Models, as far as their KV goes: a few by name, any other by its ``config.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from hiqcache.geometry import KVGeometry


@dataclass(frozen=True)
class Model:
    """What a model's attention keeps.

    Parameters
    ----------
    layers, heads, kv_heads, head_dim : int
        Layers, query heads, KV heads and values of a head.
    v_head_dim : int, optional
        Values of a head of V, where that is not ``head_dim``.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int | None = None

    def rank_kv_heads(self, tp: int) -> int:
        """KV heads of each rank, by SGLang's rule: at least one, which several ranks then have.

        Raises
        ------
        ValueError
            If the heads do not divide among the ranks.
        """
        fewer, more = sorted((self.kv_heads, tp))
        if self.heads % tp or more % fewer:
            raise ValueError(
                f"{self.heads} heads with {self.kv_heads} KV heads do not divide among {tp} ranks"
            )
        return max(1, self.kv_heads // tp)

    def geometry(self, page_size: int, tp: int = 1) -> KVGeometry:
        """The KV cache of one of ``tp`` ranks, in BF16 or FP16, which take the same."""
        from hiqcache.geometry import KVGeometry

        heads = self.rank_kv_heads(tp)
        return KVGeometry(self.layers, heads, self.head_dim, self.v_head_dim, page_size)


#: Of any number: what is past it is a mistake, and past what a float holds.
LARGEST = 10**9

#: From the ``config.json`` that each is published with.
PRESETS = {
    "llama-3.1-8b": Model(32, 32, 8, 128),
    "llama-3.1-70b": Model(80, 64, 8, 128),
    "llama-3.2-1b": Model(16, 32, 8, 64),
    "mistral-7b": Model(32, 32, 8, 128),
    "phi-3-mini": Model(32, 32, 32, 96),
    "qwen2.5-0.5b": Model(24, 14, 2, 64),
    "qwen2.5-7b": Model(28, 28, 4, 128),
    "qwen2.5-72b": Model(80, 64, 8, 128),
    "qwen3-0.6b": Model(28, 16, 8, 128),
    "qwen3-8b": Model(36, 32, 8, 128),
    "qwen3-14b": Model(40, 40, 8, 128),
    "qwen3-32b": Model(64, 64, 8, 128),
    "qwen3-30b-a3b": Model(48, 32, 4, 128),
    "smollm2-135m": Model(30, 9, 3, 64),
}


def read_model(file: Path, way_out: str) -> Model:
    """Read a model's ``config.json``.

    Parameters
    ----------
    file : Path
        The file.
    way_out : str
        What the user should do if it is of no use.
    """
    if not file.is_file():
        raise ToolError(f"{file} does not exist", way_out, Exit.USAGE)
    try:
        return _parsed(json.loads(file.read_text(encoding="utf-8")))
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ZeroDivisionError,
        RecursionError,
    ) as error:
        raise ToolError(
            f"{file} does not describe a plain attention model ({type(error).__name__}: {error})",
            way_out,
            Exit.USAGE,
        ) from error


#: What says that only some layers are attention, in configurations without ``layer_types``.
_HYBRID_KEYS = ("hybrid_override_pattern", "attn_layer_period", "full_attention_interval")


def _parsed(config: dict[str, Any]) -> Model:
    """Return the model of a configuration whose layers all keep K and V of every token."""
    if config.get("kv_lora_rank"):
        raise ValueError("its KV is latent")
    if set(config.get("layer_types") or ()) - {"full_attention"}:
        raise ValueError("its layers differ")
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        raise ValueError("its layers keep a window")
    for key in _HYBRID_KEYS:
        if config.get(key):
            raise ValueError(f"its layers differ: {key}")
    heads = config["num_attention_heads"]
    kv_heads, head_dim = config.get("num_key_value_heads"), config.get("head_dim")
    model = Model(
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=config["hidden_size"] // heads if head_dim is None else head_dim,
        v_head_dim=config.get("v_head_dim"),
    )
    model.geometry(page_size=1)  # refuses what is no positive integer
    for name, number in vars(model).items():
        optional = number is None and name == "v_head_dim"
        if not optional and (type(number) is not int or not 1 <= number <= LARGEST):
            raise ValueError(f"{name}: {str(number)[:20]}")
    if heads % model.kv_heads:
        raise ValueError(f"{heads} heads do not share {model.kv_heads} KV heads")
    return model
