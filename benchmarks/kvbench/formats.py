"""What a format is to the benchmarks: keys and values in, what it holds, keys and values out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


class Format(ABC):
    """A way to hold keys and values, each ``[layers, tokens, kv_heads, head_dim]`` BF16."""

    #: As it is called in tables.
    name: str
    #: ``ours``, ``peer`` (another project's code, run) or ``emulation`` (its arithmetic, ours).
    kind: str
    #: Of the package or of the format, as far as there is one.
    version: str

    @abstractmethod
    def encode(self, keys: torch.Tensor, values: torch.Tensor) -> Any:
        """Return what is held."""

    @abstractmethod
    def decode(self, held: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values, BF16, in their shapes."""


class TensorCodec(ABC):
    """A way to hold one tensor, which keys and values may differ in."""

    @abstractmethod
    def encode(self, tensor: torch.Tensor) -> Any:
        """Return what is held of ``[layers, tokens, kv_heads, head_dim]`` BF16."""

    @abstractmethod
    def decode(self, held: Any, shape: torch.Size) -> torch.Tensor:
        """Return the tensor, of any floating type, in ``shape``."""


@dataclass(frozen=True)
class PerTensor(Format):
    """A format that holds keys and values apart."""

    name: str
    kind: str
    version: str
    keys: TensorCodec
    values: TensorCodec

    def encode(self, keys: torch.Tensor, values: torch.Tensor) -> Any:
        return (
            (self.keys.encode(keys), keys.shape),
            (self.values.encode(values), values.shape),
        )

    def decode(self, held: Any) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = held
        return self.keys.decode(*keys).bfloat16(), self.values.decode(*values).bfloat16()


def held_bytes(held: Any) -> int:
    """Return the bytes of every tensor and array in ``held``, however they are nested.

    Plain numbers count nothing: a shape or a block size is the same for all of a cache.
    """
    if held is None or isinstance(held, int | float | str | torch.dtype | torch.device):
        return 0
    if isinstance(held, torch.Tensor) and type(held) is not torch.Tensor:
        names, _ = held.__tensor_flatten__()
        return sum(held_bytes(getattr(held, name)) for name in names)
    if isinstance(held, torch.Tensor | np.ndarray):
        return held.nbytes
    if isinstance(held, Mapping):
        return sum(map(held_bytes, held.values()))
    if isinstance(held, list | tuple):
        return sum(map(held_bytes, held))
    return held_bytes(vars(held))


def fingerprint(form: Format) -> str:
    """Return a digest of what a format makes of a fixed draw.

    A format that makes the same is the same, whatever was changed in its sources.
    """
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(2, 512, 3, 64, generator=generator) for _ in range(2))
    keys[..., :4] *= 8  # a few channels stand out, as they do in real keys
    restored = form.decode(form.encode(keys.bfloat16(), values.bfloat16()))
    made = torch.stack(restored).view(torch.uint8)
    return hashlib.sha256(made.numpy().tobytes()).hexdigest()[:16]
