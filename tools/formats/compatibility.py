"""``docs/compatibility.md``: what goes with what, told by the code that decides it.

Nothing here says that a thing works or is refused. Codecs are built for each geometry, arguments
are given to the refusals of a start, and what they answer is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch

from formats.capacity import Capacity, Deployment, capacity
from formats.catalogue import built_in
from formats.models import PRESETS
from hiqcache.codecs import codec_class, make_codec
from hiqcache.codecs.base import BlockFormat
from hiqcache.geometry import KV_DTYPES, KVGeometry, PageRows
from hiqcache.refusals import (
    REFUSALS,
    STORAGE_ATTACH_REFUSED,
    refusals,
    refuse_buffers,
    refuse_cache,
    refuse_device_pool,
    refuse_server,
)
from patchstack.revisions import Revisions

#: KV heads of a rank, and values of a head.
SHAPES = (
    (8, 128), (4, 128), (2, 128), (1, 128), (8, 64), (3, 64), (1, 64), (8, 80), (8, 96), (8, 112),
    (8, 192), (8, 256),
)  # fmt: skip
PAGE_SIZES = (1, 8, 16, 32, 64, 128)
RANKS = (1, 2, 4, 8, 16)
#: What SGLang lets a user choose.
LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_first_kv_split", "page_head")
IO_BACKENDS = ("kernel", "direct", "kernel_ascend")
WRITE_POLICIES = ("write_through", "write_through_selective", "write_back")
#: Widths of a head that are tried.
_WIDEST = 512

_HEAD = """\
# What goes with what

Written by `tools/write_docs.py` from the code that decides it: codecs are built for each geometry,
and the checks of a server's start are asked. `tests/unit/test_compatibility.py` refuses a page that
does not fit the code.
"""


def compatibility_page(revisions: Revisions) -> str:
    """Return the whole of ``docs/compatibility.md``."""
    parts = [
        _HEAD, _formats(), _sizes(), _placement(), _ranks(), _refused_arguments(),
        _refused_otherwise(), _releases(revisions),
    ]  # fmt: skip
    return "\n".join(parts)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# --- formats -----------------------------------------------------------------------------------


def _formats() -> str:
    rows = []
    for name in built_in():
        codec = codec_class(name)
        tag = codec(KVGeometry(1, 8, 128)).format_tag
        parts = (codec.key_format, codec.value_format)
        dims = dict.fromkeys(head_dims(part) for part in parts)
        told = dict.fromkeys((part.__doc__ or "").splitlines()[0] for part in parts)
        rows.append([f"`{name}`", f"`{tag}`", *(_k_and_v(list(told)), _k_and_v(list(dims)))])
    dtypes = " or ".join(f"`{dtype}`" for dtype in KV_DTYPES)
    return (
        "## Formats\n\n"
        + _table(("codec", "tag at page size 1", "a block", "values of a head"), rows)
        + "\nAny number of KV heads and any page size. K and V may differ in the values of a head, "
        f"not in heads.\nThe device's KV cache is {dtypes}.\n"
    )


def _k_and_v(texts: Sequence[str]) -> str:
    """One text where K and V are alike."""
    return texts[0] if len(texts) == 1 else f"K: {texts[0]}<br>V: {texts[1]}"


def head_dims(block: type[BlockFormat]) -> str:
    """Name the widths of a head that a format serves."""
    served = [dim for dim in range(1, _WIDEST + 1) if _serves(block, dim)]
    if served == list(range(1, _WIDEST + 1)):
        return "any"
    return ", ".join(_spans(served))


def _serves(block: type[BlockFormat], dim: int) -> bool:
    try:
        block(PageRows(1, 1, dim, torch.bfloat16))
    except ValueError:
        return False
    return True


def _spans(numbers: list[int]) -> Iterator[str]:
    """Yield runs of equal steps, ``2 to 128 in steps of 2``."""
    while len(numbers) > 1:
        step = numbers[1] - numbers[0]
        count = 1 + next(
            (at for at, (a, b) in enumerate(pairwise(numbers)) if b - a != step), len(numbers) - 1
        )
        by = "" if step == 1 else f" in steps of {step}"
        yield f"{numbers[0]} to {numbers[count - 1]}{by}"
        numbers = numbers[count:]
    yield from map(str, numbers)


# --- sizes -------------------------------------------------------------------------------------


def _sizes() -> str:
    headings = ("rank", *(f"page {page}" for page in PAGE_SIZES))
    tables: dict[str, list[str]] = {}
    for name in built_in():
        rows = [
            [f"{heads} x {dim}", *(_size(name, heads, dim, page) for page in PAGE_SIZES)]
            for heads, dim in SHAPES
        ]
        tables.setdefault(_table(headings, rows), []).append(f"`{name}`")
    parts = [
        "## Ratio and padding\n\n"
        "Raw bytes to encoded bytes, by the KV heads of a rank x the values of a head (of K and V) "
        "and by the\npage size, and in percent the encoded bytes that are padding. *Refused*: the "
        "codec saves nothing\nthere, and the server does not start.\n"
    ]
    parts += [f"### {' and '.join(names)}\n\n{table}" for table, names in tables.items()]
    return "\n".join(parts)


def _size(name: str, heads: int, dim: int, page_size: int) -> str:
    geometry = KVGeometry(1, heads, dim, page_size=page_size)
    try:
        codec = make_codec(name, geometry)
    except ValueError:
        return "refused"
    ratio = geometry.bytes_per_token / codec.bytes_per_token
    padding = codec.padding_bytes / codec.unit.unit_bytes
    return f"{ratio:.3f}" + (f", {padding:.1%}" if padding else "")


# --- placement ---------------------------------------------------------------------------------


def _placement() -> str:
    rows = [
        [f"`{layout}`", *(_placed(layout, backend) for backend in IO_BACKENDS)]
        for layout in LAYOUTS
    ]
    policies = ", ".join(
        f"`{policy}` {_answer(hicache_write_policy=policy)}" for policy in WRITE_POLICIES
    )
    headings = ("`--hicache-mem-layout`", *(f"`{backend}`" for backend in IO_BACKENDS))
    return (
        "## Layouts, io backends, write policies\n\n"
        + _table(headings, rows)
        + "\nA codec is checked after SGLang has made `page_first` with `direct` into "
        "`page_first_direct`, and\n`page_first_direct` with `kernel` into `direct`. "
        f"Write policies:\n{policies}.\n"
    )


def _placed(layout: str, backend: str) -> str:
    return _answer(hicache_mem_layout=layout, hicache_io_backend=backend)


def _answer(**arguments: Any) -> str:
    return "refused" if list(refusals(SimpleNamespace(**arguments))) else "yes"


def _ranks() -> str:
    rows = [
        [str(tp), str(PRESETS["qwen3-8b"].rank_kv_heads(tp)), *_held(tp)] for tp in RANKS
    ]  # fmt: skip
    headings = ["TP", "KV heads of a rank", *(f"`{name}`" for name in built_in())]
    return (
        "## Tensor parallelism\n\n"
        "A rank has `max(1, KV heads // TP)` KV heads, and its own host pool with the budget of "
        "`--hicache-size`.\nBytes of a token on one rank of Qwen3-8B (8 KV heads x 128) at page "
        "sizes 1 and 64:\n\n" + _table(headings, rows)
    )


def _held(tp: int) -> Iterator[str]:
    """Yield what a token takes with each codec, at two page sizes."""
    for name in built_in():
        pages = (Deployment("qwen3-8b", PRESETS["qwen3-8b"], tp, page) for page in (1, 64))
        found = (capacity(served, name, []) for served in pages)
        yield " / ".join(
            f"{one.bytes_per_token_rank:,}" if isinstance(one, Capacity) else "refused"
            for one in found
        )


# --- what is refused ---------------------------------------------------------------------------


def _refused_arguments() -> str:
    rows = [[f"`--{r.field.replace('_', '-')}`", r.reason] for r in REFUSALS]
    return (
        "## Server arguments that are refused\n\n"
        "The last line of what SGLang prints is `--hicache-l2-codec CODEC`, and\n\n"
        + _table(("argument", "message"), rows)
    )


def _refused_otherwise() -> str:
    rows = [[what, said(action)] for what, action in _other_refusals()]
    rows.append(["a storage backend attached to a running server", STORAGE_ATTACH_REFUSED])
    return "## What else is refused\n\n" + _table(("what", "message, for example"), rows)


def said(action: Callable[[], object]) -> str:
    """Return what ``action`` is refused with."""
    try:
        action()
    except ValueError as error:
        return str(error)
    raise AssertionError("what the page calls refused was accepted")


def _named(name: str) -> Any:
    """Return an object of a class of SGLang's name."""
    return type(name, (), {})()


def _other_refusals() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is refused when the server starts, beside its arguments."""
    plain = _named("MHATokenToKVPool")
    rows = [torch.empty(1, 8, 128, device="meta")]
    fewer = [torch.empty(1, 4, 128, device="meta")]
    yield "an unknown codec", lambda: refuse_server("int7", SimpleNamespace())
    yield (
        "MLA, hybrid, sliding-window and other KV caches",
        lambda: refuse_device_pool("int8", _named("MLATokenToKVPool"), type(plain)),
    )
    yield (
        "a cache with other host pools",
        lambda: refuse_cache("int8", _named("RadixCache"), type(plain)),
    )
    yield "a stage without layers", lambda: refuse_buffers("int8", [], [], "nhd", None, ())
    yield "draft layers", lambda: refuse_buffers("int8", rows, rows, "nhd", None, (plain,))
    yield "a quantised KV cache", lambda: refuse_buffers("int8", rows, rows, "nhd", rows, ())
    yield "another device layout", lambda: refuse_buffers("int8", rows, rows, "hnd", None, ())
    yield (
        "layers that differ",
        lambda: refuse_buffers("int8", rows + fewer, rows + fewer, "nhd", None, ()),
    )
    yield "K and V of other heads", lambda: refuse_buffers("int8", rows, fewer, "nhd", None, ())
    yield "another type", lambda: KVGeometry(36, 8, 128, dtype=torch.float32)
    yield "a rank that padding leaves no gain", lambda: make_codec("int8", KVGeometry(36, 1, 128))
    yield "a head too wide to rotate", lambda: make_codec("int8-hadamard", KVGeometry(36, 8, 512))
    yield "a head without equal groups", lambda: make_codec("int4", KVGeometry(36, 8, 130))


# --- releases ----------------------------------------------------------------------------------


def _releases(revisions: Revisions) -> str:
    rows = [
        [
            f"`{r.name}`{' (pin)' if r.name == revisions.pin else ''}",
            f"`{r.patched_version}`",
            r.note,
        ]
        for r in reversed(revisions.in_order)
    ]
    rows += [[f"`{name}`", "refused", why] for name, why in revisions.refused]
    return "## SGLang releases\n\n" + _table(("release", "patched version", "note"), rows)
