"""Insert, back up, evict, match and load back through SGLang's own cache and transfer engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hiqcache.codecs import make_codec
from hiqcache.codecs.layout import UnitLayout

from .radix import Rows, Setup, radix

#: More than one chunk of a transfer, on a CPU and on CUDA, and a last one that is not full.
TOKENS = 336
PLACEMENTS = [
    ("layer_first", "kernel"),
    ("page_first", "kernel"),
    ("layer_first", "direct"),
    ("page_first_direct", "direct"),
]
#: All formats move alike, so one of them says what another release does with units.
FORMATS = [
    "int8",
    *(pytest.param(codec, marks=pytest.mark.pin) for codec in ("int8-hadamard", "k8v4", "int4")),
]
CASES = [
    pytest.param(layout, io, page, policy, id=f"{layout}-{io}-page{page}-{policy}")
    for layout, io in PLACEMENTS
    for page in (1, 16, 64)
    for policy in ("write_through", "write_back", "write_through_selective")
]


def whole_pages(page_size: int) -> int:
    """Tokens of one sequence."""
    return TOKENS // page_size * page_size


def restore(setup: Setup) -> tuple[Rows, Rows]:
    """Back a sequence up, push it out of the device pool, restore it: (inserted, restored)."""
    tokens = whole_pages(setup.page_size)
    with radix(setup) as r:
        r.insert(1, tokens)
        if setup.policy == "write_through_selective":
            r.touch(1, tokens)
        for seed in (2, 3, 4):
            r.insert(seed, tokens)
        assert r.found(1, tokens) == (0, tokens)
        # Nothing of the sequence may survive in the device pool by luck.
        first_keys = r.kv[1][0][0]
        assert not (r.device.k_buffer[0][:, None] == first_keys[None, :4]).flatten(2).all(-1).any()
        assert r.load_back(1, tokens) == tokens
        return r.kv[1], r.read(1, tokens)


def through_codec(setup: Setup, rows: Rows) -> Rows:
    """The library's encode and decode of whole pages of every layer, without SGLang."""
    codec = make_codec(setup.codec, setup.geometry)
    restored = []
    for layer in rows:
        keys, values = (part.unflatten(0, (-1, setup.page_size)) for part in layer)
        workspace = codec.workspace(len(keys), keys.device)
        units = torch.empty(
            (len(keys), codec.unit.unit_bytes), dtype=torch.uint8, device=keys.device
        )
        out = torch.empty_like(keys), torch.empty_like(values)
        codec.encode(keys, values, units, workspace)
        codec.decode(units, *out, workspace)
        restored.append((out[0].flatten(0, 1), out[1].flatten(0, 1)))
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
@pytest.mark.parametrize("codec", FORMATS)
def test_a_format_restores_what_the_library_decodes(codec, layout, io, page, policy):
    setup = Setup(codec, layout, io, page, policy)
    inserted, restored = restore(setup)
    assert_rows_equal(through_codec(setup, inserted), restored)
    with pytest.raises(AssertionError):
        assert_rows_equal(inserted, restored)  # the codec is lossy: it really ran


GEOMETRIES = {
    "4-heads": dict(kv_heads=4),
    "2-heads": dict(kv_heads=2),
    "1-head": dict(kv_heads=1),
    "3x64": dict(kv_heads=3, head_dim=64, v_head_dim=64),
    "5x80": dict(kv_heads=5, head_dim=80, v_head_dim=80),
    "2x96": dict(kv_heads=2, head_dim=96, v_head_dim=96),
    "2x112": dict(kv_heads=2, head_dim=112, v_head_dim=112),
    "2x192": dict(kv_heads=2, head_dim=192, v_head_dim=192),
    "1x256": dict(kv_heads=1, head_dim=256, v_head_dim=256),
    "k192-v128": dict(kv_heads=2, head_dim=192, v_head_dim=128),
    "k64-v96": dict(kv_heads=3, head_dim=64, v_head_dim=96),
    "fp16": dict(dtype=torch.float16),
}


@pytest.mark.pin
@pytest.mark.parametrize("page", [8, 32, 128])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("codec", FORMATS)
def test_a_geometry_is_restored(codec, geometry, page):
    setup = Setup(codec, page_size=page, **GEOMETRIES[geometry])
    inserted, restored = restore(setup)
    assert_rows_equal(through_codec(setup, inserted), restored)


def half_address(setup: Setup, host, unit: UnitLayout, half: int, layer: int, page: int):
    """Byte offsets of the rows of half a unit in the arena, from the layout's definition alone."""
    rows, pages, layers = unit.rows_per_half, host.page_num, setup.layers
    for row in range(rows):
        match setup.layout:
            case "layer_first":  # [2, layers, pages, rows, bytes]
                index = ((half * layers + layer) * pages + page) * rows + row
            case "page_first":  # [2, pages, rows, layers, bytes]
                index = ((half * pages + page) * rows + row) * layers + layer
            case "page_first_direct":  # [2, pages, layers, rows, bytes]
                index = ((half * pages + page) * layers + layer) * rows + row
            case layout:
                raise AssertionError(layout)
        yield index * unit.mover_row_bytes


@pytest.mark.parametrize(("layout", "io"), PLACEMENTS)
@pytest.mark.parametrize("page", [1, 16, 64])
@pytest.mark.parametrize("codec", FORMATS)
def test_each_unit_lies_at_its_address(codec, layout, io, page):
    setup = Setup(codec, layout, io, page)
    made = make_codec(codec, setup.geometry)
    unit = made.unit
    with radix(setup) as r:
        hosts = r.host_slots(r.insert(1, whole_pages(page)))
        assert len(set(hosts.tolist())) == whole_pages(page)
        pages = hosts.unflatten(0, (-1, page))
        assert torch.equal(pages, pages[:, :1] // page * page + torch.arange(page))
        arena = r.host.kv_buffer.flatten()
        assert arena.nbytes == r.host.size * made.bytes_per_token
        for layer, rows in enumerate(r.kv[1]):
            keys, values = (part.unflatten(0, (-1, page)) for part in rows)
            expected = torch.empty((len(pages), unit.unit_bytes), dtype=torch.uint8)
            expected = expected.to(setup.device)
            made.encode(keys, values, expected, made.workspace(len(pages), setup.device))
            expected = expected.cpu().view(len(pages), 2, unit.rows_per_half, -1)
            for index, slot in enumerate(pages[:, 0].tolist()):
                for half in range(2):
                    at = half_address(setup, r.host, unit, half, layer, slot // page)
                    for row, start in zip(expected[index, half], at, strict=True):
                        assert torch.equal(arena[start : start + len(row)], row), (
                            f"half {half}, layer {layer}, page {index}, slot {slot}"
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
            assert_rows_equal(through_codec(r.setup, r.kv[seed]), r.read(seed, TOKENS))


ROUND_TRIP = (
    "test_a_format_restores_what_the_library_decodes[int8-page_first-kernel-page16-write_through]"
)
ADDRESSES = "test_each_unit_lies_at_its_address[int8-16-page_first-kernel]"
FAULTS = {
    "drop_load": ROUND_TRIP,
    "zero_scales": ROUND_TRIP,
    "swap_pages": ROUND_TRIP,
    "swap_layers": ROUND_TRIP,
    # Stored one page further and fetched from there: values agree, addresses do not.
    "shift_units": ADDRESSES,
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
