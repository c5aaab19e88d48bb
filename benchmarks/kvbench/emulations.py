"""Formats of projects that do not run here, by their arithmetic.

Each packs its codes into bytes, so that its size is counted as a peer's is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from kvbench.formats import TensorCodec

#: The magnitudes of E2M1, by their code.
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_E2M1_LARGEST = 6.0
_E4M3_LARGEST = 448.0


def pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Pack codes below ``2**bits``, in order and with no gap, into bytes."""
    planes = np.unpackbits(codes.to(torch.uint8).numpy().reshape(-1, 1), axis=1, bitorder="little")
    return torch.from_numpy(np.packbits(planes[:, :bits], bitorder="little"))


def unpack(packed: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """Return the ``count`` codes that :func:`pack` packed, as ``[count]`` uint8."""
    planes = np.unpackbits(packed.numpy(), bitorder="little", count=bits * count)
    return torch.from_numpy(
        np.packbits(planes.reshape(count, bits), axis=1, bitorder="little")[:, 0]
    )


class BareFp8(TensorCodec):
    """LMCache's ``fp8`` serde: a cast to E4M3, without a scale."""

    def encode(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(torch.float8_e4m3fn)

    def decode(self, held: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        return held.float()


class Nvfp4Held(NamedTuple):
    """What NVFP4 holds."""

    codes: torch.Tensor  # packed, 4 bits
    scales: torch.Tensor  # E4M3, one for 16 values
    layer_scales: torch.Tensor  # float32, one for a layer


class Nvfp4(TensorCodec):
    """NVFP4 as TensorRT-LLM's cold pages hold it: E2M1 in blocks of 16 with E4M3 scales.

    The scales are relative to a float32 one for each layer, as NVIDIA's two-level scheme has it.
    """

    block = 16

    def encode(self, tensor: torch.Tensor) -> Nvfp4Held:
        values = tensor.float().reshape(len(tensor), -1, self.block)
        largest = values.abs().amax(-1, keepdim=True)
        layer = largest.amax(1, keepdim=True) / (_E2M1_LARGEST * _E4M3_LARGEST)
        scales = (largest / _E2M1_LARGEST / layer).nan_to_num(0.0).to(torch.float8_e4m3fn)
        # A block of zeros has a scale of zero, and any code restores it.
        scaled = (values / (scales.float() * layer)).nan_to_num(0.0)
        return Nvfp4Held(pack(self._round(scaled).reshape(-1), 4), scales, layer)

    def decode(self, held: Nvfp4Held, shape: torch.Size) -> torch.Tensor:
        codes = unpack(held.codes, 4, shape.numel()).reshape(shape[0], -1, self.block)
        magnitudes = E2M1[(codes & 7).long()]
        values = torch.where(codes > 7, -magnitudes, magnitudes)
        return (values * held.scales.float() * held.layer_scales).reshape(shape)

    @staticmethod
    def _round(scaled: torch.Tensor) -> torch.Tensor:
        """Return the nearest codes, ties to the even one, the sign in the fourth bit."""
        middles = (E2M1[1:] + E2M1[:-1]) / 2
        magnitudes = scaled.abs()
        below = torch.bucketize(magnitudes, middles)  # a tie goes to the lower code
        tie_above_odd = (below % 2 == 1) & (magnitudes == middles[below.clamp_max(6)])
        return below + tie_above_odd + 8 * torch.signbit(scaled)


class AffineHeld(NamedTuple):
    """What an asymmetric format holds."""

    codes: torch.Tensor  # packed
    lowest: torch.Tensor  # float16, one for a group
    steps: torch.Tensor  # float16, one for a group


@dataclass(frozen=True)
class Affine(TensorCodec):
    """Asymmetric integers: a group's least value and step in FP16, and codes from zero.

    Parameters
    ----------
    bits
        Of a code.
    tokens
        A group is one channel of that many tokens, or, with one, a head of a token.
    """

    bits: int
    tokens: int

    def encode(self, tensor: torch.Tensor) -> AffineHeld:
        groups = self._groups(tensor.float())
        lowest = groups.amin(-1, keepdim=True).half()
        steps = ((groups.amax(-1, keepdim=True) - lowest.float()) / (2**self.bits - 1)).half()
        codes = ((groups - lowest.float()) / steps.float()).nan_to_num(0.0).round()
        packed = pack(codes.clamp(0, 2**self.bits - 1).reshape(-1), self.bits)
        return AffineHeld(packed, lowest, steps)

    def decode(self, held: AffineHeld, shape: torch.Size) -> torch.Tensor:
        codes = unpack(held.codes, self.bits, shape.numel())
        grouped = codes.reshape(*held.steps.shape[:-1], -1).float()
        restored = grouped * held.steps.float() + held.lowest.float()
        if self.tokens == 1:
            return restored.reshape(shape)
        return restored.transpose(-1, -3).reshape(shape)

    def _groups(self, values: torch.Tensor) -> torch.Tensor:
        if self.tokens == 1:
            return values
        return values.unflatten(1, (-1, self.tokens)).transpose(-1, -3)
