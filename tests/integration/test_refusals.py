"""What a codec is refused with, on SGLang's own server arguments, pools and controller."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from packaging.version import Version
from sglang.srt.arg_groups import hicache_hook
from sglang.srt.arg_groups.overrides import resolving_view
from sglang.srt.mem_cache import kv_cache_builder, registry
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.mem_cache.pool_host import l2_codec, mha, mha_encoded
from sglang.srt.runtime_context import get_context
from sglang.srt.server_args import ServerArgs
from sglang.version import __version__

from hiqcache.refusals import REFUSALS, STORAGE_ATTACH_REFUSED
from hiqcache.staging import StagedTransfer

from .radix import DEVICE, Setup, radix
from .releases import build_host_pool, host_pool_input

ACCEPTED = dict(
    model_path=str(Path(__file__).parent / "llama"),
    device=DEVICE,
    enable_hierarchical_cache=True,
    hicache_l2_codec="int8",
)

#: One refused value for each argument in the table, as a user would pass it.
REFUSED = {
    "enable_hierarchical_cache": False,
    "disable_radix_cache": True,
    "radix_cache_backend": "mine",
    "enable_lmcache": True,
    "enable_flexkv": True,
    "hicache_storage_backend": "file",
    "disaggregation_decode_host_receive_threshold": 0.5,
    "disaggregation_decode_retraction_backup": "host_pool",
    "disaggregation_decode_enable_offload_kvcache": True,
    "disaggregation_mode": "decode",
    "enable_pd_role_switch": True,
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


#: Arguments that the older supported releases do not have yet.
SINCE = {
    "disaggregation_decode_host_receive_threshold": Version("0.5.21"),
    "enable_pd_role_switch": Version("0.5.21"),
    "enable_kv_cache_sharding": Version("0.5.22"),
}
NEWER = {field for field, since in SINCE.items() if Version(__version__) < since}


def test_the_table_speaks_of_arguments_that_this_release_has():
    fields = {r.field for r in REFUSALS}
    assert fields == set(REFUSED)
    assert fields - set(ServerArgs.__struct_fields__) == NEWER


def test_an_accepted_configuration_resolves():
    assert resolving_view(resolve()).hicache_l2_codec == "int8"


@pytest.mark.parametrize("field", REFUSED.keys() - NEWER)
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


@pytest.mark.parametrize(
    ("value", "flag", "codec"),
    [("1", None, "int8"), ("0", None, None), ("1", "none", "none"), ("1", "int8", "int8")],
)
def test_the_environment_stands_for_a_flag_that_is_not_given(monkeypatch, value, flag, codec):
    monkeypatch.setenv("SGLANG_EXPERIMENTAL_HICACHE_INT8", value)
    assert resolving_view(resolve(hicache_l2_codec=flag)).hicache_l2_codec == codec


def test_the_alias_is_checked_like_the_flag(monkeypatch):
    monkeypatch.setenv("SGLANG_EXPERIMENTAL_HICACHE_INT8", "1")
    with pytest.raises(ValueError, match="drop --hicache-storage-backend"):
        resolve(hicache_l2_codec=None, hicache_storage_backend="file")


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
    def mla(size, page_size, dtype, heads, head_dim, layers, device, saver, **widths):
        return MLATokenToKVPool(size, page_size, dtype, 512, 64, layers, device, saver)

    with (
        pytest.raises(ValueError, match="cache is MLATokenToKVPool"),
        radix(Setup(device_pool=mla)),
    ):
        pass


def device_pool(dtype: torch.dtype = torch.bfloat16) -> MHATokenToKVPool:
    return MHATokenToKVPool(64, 16, dtype, 8, 128, 2, DEVICE, False)


def test_packed_drafts_are_refused_by_the_pool():
    with get_context().override_server_args(**Setup().server_args):
        device = device_pool()
        with pytest.raises(ValueError, match="packed draft layers"):
            build_host_pool(device, drafts=(device,))


def test_a_quantised_cache_is_refused():
    with (
        get_context().override_server_args(**Setup().server_args),
        pytest.raises(ValueError, match=r"is torch\.uint8; HiQCache encodes torch\.bfloat16 and"),
    ):
        build_host_pool(device_pool(torch.float8_e5m2))


def test_a_storage_backend_cannot_be_attached_to_a_running_server():
    with radix(Setup()) as r:
        assert r.cache.attach_storage_backend("file") == (False, STORAGE_ATTACH_REFUSED)
        assert not r.cache.cache_controller.enable_storage


def test_a_cache_that_keeps_its_host_copies_another_way_is_refused():
    """SGLang chooses its cache by more than its arguments; the one it chose is looked at."""
    with radix(Setup()) as r:
        assert mha_encoded.create_tree_cache(lambda: r.cache) is r.cache
    with (
        get_context().override_server_args(**Setup().server_args),
        pytest.raises(ValueError, match=r"has no effect .* SimpleNamespace with no host pool"),
    ):
        mha_encoded.create_tree_cache(SimpleNamespace)
    with radix(Setup(codec="none")) as r:
        raw = r.cache

        def create_tree_cache():
            return raw

        assert l2_codec.unless_encoded(create_tree_cache)() is raw
    with (
        get_context().override_server_args(**Setup().server_args),
        pytest.raises(ValueError, match="UnifiedRadixCache with MHATokenToKVPoolHost"),
    ):
        l2_codec.unless_encoded(create_tree_cache)()


def test_servers_build_their_cache_through_the_check():
    assert kv_cache_builder.create_tree_cache.__wrapped__.__name__ == "create_tree_cache"
    assert kv_cache_builder.create_tree_cache is registry.create_tree_cache


@pytest.mark.parametrize("codec", ["none", None])
def test_without_a_codec_sglang_is_what_it_was(codec):
    with radix(Setup(codec=codec)) as r:
        assert type(r.host) is mha.MHATokenToKVPoolHost
        assert r.host.kv_buffer.dtype == torch.bfloat16
        kv = host_pool_input(r.device)
        raw_selection = mha.get_mha_host_pool_cls.__wrapped__
        assert mha.get_mha_host_pool_cls(kv) is raw_selection(kv)
        ok, message = r.cache.attach_storage_backend("no-such-backend")
        assert not ok and message != STORAGE_ATTACH_REFUSED


@pytest.mark.parametrize(("codec", "staged"), [("none", True), ("int8", False)])
def test_raw_staging_is_not_allocated_for_an_encoded_pool(monkeypatch, codec, staged):
    """On CUDA it is about 604 MB for Qwen3-8B; here its preparation must not be reached."""
    reached = []
    with get_context().override_server_args(**Setup(codec=codec).server_args):
        device = device_pool()
        monkeypatch.setattr(mha, "_is_cuda", True)
        monkeypatch.setattr(mha, "can_use_hicache_jit_kernel", lambda **kwargs: False)
        monkeypatch.setattr(
            mha, "can_use_write_back_jit_kernel", lambda **kwargs: reached.append(kwargs) or False
        )
        prepare_staging(device)
        if codec != "none" or not hasattr(kv_cache_builder, "prepare_hicache_staging"):  # 0.5.20
            build_host_pool(device)
    assert bool(reached) is staged


@pytest.mark.skipif(
    not hasattr(kv_cache_builder, "prepare_hicache_staging"),
    reason="0.5.20 prepares nothing before it sizes the KV cache",
)
@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
def test_staging_is_reserved_where_sglang_reserves_its_own(layout):
    with get_context().override_server_args(**Setup(layout=layout).server_args):
        device = device_pool()
        assert device.hicache_write_back_staging is None
        prepare_staging(device)
        reserved = device.hicache_write_back_staging
        assert isinstance(reserved, StagedTransfer)
        assert build_host_pool(device)._staged is reserved
        assert build_host_pool(device_pool())._staged is not reserved


def prepare_staging(device: MHATokenToKVPool) -> None:
    """What the scheduler does before it sizes the KV cache; nothing before 0.5.21."""
    runner = SimpleNamespace(token_to_kv_pool=device, mtp_draft_device_pools=())
    if hasattr(kv_cache_builder, "prepare_hicache_staging"):
        kv_cache_builder.prepare_hicache_staging(tp_worker=SimpleNamespace(model_runner=runner))
