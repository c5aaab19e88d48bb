"""Faults in the shipped code path, for negative controls: a pytest plugin and an SGLang plugin.

``HIQ_FAULT`` names one. Each replaces a step that a correct restore needs; a test that still
passes proves nothing.
"""

from __future__ import annotations

import os

import torch


def drop_load() -> None:
    """A load that leaves the device slots as they were."""
    from hiqcache.staging import StagedTransfer

    StagedTransfer.load = lambda self, *args, **kwargs: None


def zero_scales() -> None:
    """Units whose scales were not transferred."""
    from hiqcache.codecs.int8 import Int8Block

    encode = Int8Block.encode

    def without_scales(self, rows, blocks, workspace):
        encode(self, rows, blocks, workspace)
        self.scales(blocks).zero_()

    # What the tests compare with is the library's own; only SGLang's transfers are to lose them.
    _in_transfers(Int8Block, "encode", without_scales)


def coarse() -> None:
    """A codec of four bits in eight: every sixteenth level."""
    from hiqcache.codecs.int8 import Int8Block

    encode = Int8Block.encode

    def rounded(self, rows, blocks, workspace):
        encode(self, rows, blocks, workspace)
        payload = self.payload(blocks)
        payload.copy_((payload.float() / 16).round().clamp(-7, 7).mul(16))

    _in_transfers(Int8Block, "encode", rounded)


def _in_transfers(owner: type, name: str, faulty) -> None:
    """Replace a method for the time of a backup."""
    from hiqcache.staging import StagedTransfer

    backup, correct = StagedTransfer.backup, getattr(owner, name)

    def with_fault(self, *args):
        setattr(owner, name, faulty)
        try:
            backup(self, *args)
        finally:
            setattr(owner, name, correct)

    StagedTransfer.backup = with_fault


def swap_pages() -> None:
    """The first two pages of a load land in each other's place."""
    from hiqcache.staging import StagedTransfer

    load = StagedTransfer.load

    def swapped(self, keys, values, device_indices, host_indices, fetch):
        page = self.codec.geometry.page_size
        order = torch.arange(len(host_indices))
        if len(order) >= 2 * page:
            order[: 2 * page] = order[: 2 * page].roll(page)
        load(self, keys, values, device_indices, host_indices[order], fetch)

    StagedTransfer.load = swapped


def swap_layers() -> None:
    """The layers of a backup are stored in reverse."""
    from hiqcache.staging import StagedTransfer

    backup = StagedTransfer.backup

    def reversed_layers(self, keys, values, *args, **kwargs):
        backup(self, keys[::-1], values[::-1], *args, **kwargs)

    StagedTransfer.backup = reversed_layers


def shift_units() -> None:
    """Units are stored one host page further, and fetched from there: values alone agree."""
    from hiqcache.staging import StagedTransfer

    def shifted(method):
        def wrapper(self, keys, values, device_indices, host_indices, move):
            method(
                self,
                keys,
                values,
                device_indices,
                host_indices + self.codec.geometry.page_size,
                move,
            )

        return wrapper

    StagedTransfer.load = shifted(StagedTransfer.load)
    StagedTransfer.backup = shifted(StagedTransfer.backup)


FAULTS = (drop_load, zero_scales, coarse, swap_pages, swap_layers, shift_units)


def install() -> None:
    """Install the fault that ``HIQ_FAULT`` names, if any."""
    if name := os.environ.get("HIQ_FAULT"):
        {fault.__name__: fault for fault in FAULTS}[name]()


def pytest_configure() -> None:
    install()
