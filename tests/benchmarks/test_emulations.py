"""The emulated formats: known vectors, another implementation, and the bits they pack into."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvbench.emulations import E2M1, Affine, BareFp8, Nvfp4, pack, unpack

SHAPE = torch.Size([2, 64, 3, 64])


def draw() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    spread = torch.exp(torch.randn(*SHAPE[:-1], 1, generator=generator))
    return (spread * torch.randn(SHAPE, generator=generator)).bfloat16()


@given(st.sampled_from([3, 4]), st.integers(1, 40), st.randoms(use_true_random=False))
def test_codes_are_packed_with_no_gap(bits: int, count: int, random) -> None:
    codes = torch.tensor([random.randrange(2**bits) for _ in range(count)], dtype=torch.uint8)
    packed = pack(codes, bits)
    assert packed.numel() == -(-bits * count // 8)
    assert torch.equal(unpack(packed, bits, count), codes)


def test_fp8_is_the_bare_cast() -> None:
    tensor = torch.tensor([1.0, 1.06, 448.0, 1e-4]).bfloat16().reshape(1, 1, 1, 4)
    held = BareFp8().encode(tensor)
    assert held.nbytes == 4
    assert BareFp8().decode(held, tensor.shape).flatten().tolist() == [1.0, 1.0, 448.0, 0.0]


class TestNvfp4:
    def test_its_own_numbers_come_back(self) -> None:
        block = torch.cat([E2M1, -E2M1])
        tensor = torch.cat([block, 448 * block]).bfloat16().reshape(1, 1, 1, 32)
        codec = Nvfp4()
        assert torch.equal(codec.decode(codec.encode(tensor), tensor.shape), tensor.float())

    def test_ties_go_to_the_even_code(self) -> None:
        middles = (E2M1[1:] + E2M1[:-1]) / 2
        block = torch.cat([middles, -middles, torch.tensor([6.0, 0.0])])
        tensor = torch.cat([block, 448 * block]).bfloat16().reshape(1, 1, 1, 32)
        restored = Nvfp4().decode(Nvfp4().encode(tensor), tensor.shape)[0, 0, 0, :14]
        even = torch.tensor([0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0])
        assert torch.equal(restored, torch.cat([even, -even]))

    def test_zeros_stay(self) -> None:
        tensor = torch.zeros(SHAPE, dtype=torch.bfloat16)
        assert not Nvfp4().decode(Nvfp4().encode(tensor), SHAPE).any()

    def test_it_is_what_torchao_computes(self) -> None:
        nvfp4 = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
        tensor = draw()
        restored = Nvfp4().decode(Nvfp4().encode(tensor), SHAPE)
        for ours, layer in zip(restored, tensor.float(), strict=True):
            scale = nvfp4.per_tensor_amax_to_scale(layer.abs().amax())
            held = nvfp4.NVFP4Tensor.to_nvfp4(layer.reshape(-1, 64), per_tensor_scale=scale)
            theirs = held.dequantize(torch.float32).reshape(layer.shape)
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)

    def test_it_takes_four_and_a_half_bits(self) -> None:
        held = Nvfp4().encode(draw())
        assert 8 * (held.codes.nbytes + held.scales.nbytes) == 4.5 * SHAPE.numel()
        assert held.layer_scales.nbytes == 4 * SHAPE[0]


class TestAffine:
    @pytest.mark.parametrize("tokens", [1, 32])
    @pytest.mark.parametrize("bits", [3, 4])
    def test_no_value_is_off_by_more_than_half_a_step(self, bits: int, tokens: int) -> None:
        tensor = draw().float().clamp(-100, 100)
        codec = Affine(bits, tokens)
        held = codec.encode(tensor.bfloat16())
        wrong = (codec.decode(held, SHAPE) - tensor.bfloat16().float()).abs()
        step, lowest = held.steps.float().max(), held.lowest.float().abs().max()
        # FP16's rounding of the least value and of the step comes on top.
        assert wrong.max() <= 0.5 * step + 2**-11 * (lowest + 2**bits * step)

    def test_keys_share_a_channel_of_a_page(self) -> None:
        tensor = torch.zeros(1, 64, 1, 64)
        tensor[0, :32, 0, 5] = 1000.0  # constant on a channel: exact, and felt nowhere else
        tensor[0, 0, 0, 6] = 15.0
        codec = Affine(4, tokens=32)
        held = codec.encode(tensor.bfloat16())
        assert held.steps.numel() == 2 * 64
        assert torch.equal(codec.decode(held, tensor.shape), tensor)

    @pytest.mark.parametrize(
        ("codec", "bits"),
        [(Affine(4, 32), 5.0), (Affine(3, 32), 4.0), (Affine(4, 1), 4.5), (Affine(3, 1), 3.5)],
    )
    def test_its_bits(self, codec: Affine, bits: float) -> None:
        held = codec.encode(draw())
        assert 8 * sum(part.nbytes for part in held) == bits * SHAPE.numel()
