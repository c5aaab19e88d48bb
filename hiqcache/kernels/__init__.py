"""What fuses a format's path between KV slots and blocks, and the choice of it.

The choice is made once, when a transfer is built, by the device and by what is installed. The
variable ``HIQCACHE_KERNELS`` forces one by its name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import torch

from hiqcache.codecs.base import BlockFormat
from hiqcache.slots import SlotPath, TorchSlots

logger = logging.getLogger(__name__)

VARIABLE = "HIQCACHE_KERNELS"


class UnavailableError(Exception):
    """Why a path cannot be had here."""


Finder = Callable[[BlockFormat, torch.device], type[SlotPath]]

#: By name, in the order of preference. A finder may raise :class:`UnavailableError`.
_FINDERS: dict[str, Finder] = {
    TorchSlots.name: lambda form, device: TorchSlots,
}


def slot_path_class(form: BlockFormat, device: torch.device) -> type[SlotPath]:
    """Return the fastest path that serves this format on this device.

    Raises
    ------
    ValueError
        If ``HIQCACHE_KERNELS`` names one that is unknown, or that cannot be had.
    """
    if wanted := os.environ.get(VARIABLE):
        return _forced(wanted, form, device)
    for name, find in _FINDERS.items():
        try:
            return find(form, device)
        except UnavailableError as reason:
            logger.debug("no %s kernels: %s", name, reason)
    raise AssertionError("the torch path serves every format")


def _forced(wanted: str, form: BlockFormat, device: torch.device) -> type[SlotPath]:
    if wanted not in _FINDERS:
        known = ", ".join(_FINDERS)
        raise ValueError(f"{VARIABLE}={wanted} is unknown; choose from {known}, or unset it")
    try:
        return _FINDERS[wanted](form, device)
    except UnavailableError as reason:
        raise ValueError(f"{VARIABLE}={wanted} cannot be had: {reason}; unset it") from reason
