"""Other projects' formats, run with their own code on the CPU.

Each package is imported when it is first used: some take seconds, or compile what they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from kvbench.formats import TensorCodec

#: Values that share a scale where a peer lets one choose: what Hugging Face's caches use, and the
#: head dimension of the model.
GROUP = 64


def rows(tensor: torch.Tensor) -> torch.Tensor:
    """View a tensor as rows of a group each."""
    return tensor.reshape(-1, GROUP)


@dataclass(frozen=True)
class Gguf(TensorCodec):
    """One of llama.cpp's types, by its own Python package."""

    type_name: str

    def encode(self, tensor: torch.Tensor) -> Any:
        quants = import_module("gguf.quants")
        return quants.quantize(rows(tensor).float().numpy(), self._type())

    def decode(self, held: Any, shape: torch.Size) -> torch.Tensor:
        quants = import_module("gguf.quants")
        return torch.from_numpy(quants.dequantize(held, self._type())).reshape(shape)

    def _type(self) -> Any:
        return import_module("gguf").GGMLQuantizationType[self.type_name]


class QuantoInt4(TensorCodec):
    """optimum-quanto's qint4, as Hugging Face's quantised cache calls it."""

    def encode(self, tensor: torch.Tensor) -> Any:
        quanto = import_module("optimum.quanto")
        grouped = rows(tensor)
        scale, shift = quanto.MaxOptimizer()(grouped, quanto.qint4, 0, GROUP)
        return quanto.quantize_weight(grouped, quanto.qint4, 0, scale, shift, GROUP)

    def decode(self, held: Any, shape: torch.Size) -> torch.Tensor:
        return held.dequantize().reshape(shape)


class HqqInt4(TensorCodec):
    """HQQ with its solver and 4 bits, its scales in BF16 as Hugging Face's cache has them."""

    def encode(self, tensor: torch.Tensor) -> Any:
        quantizer = import_module("hqq.core.quantize").Quantizer
        codes, described = quantizer.quantize(
            rows(tensor), 4, group_size=GROUP, axis=1, compute_dtype=torch.bfloat16, device="cpu"
        )
        return quantizer.to_inplace(codes, described | {"compute_dtype": torch.bfloat16}, "cpu")

    def decode(self, held: Any, shape: torch.Size) -> torch.Tensor:
        return import_module("hqq.core.quantize").Quantizer.dequantize(*held).reshape(shape)


class TorchaoInt8(TensorCodec):
    """torchao's Int8Tensor, symmetric, a scale for each head of a token."""

    def encode(self, tensor: torch.Tensor) -> Any:
        quantization = import_module("torchao.quantization")
        row = import_module("torchao.quantization.granularity").PerRow()
        return quantization.Int8Tensor.from_hp(rows(tensor), granularity=row)

    def decode(self, held: Any, shape: torch.Size) -> torch.Tensor:
        return held.dequantize().reshape(shape)


class TorchaoNf4(TensorCodec):
    """torchao's NF4Tensor, whose scales are quantised too."""

    def encode(self, tensor: torch.Tensor) -> Any:
        nf4 = import_module("torchao.quantization.quantize_.workflows.nf4.nf4_tensor")
        return nf4.to_nf4(rows(tensor), block_size=GROUP, scaler_block_size=256)

    def decode(self, held: Any, shape: torch.Size) -> torch.Tensor:
        return held.to(torch.bfloat16).reshape(shape)


class BitsandbytesNf4(TensorCodec):
    """bitsandbytes' NF4, a float32 scale for each block."""

    def encode(self, tensor: torch.Tensor) -> Any:
        functional = import_module("bitsandbytes.functional")
        return functional.quantize_4bit(rows(tensor), blocksize=GROUP, quant_type="nf4")

    def decode(self, held: Any, shape: torch.Size) -> torch.Tensor:
        return import_module("bitsandbytes.functional").dequantize_4bit(*held).reshape(shape)
