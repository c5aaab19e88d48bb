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
    """Records whose scales were not transferred."""
    from hiqcache.staging import StagedTransfer

    backup = StagedTransfer.backup

    def without_scales(self, keys, values, device_indices, host_indices, store):
        def store_payload(hosts, rows):
            for records in self.backup_records.flatten(0, 1):
                self.codec.layout.scales(records).zero_()
            store(hosts, rows)

        backup(self, keys, values, device_indices, host_indices, store_payload)

    StagedTransfer.backup = without_scales


def coarse() -> None:
    """A codec of four bits in eight: every sixteenth level."""
    from hiqcache.codecs.int8 import Int8Codec

    encode = Int8Codec.encode

    def rounded(self, rows, records, workspace):
        encode(self, rows, records, workspace)
        payload = self.layout.payload(records)
        payload.copy_((payload.float() / 16).round().clamp(-7, 7).mul(16))

    Int8Codec.encode = rounded


def swap_pages() -> None:
    """The first two pages of a load land in each other's place."""
    from hiqcache.staging import StagedTransfer

    load = StagedTransfer.load

    def swapped(self, keys, values, device_indices, host_indices, fetch):
        page = 16
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


def shift_records() -> None:
    """Records are stored one host slot further, and fetched from there: values alone agree."""
    from hiqcache.staging import StagedTransfer

    def shifted(method):
        def wrapper(self, keys, values, device_indices, host_indices, move):
            method(self, keys, values, device_indices, host_indices + 1, move)

        return wrapper

    StagedTransfer.load = shifted(StagedTransfer.load)
    StagedTransfer.backup = shifted(StagedTransfer.backup)


FAULTS = (drop_load, zero_scales, coarse, swap_pages, swap_layers, shift_records)


def install() -> None:
    """Install the fault that ``HIQ_FAULT`` names, if any."""
    if name := os.environ.get("HIQ_FAULT"):
        {fault.__name__: fault for fault in FAULTS}[name]()


def pytest_configure() -> None:
    install()
