"""Thousands of random steps of SGLang's cache on every format, every byte checked."""

from __future__ import annotations

import os

import pytest
import torch

from hiqcache.staging import StagedTransfer

from .faults import drop_load, shift_units, swap_layers, swap_pages
from .radix import DEVICE, Setup, radix
from .storm import Storm

STEPS = int(os.environ.get("HIQCACHE_STORM_STEPS", "2000"))
#: Each format meets another placement, page size and policy; all of them are met.
STORMS = {
    "int8": ("layer_first", "kernel", 16, "write_back"),
    "int8-hadamard": ("page_first", "kernel", 8, "write_through"),
    "k8v4": ("page_first_direct", "direct", 16, "write_through_selective"),
    "int4": ("page_first", "kernel", 16, "write_back"),
    "raw": ("layer_first", "direct", 1, "write_through"),
}


def storm_setup(codec: str) -> Setup:
    layout, io, page, policy = STORMS[codec]
    return Setup(
        codec, layout, io, page, policy,
        layers=2, kv_heads=2, head_dim=64, v_head_dim=64, device_tokens=20 * page, ratio=2.5,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.pin
@pytest.mark.skipif(DEVICE != "cpu", reason="the model reads the device pool after every step")
@pytest.mark.parametrize("codec", STORMS)
def test_a_storm(codec, raw_codec):
    with radix(storm_setup(codec)) as r:
        storm = Storm(r, seed=1)
        for _ in range(STEPS):
            storm.step()
            storm.model.check()
        storm.finish_loads()
        print(codec, storm.steps, storm.model.moved)
        # It was a storm: both ways were used a lot, and much of the host pool was used.
        assert storm.model.moved["backed up"] > STEPS / 8
        assert storm.model.moved["loaded"] > STEPS / 8


@pytest.mark.pin
@pytest.mark.skipif(DEVICE != "cpu", reason="the model reads the device pool after every step")
@pytest.mark.parametrize("fault", [swap_pages, swap_layers, shift_units, drop_load])
def test_a_broken_transfer_is_seen(fault, monkeypatch):
    """Negative controls: damage what moves the bytes, not what they are compared with."""
    for name in ("backup", "load"):
        monkeypatch.setattr(StagedTransfer, name, getattr(StagedTransfer, name))
    fault()
    with radix(storm_setup("int8")) as r:
        storm = Storm(r, seed=2)
        with pytest.raises((AssertionError, IndexError)):
            for _ in range(STEPS):
                storm.step()
                storm.model.check()


@pytest.mark.skipif(DEVICE != "cpu", reason="the model reads the device pool after every step")
def test_one_bit_of_the_arena_is_seen():
    with radix(storm_setup("int8")) as r:
        storm = Storm(r, seed=2)
        while storm.model.moved["backed up"] < 20:
            storm.step()
        storm.model.check()
        r.host.kv_buffer.view(torch.uint8).flatten()[12_345] ^= 1
        with pytest.raises(AssertionError):
            storm.model.check()


def test_a_sequence_that_is_another_one_is_seen():
    with radix(storm_setup("int4")) as r:
        storm = Storm(r, seed=3)
        while not storm.model.moved["loaded"]:
            storm.step()
        storm.model.device = torch.roll(storm.model.device, storm.r.setup.page_size, dims=2)
        with pytest.raises(AssertionError):
            for _ in range(50):
                storm.read()
