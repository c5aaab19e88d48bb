"""Every combination that an encoded L2 is refused in, one at a time, and the accepted ones."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hiqcache.refusals import (
    REFUSALS,
    STORAGE_ATTACH_REFUSED,
    Refusal,
    refusals,
    refuse_buffers,
    refuse_cache,
    refuse_device_pool,
    refuse_server,
)

#: SGLang's resolved arguments of a server that a codec can serve: HiCache on, the rest defaults.
ACCEPTED: dict[str, Any] = {
    "enable_hierarchical_cache": True,
    "disable_radix_cache": False,
    "radix_cache_backend": None,
    "enable_lmcache": False,
    "enable_flexkv": False,
    "hicache_storage_backend": None,
    "disaggregation_decode_host_receive_threshold": 1.0,
    "disaggregation_decode_retraction_backup": None,
    "disaggregation_decode_enable_offload_kvcache": False,
    "disaggregation_mode": "null",
    "enable_pd_role_switch": False,
    "enable_hisparse": False,
    "dcp_size": 1,
    "enable_unified_memory": False,
    "enable_kv_cache_sharding": False,
    "kv_cache_dtype": "auto",
    "speculative_algorithm": None,
    "hicache_io_backend": "kernel",
    "hicache_mem_layout": "page_first",
}

#: Values that are refused, by argument.
REFUSED: dict[str, list[Any]] = {
    "enable_hierarchical_cache": [False],
    "disable_radix_cache": [True],
    "radix_cache_backend": ["mine"],
    "enable_lmcache": [True],
    "enable_flexkv": [True],
    "hicache_storage_backend": ["file", "mooncake", "dynamic"],
    "disaggregation_decode_host_receive_threshold": [0.001, 0.5, 0.999],
    "disaggregation_decode_retraction_backup": ["host_pool"],
    "disaggregation_decode_enable_offload_kvcache": [True],
    "disaggregation_mode": ["decode"],
    "enable_pd_role_switch": [True],
    "enable_hisparse": [True],
    "dcp_size": [2, 8],
    "enable_unified_memory": [True],
    "enable_kv_cache_sharding": [True],
    "kv_cache_dtype": ["fp8_e4m3", "fp8_e5m2", "mxfp8", "nvfp4", "fp4_mx_block16"],
    "speculative_algorithm": ["EAGLE", "NGRAM"],
    "hicache_io_backend": ["kernel_ascend"],
    "hicache_mem_layout": ["page_first_kv_split", "page_head"],
}

#: Other values that are accepted.
ALSO_ACCEPTED: dict[str, list[Any]] = {
    "disaggregation_decode_retraction_backup": ["cpu_tensor", "none"],
    "disaggregation_mode": ["prefill"],
    "kv_cache_dtype": ["bf16", "bfloat16"],
    "hicache_io_backend": ["direct"],
    "hicache_mem_layout": ["layer_first", "page_first_direct"],
}


def flatten(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(field, value) for field, values in table.items() for value in values]


def server(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**ACCEPTED, **changes})


def test_the_tables_here_know_every_refusal() -> None:
    fields = [refusal.field for refusal in REFUSALS]
    assert len(set(fields)) == len(fields)
    assert set(fields) == set(ACCEPTED) == set(REFUSED)


def test_a_plain_hicache_server_is_accepted() -> None:
    assert list(refusals(server())) == []
    refuse_server("int8", server())


@pytest.mark.parametrize(("field", "value"), flatten(ALSO_ACCEPTED))
def test_other_accepted_values(field: str, value: Any) -> None:
    refuse_server("int8", server(**{field: value}))


@pytest.mark.parametrize(("field", "value"), flatten(REFUSED))
def test_each_refusal_alone_is_one_line_that_names_the_argument(field: str, value: Any) -> None:
    config = server(**{field: value})
    assert len(list(refusals(config))) == 1
    with pytest.raises(ValueError, match=r"^--hicache-l2-codec int8 ") as raised:
        refuse_server("int8", config)
    message = str(raised.value)
    assert "--" + field.replace("_", "-") in message
    assert "\n" not in message


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.field)
def test_an_argument_that_a_release_does_not_have_cannot_be_set(refusal: Refusal) -> None:
    config = server(**{refusal.field: REFUSED[refusal.field][0]})
    assert list(refusals(config)) == [refusal.reason]
    delattr(config, refusal.field)
    assert list(refusals(config)) == []


@pytest.mark.parametrize("codec", ["int7", "raw", "none", "INT8", ""])
def test_an_unknown_codec_is_one_line_that_lists_the_known_ones(codec: str) -> None:
    with pytest.raises(ValueError, match=r"is unknown; choose none, int8, .*, int4$") as raised:
        refuse_server(codec, server())
    assert str(raised.value).startswith(f"--hicache-l2-codec {codec} ")


def test_a_server_of_no_known_argument_is_accepted() -> None:
    refuse_server("int8", SimpleNamespace())


def test_all_reasons_are_found_and_the_first_is_raised() -> None:
    config = SimpleNamespace(**{field: values[0] for field, values in REFUSED.items()})
    assert list(refusals(config)) == [refusal.reason for refusal in REFUSALS]
    with pytest.raises(ValueError, match="has nothing to encode without HiCache"):
        refuse_server("int8", config)


def test_attaching_storage_names_the_way_out() -> None:
    assert "--hicache-l2-codec none" in STORAGE_ATTACH_REFUSED
    assert "\n" not in STORAGE_ATTACH_REFUSED


# --- the device pool ---------------------------------------------------------------------------


class PlainPool:
    pass


class WrappedPool(PlainPool):
    pass


class LatentPool:
    pass


def test_the_plain_pool_is_accepted() -> None:
    refuse_device_pool("int8", PlainPool(), PlainPool)


@pytest.mark.parametrize("pool", [WrappedPool(), LatentPool(), None])
def test_any_other_pool_is_refused_by_name(pool: object) -> None:
    with pytest.raises(
        ValueError, match=r"^--hicache-l2-codec int8 encodes PlainPool only"
    ) as raised:
        refuse_device_pool("int8", pool, PlainPool)
    assert type(pool).__name__ in str(raised.value)
    assert str(raised.value).endswith("serve it with --hicache-l2-codec none")


# --- the cache ---------------------------------------------------------------------------------


class EncodedPool:
    pass


def cache_of(*pools: object) -> SimpleNamespace:
    entries = [SimpleNamespace(host_pool=pool) for pool in pools]
    return SimpleNamespace(host_pool_group=SimpleNamespace(entries=entries))


def test_a_cache_whose_host_pools_are_all_encoded_is_accepted() -> None:
    refuse_cache("int8", cache_of(EncodedPool()), EncodedPool)
    refuse_cache("int8", cache_of(EncodedPool(), EncodedPool()), EncodedPool)


@pytest.mark.parametrize(
    ("cache", "kept"),
    [
        (SimpleNamespace(), "no host pool"),
        (SimpleNamespace(host_pool_group=None), "no host pool"),
        (cache_of(), "no host pool"),
        (cache_of(PlainPool()), "PlainPool"),
        (cache_of(EncodedPool(), PlainPool()), "EncodedPool, PlainPool"),
    ],
)
def test_another_cache_is_refused_by_what_it_keeps(cache: SimpleNamespace, kept: str) -> None:
    message = f"SGLang chose, SimpleNamespace with {kept}; serve with --hicache-l2-codec none$"
    with pytest.raises(ValueError, match=message):
        refuse_cache("int8", cache, EncodedPool)


# --- the device buffers ------------------------------------------------------------------------


def buffers(
    key_shape: tuple[int, ...] = (32, 8, 128),
    value_shape: tuple[int, ...] = (32, 8, 128),
    layout: Any = "nhd",
) -> SimpleNamespace:
    return SimpleNamespace(
        k=[torch.empty(key_shape, device="meta")] * 2,
        v=[torch.empty(value_shape, device="meta")] * 2,
        layout=layout,
    )


def refuse(codec: str, kv: Any, scales: Any, drafts: Any) -> None:
    refuse_buffers(codec, kv.k, kv.v, kv.layout, scales, drafts)


def test_plain_rows_are_accepted() -> None:
    refuse("int8", buffers(), None, [])
    refuse("int8", buffers(layout=SimpleNamespace(value="nhd")), None, ())
    refuse("int8", buffers(value_shape=(32, 8, 64)), None, ())


@pytest.mark.parametrize(
    ("case", "thing"),
    [
        ((buffers(), None, [object()]), "packed draft layers"),
        ((buffers(), torch.empty(0), []), "a quantised KV cache"),
        ((buffers(layout="hnd"), None, []), "the device layout 'hnd'"),
        (
            (buffers(layout=SimpleNamespace(value="page_major")), None, []),
            "the device layout 'page_major'",
        ),
        (
            (buffers(value_shape=(32, 4, 128)), None, []),
            r"K and V of different heads \(\[\(8, 128\), \(4, 128\)\]\)",
        ),
        ((buffers((32, 1024), (32, 1024)), None, []), r"device rows of shape \[\(1024,\)\]"),
        ((buffers((4, 8, 8, 128), (4, 8, 8, 128)), None, []), "device rows of shape"),
    ],
)
def test_other_buffers_are_refused_by_what_they_are(case: tuple[Any, Any, Any], thing: str) -> None:
    with pytest.raises(
        ValueError, match=f"^--hicache-l2-codec int8 does not encode {thing}"
    ) as raised:
        refuse("int8", *case)
    assert str(raised.value).endswith("; serve with --hicache-l2-codec none")
    assert "\n" not in str(raised.value)


def test_a_stage_without_layers_is_refused() -> None:
    empty = SimpleNamespace(k=[], v=[], layout="nhd")
    with pytest.raises(ValueError, match="does not encode a stage without KV layers"):
        refuse("int8", empty, None, [])


def test_layers_that_differ_are_refused() -> None:
    mixed = buffers()
    mixed.k[1] = torch.empty((32, 8, 64), device="meta")
    with pytest.raises(ValueError, match="layers of different shapes"):
        refuse("int8", mixed, None, [])
