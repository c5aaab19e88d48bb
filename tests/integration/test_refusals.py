"""What a codec is refused with, on SGLang's own server arguments, pools and controller."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
from sglang.srt.arg_groups import hicache_hook
from sglang.srt.arg_groups.overrides import resolving_view
from sglang.srt.mem_cache.memory_pool import (
    MHATokenToKVPool,
    MLATokenToKVPool,
)
from sglang.srt.mem_cache.pool_host import mha
from sglang.srt.runtime_context import get_context
from sglang.srt.server_args import ServerArgs

from hiqcache.refusals import REFUSALS, STORAGE_ATTACH_REFUSED

from .radix import Setup, radix

ACCEPTED = dict(
    model_path=str(Path(__file__).parent / "llama"),
    device="cpu",
    enable_hierarchical_cache=True,
    hicache_l2_codec="int8",
)

#: One refused value for each argument in the table, as a user would pass it.
REFUSED = {
    "enable_hierarchical_cache": False,
    "disable_radix_cache": True,
    "radix_cache_backend": "mine",
    "enable_lmcache": True,
    "hicache_storage_backend": "file",
    "disaggregation_decode_host_receive_threshold": 0.5,
    "disaggregation_decode_retraction_backup": "host_pool",
    "disaggregation_decode_enable_offload_kvcache": True,
    "disaggregation_mode": "decode",
    "enable_hisparse": True,
    "dcp_size": 2,
    "enable_unified_memory": True,
    "enable_kv_cache_sharding": True,
    "kv_cache_dtype": "fp8_e4m3",
    "speculative_algorithm": "EAGLE",
    "hicache_io_backend": "kernel_ascend",
    "hicache_mem_layout": "page_head",
}

#: Refused by SGLang itself before a codec is looked at.
BY_SGLANG = {"dcp_size": "only supported for MLA models"}


def resolve(**arguments) -> ServerArgs:
    """Run SGLang's HiCache resolution, codec included, on a server's raw arguments."""
    args = ServerArgs(**ACCEPTED | arguments)
    hicache_hook.handle_hicache_ratio_default(args)
    hicache_hook.handle_hicache(args)
    return args


def test_the_table_speaks_of_arguments_that_this_release_has():
    assert {r.field for r in REFUSALS} <= set(ServerArgs.__struct_fields__)
    assert {r.field for r in REFUSALS} == set(REFUSED)


def test_an_accepted_configuration_resolves():
    assert resolving_view(resolve()).hicache_l2_codec == "int8"


@pytest.mark.parametrize("field", REFUSED)
def test_each_bypass_is_refused_in_one_line(field):
    with pytest.raises((ValueError, NotImplementedError)) as refused:
        resolve(**{field: REFUSED[field]})
    message = str(refused.value)
    assert "\n" not in message
    assert BY_SGLANG.get(field, "--hicache-l2-codec int8") in message
    if field not in BY_SGLANG:
        resolve(**{field: REFUSED[field]}, hicache_l2_codec="none")


def test_an_unknown_codec_is_refused():
    with pytest.raises(ValueError, match="int9 is unknown; choose none, int8"):
        resolve(hicache_l2_codec="int9")


@pytest.mark.parametrize(("value", "codec"), [("1", "int8"), ("0", "none")])
def test_the_environment_alias(monkeypatch, value, codec):
    monkeypatch.setenv("SGLANG_EXPERIMENTAL_HICACHE_INT8", value)
    assert resolving_view(resolve(hicache_l2_codec="none")).hicache_l2_codec == codec


def test_the_alias_is_checked_like_the_flag(monkeypatch):
    monkeypatch.setenv("SGLANG_EXPERIMENTAL_HICACHE_INT8", "1")
    with pytest.raises(ValueError, match="drop --hicache-storage-backend"):
        resolve(hicache_l2_codec="none", hicache_storage_backend="file")


def test_layouts_are_checked_as_resolved():
    """page_first with the direct backend is rewritten to page_first_direct, which is accepted."""
    args = resolve(hicache_mem_layout="page_first", hicache_io_backend="direct")
    assert resolving_view(args).hicache_mem_layout == "page_first_direct"


class Renamed(MHATokenToKVPool):
    """Stands for the many pools that subclass the plain one."""


def test_a_device_pool_that_is_not_the_plain_one_is_refused_by_name():
    with pytest.raises(ValueError, match="cache is Renamed"), radix(Setup(device_pool=Renamed)):
        pass


def test_an_mla_pool_is_refused_by_name():
    def mla(size, page_size, dtype, heads, head_dim, layers, device, saver):
        return MLATokenToKVPool(size, page_size, dtype, 512, 64, layers, device, saver)

    with (
        pytest.raises(ValueError, match="cache is MLATokenToKVPool"),
        radix(Setup(device_pool=mla)),
    ):
        pass


def test_packed_drafts_and_scales_are_refused_by_the_pool():
    setup = Setup()
    with get_context().override_server_args(**setup.server_args):
        device = MHATokenToKVPool(64, 16, torch.bfloat16, 8, 128, 2, "cpu", False)
        info = device.get_device_pool_infos()[0].buffer_info
        pool_class = mha.get_mha_host_pool_cls(info)
        geometry = dict(device_capacity_tokens=64, start_layer=0, end_layer=1)
        with pytest.raises(ValueError, match="packed draft layers"):
            pool_class(info, 2.0, 0, 16, "page_first", draft_buffer_infos=(info,), **geometry)


def test_a_half_precision_cache_is_refused():
    setup = Setup()
    with get_context().override_server_args(**setup.server_args):
        device = MHATokenToKVPool(64, 16, torch.float16, 8, 128, 2, "cpu", False)
        info = device.get_device_pool_infos()[0].buffer_info
        with pytest.raises(ValueError, match=r"torch\.float16.*torch\.bfloat16"):
            mha.get_mha_host_pool_cls(info)(
                info,
                2.0,
                0,
                16,
                "page_first",
                device_capacity_tokens=64,
                start_layer=0,
                end_layer=1,
            )


def test_a_storage_backend_cannot_be_attached_to_a_running_server():
    with radix(Setup()) as r:
        assert r.cache.attach_storage_backend("file") == (False, STORAGE_ATTACH_REFUSED)
        assert not r.cache.cache_controller.enable_storage


def test_without_a_codec_sglang_is_what_it_was():
    with radix(Setup(codec="none")) as r:
        assert type(r.host) is mha.MHATokenToKVPoolHost
        assert r.host.kv_buffer.dtype == torch.bfloat16
        info = r.device.get_device_pool_infos()[0].buffer_info
        raw_selection = mha.get_mha_host_pool_cls.__wrapped__
        assert mha.get_mha_host_pool_cls(info) is raw_selection(info)
        ok, message = r.cache.attach_storage_backend("no-such-backend")
        assert not ok and message != STORAGE_ATTACH_REFUSED


def test_raw_staging_is_not_allocated_for_an_encoded_pool(monkeypatch):
    """On CUDA this is about 604 MB for Qwen3-8B; here its preparation must not be reached."""
    reached = []
    monkeypatch.setattr(mha, "_is_cuda", True)
    monkeypatch.setattr(
        mha, "can_use_write_back_jit_kernel", lambda **kwargs: reached.append(1) or False
    )
    for codec, expected in (("none", [1]), ("int8", [])):
        reached.clear()
        with get_context().override_server_args(**Setup(codec=codec).server_args):
            device = MHATokenToKVPool(64, 16, torch.bfloat16, 8, 128, 2, "cpu", False)
            info = device.get_device_pool_infos()[0].buffer_info
            kv_cache_builder = importlib.import_module("sglang.srt.mem_cache.kv_cache_builder")
            kv_cache_builder.prepare_mha_write_back_staging(info, layer_num=2, page_size=16)
        assert reached == expected
