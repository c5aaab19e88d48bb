"""Every format that is measured: what it holds, and that it gives back what it was given."""

from __future__ import annotations

import pytest
import torch

from kvbench.catalogue import all_formats
from kvbench.emulations import Affine
from kvbench.formats import Format, PerTensor, fingerprint, held_bytes

#: Bits for each value of heads of 64, as counted from what is held. A codebook or a scale for a
#: whole layer is a few bytes more.
BITS = {
    "gguf q8_0": 8.5,
    "gguf q5_0": 5.5,
    "gguf q4_1": 5.0,
    "gguf q4_0": 4.5,
    "quanto int4": 4.5,
    "torchao int8": 8.625,
    "torchao nf4": 4.125,
    "bitsandbytes nf4": 4.5,
    "hqq int4": 4.5,
    "LMCache fp8 (emulated)": 8.0,
    "NVFP4 pages (emulated)": 4.5,
    "KIVI-axes int4 (emulated)": 4.75,
    "KIVI-axes int3 (emulated)": 3.75,
}
SHAPE = (2, 512, 3, 64)


@pytest.fixture(scope="module")
def kv() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(SHAPE, generator=generator).bfloat16() for _ in range(2))
    return keys, values


@pytest.mark.parametrize("form", all_formats(), ids=lambda form: form.name)
class TestFormat:
    def test_gives_back_about_what_it_was_given(self, form: Format, kv) -> None:
        for given, restored in zip(kv, form.decode(form.encode(*kv)), strict=True):
            assert restored.shape == given.shape
            assert restored.dtype == torch.bfloat16
            error = (restored.float() - given.float()).norm() / given.float().norm()
            assert 0.001 < error < 0.25

    def test_leaves_its_input_alone(self, form: Format, kv) -> None:
        before = [tensor.clone() for tensor in kv]
        form.encode(*kv)
        assert all(map(torch.equal, before, kv))

    def test_takes_its_bits(self, form: Format, kv) -> None:
        bits = 8 * held_bytes(form.encode(*kv)) / sum(tensor.numel() for tensor in kv)
        if form.name in BITS:
            assert bits == pytest.approx(BITS[form.name], abs=0.01)


def test_every_other_format_has_its_bits_said() -> None:
    assert {form.name for form in all_formats() if form.kind != "ours"} == set(BITS)


def test_what_is_nested_is_counted() -> None:
    class Holder:
        def __init__(self) -> None:
            self.codes = torch.zeros(10, dtype=torch.uint8)
            self.block = 64

    assert held_bytes([Holder(), {"scale": torch.zeros(3), "shape": torch.Size([3])}, None]) == 22


def test_what_is_unknown_is_not_counted_as_nothing() -> None:
    with pytest.raises(TypeError):
        held_bytes(object())


def test_a_format_that_makes_the_same_is_the_same() -> None:
    def affine(bits: int, version: str) -> Format:
        return PerTensor("some", "emulation", version, Affine(bits, 32), Affine(bits, 1))

    assert fingerprint(affine(4, "1")) == fingerprint(affine(4, "2"))
    assert fingerprint(affine(4, "1")) != fingerprint(affine(3, "1"))
