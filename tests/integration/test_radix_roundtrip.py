"""Insert, back up, evict, match and load back through SGLang's own cache and transfer engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hiqcache.codecs import make_codec
from hiqcache.geometry import KVGeometry

from .radix import Rows, Setup, radix

#: More than one chunk of a transfer, on a CPU and on CUDA, and a last one that is not full.
TOKENS = 320
PLACEMENTS = [
    ("layer_first", "kernel"),
    ("page_first", "kernel"),
    ("layer_first", "direct"),
    ("page_first_direct", "direct"),
]
CASES = [
    pytest.param(layout, io, page, policy, id=f"{layout}-{io}-page{page}-{policy}")
    for layout, io in PLACEMENTS
    for page in (1, 16, 64)
    for policy in ("write_through", "write_back", "write_through_selective")
]


def restore(setup: Setup) -> tuple[Rows, Rows]:
    """Back a sequence up, push it out of the device pool, restore it: (inserted, restored)."""
    with radix(setup) as r:
        r.insert(1, TOKENS)
        if setup.policy == "write_through_selective":
            r.touch(1, TOKENS)
        for seed in (2, 3, 4):
            r.insert(seed, TOKENS)
        assert r.found(1, TOKENS) == (0, TOKENS)
        # Nothing of the sequence may survive in the device pool by luck.
        first_keys = r.kv[1][0][0]
        assert not (r.device.k_buffer[0][:, None] == first_keys[None, :4]).flatten(2).all(-1).any()
        assert r.load_back(1, TOKENS) == TOKENS
        return r.kv[1], r.read(1, TOKENS)


def through_codec(name: str, setup: Setup, rows: torch.Tensor) -> torch.Tensor:
    """The library's encode and decode of the rows, without SGLang."""
    geometry = KVGeometry(setup.layers, setup.kv_heads, setup.head_dim, setup.device)
    codec = make_codec(name, geometry)
    workspace = codec.workspace(len(rows), rows.device)
    records = torch.empty((len(rows), codec.record_bytes), dtype=torch.uint8, device=rows.device)
    restored = torch.empty_like(rows)
    codec.encode(rows, records, workspace)
    codec.decode(records, restored, workspace)
    return restored


def assert_rows_equal(expected: Rows, got: Rows) -> None:
    for layer, pairs in enumerate(zip(expected, got, strict=True)):
        for name, want, have in zip("KV", *pairs, strict=True):
            assert torch.equal(want.view(torch.int16), have.view(torch.int16)), (
                f"{name} of layer {layer} differs"
            )


@pytest.mark.parametrize(("layout", "io", "page", "policy"), CASES)
@pytest.mark.parametrize("codec", ["none", "raw"])
def test_raw_kv_is_restored_bit_for_bit(codec, layout, io, page, policy, raw_codec):
    inserted, restored = restore(Setup(codec, layout, io, page, policy))
    assert_rows_equal(inserted, restored)


@pytest.mark.parametrize(("layout", "io", "page", "policy"), CASES)
def test_int8_restores_what_the_library_decodes(layout, io, page, policy):
    setup = Setup("int8", layout, io, page, policy)
    inserted, restored = restore(setup)
    expected = [
        (through_codec("int8", setup, k), through_codec("int8", setup, v)) for k, v in inserted
    ]
    assert_rows_equal(expected, restored)
    with pytest.raises(AssertionError):
        assert_rows_equal(inserted, restored)  # the codec is lossy: it really ran


def record_address(setup: Setup, host, component: int, layer: int, slot: int, size: int) -> int:
    """Byte offset of one record in the arena, from the layout's definition alone."""
    slots, layers, page = host.size, setup.layers, setup.page_size
    match setup.layout:
        case "layer_first":  # [2, layers, slots, record]
            index = (component * layers + layer) * slots + slot
        case "page_first":  # [2, slots, layers, record]
            index = (component * slots + slot) * layers + layer
        case "page_first_direct":  # [2, pages, layers, page_size, record]
            block = (component * (slots // page) + slot // page) * layers + layer
            index = block * page + slot % page
        case layout:
            raise AssertionError(layout)
    return index * size


@pytest.mark.parametrize(("layout", "io"), PLACEMENTS)
@pytest.mark.parametrize("page", [1, 16, 64])
def test_each_record_lies_at_its_address(layout, io, page):
    setup = Setup("int8", layout, io, page)
    geometry = KVGeometry(setup.layers, setup.kv_heads, setup.head_dim, setup.device)
    codec = make_codec("int8", geometry)
    size = codec.record_bytes
    with radix(setup) as r:
        slots = r.insert(1, TOKENS)
        hosts = r.host_slots(slots)
        assert len(set(hosts.tolist())) == TOKENS
        arena = r.host.kv_buffer.flatten()
        for layer, rows in enumerate(r.kv[1]):
            for component in range(2):
                expected = torch.empty((TOKENS, size), dtype=torch.uint8, device=setup.device)
                codec.encode(rows[component], expected, codec.workspace(TOKENS, setup.device))
                expected = expected.cpu()
                for token, slot in enumerate(hosts.tolist()):
                    at = record_address(setup, r.host, component, layer, slot, size)
                    assert torch.equal(arena[at : at + size], expected[token]), (
                        f"component {component}, layer {layer}, token {token}, slot {slot}"
                    )


def test_merged_nodes_restore_in_one_transfer(monkeypatch):
    """Sequences that are loaded back before the next batch runs: SGLang merges their transfers."""
    with radix(Setup("int8", device_tokens=1024)) as r:
        for seed in range(1, 6):
            r.insert(seed, TOKENS)
        seeds = [seed for seed in range(1, 6) if r.found(seed, TOKENS) == (0, TOKENS)][:2]
        engine = r.cache.cache_controller.l2_transfer_engine
        submitted = []
        submit = engine.submit_host_to_device

        def recorded(transfers, **kwargs):
            submitted.append([len(transfer.host_indices) for transfer in transfers])
            return submit(transfers, **kwargs)

        monkeypatch.setattr(engine, "submit_host_to_device", recorded)
        for seed in seeds:
            assert r.start_load_back(seed, TOKENS) == TOKENS
        r.finish_load_back()
        assert submitted == [[2 * TOKENS]]
        for seed in seeds:
            expected = [
                tuple(through_codec("int8", r.setup, x) for x in rows) for rows in r.kv[seed]
            ]
            assert_rows_equal(expected, r.read(seed, TOKENS))


ROUND_TRIP = "test_int8_restores_what_the_library_decodes[page_first-kernel-page16-write_through]"
ADDRESSES = "test_each_record_lies_at_its_address[16-page_first-kernel]"
FAULTS = {
    "drop_load": ROUND_TRIP,
    "zero_scales": ROUND_TRIP,
    "swap_pages": ROUND_TRIP,
    "swap_layers": ROUND_TRIP,
    # Stored one slot further and fetched from there: values agree, addresses do not.
    "shift_records": ADDRESSES,
}


@pytest.mark.skipif("HIQ_FAULT" in os.environ, reason="already running with a fault")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_transfer_fails(fault):
    """Negative control: break the shipped code path in another process; the test must fail."""
    here = Path(__file__)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.integration.faults"]
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"{here}::{FAULTS[fault]}"],
        cwd=here.parents[2],
        env=os.environ | {"HIQ_FAULT": fault},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed" in run.stdout, run.stdout
    assert "AssertionError" in run.stdout, run.stdout
