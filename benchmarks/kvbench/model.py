"""A real model's KV: filled by a prefix, and scored with whatever a format made of it.

Everything is computed in float32, the rotary tables included, so that what a score differs by
comes from the KV alone. The KV itself is BF16, as a server keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoTokenizer, DynamicCache, LlamaForCausalLM, PreTrainedTokenizerBase

#: Tokens whose KV goes through a format.
PREFIX = 1024
#: Tokens that are scored after them, each with its true predecessors in the context.
SCORED = 256


@dataclass(frozen=True)
class KV:
    """Keys and values of a prefix, each ``[layers, tokens, kv_heads, head_dim]`` BF16."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def elements(self) -> int:
        """How many numbers they are."""
        return self.keys.numel() + self.values.numel()


class Model:
    """The model and its tokenizer.

    Parameters
    ----------
    folder
        A Hugging Face folder of a Llama model.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
        self.network = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def windows(self, text: str, count: int) -> Iterator[torch.Tensor]:
        """Yield ``count`` consecutive windows of a text's tokens.

        Each is a prefix, the scored tokens, and the token that the last of them predicts.
        """
        step = PREFIX + SCORED
        # In no text do tokens average twenty characters. `verbose` would warn of their number.
        part = text[: 20 * (count * step + 1)]
        tokens = self.tokenizer(part, return_tensors="pt", verbose=False).input_ids[0]
        if len(tokens) <= count * step:
            raise ValueError(f"the text has {len(tokens)} tokens; {count * step + 1} are needed")
        for first in range(0, count * step, step):
            yield tokens[first : first + step + 1]

    @torch.no_grad()
    def prefill(self, window: torch.Tensor) -> KV:
        """Return the KV that the window's prefix fills."""
        cache = DynamicCache()
        self.network.model(window[None, :PREFIX], past_key_values=cache, use_cache=True)
        keys = torch.stack([layer.keys[0].transpose(0, 1) for layer in cache.layers])
        values = torch.stack([layer.values[0].transpose(0, 1) for layer in cache.layers])
        return KV(keys.bfloat16(), values.bfloat16())

    @torch.no_grad()
    def score(self, window: torch.Tensor, kv: KV) -> torch.Tensor:
        """Return the logits ``[scored, vocabulary]`` of what follows each scored token."""
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(zip(kv.keys, kv.values, strict=True)):
            heads_first = (part.float().transpose(0, 1)[None] for part in (keys, values))
            cache.update(*heads_first, layer)
        scored = window[None, PREFIX:-1]
        return self.network(scored, past_key_values=cache, use_cache=True).logits[0]
