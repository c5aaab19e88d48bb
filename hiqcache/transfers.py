"""From a device pool's buffers to the transfer that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hiqcache.codecs import make_codec
from hiqcache.geometry import KVGeometry
from hiqcache.refusals import refuse_buffers
from hiqcache.staging import StagedTransfer


def staged_transfer(
    codec: str,
    page_size: int,
    config: Any,
    keys: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    layout: Any,
    scales: Any,
    drafts: Sequence[Any],
) -> StagedTransfer:
    """Build a codec's transfer for a device pool, with its buffers on the pool's device.

    Parameters
    ----------
    codec : str
        Value of ``--hicache-l2-codec``.
    page_size : int
        Tokens per page.
    config
        SGLang's server arguments, which say whether metrics are exported.
    keys, values, layout, scales, drafts
        As in :func:`~hiqcache.refusals.refuse_buffers`.

    Raises
    ------
    ValueError
        For buffers that are no plain rows, or a geometry that the codec does not serve.
    """
    refuse_buffers(codec, keys, values, layout, scales, drafts)
    heads, head_dim = keys[0].shape[1:]
    v_head_dim = values[0].shape[-1]
    dtype = keys[0].dtype
    geometry = KVGeometry(len(keys), heads, head_dim, v_head_dim, page_size, dtype)
    made, device = make_codec(codec, geometry), keys[0].device
    if not config.enable_metrics:
        return StagedTransfer(made, device)
    from hiqcache.metrics import MeasuredTransfer  # needs prometheus_client, as SGLang's do

    return MeasuredTransfer(made, device, config.served_model_name or config.model_path)
