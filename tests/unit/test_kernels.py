"""Which path between KV slots and blocks is chosen."""

from __future__ import annotations

import pytest
import torch

from hiqcache import kernels
from hiqcache.codecs.int8 import Int8Block
from hiqcache.geometry import PageRows
from hiqcache.kernels import UnavailableError, slot_path_class
from hiqcache.slots import SlotPath, TorchSlots

CPU = torch.device("cpu")
BLOCK = Int8Block(PageRows(16, 2, 64, torch.bfloat16))


class Fast(TorchSlots):
    """Stands for a kernel."""

    name = "fast"


def _fast(form: object, device: torch.device) -> type[SlotPath]:
    return Fast


def _absent(form: object, device: torch.device) -> type[SlotPath]:
    raise UnavailableError("there is no compiler")


@pytest.fixture
def finders(monkeypatch: pytest.MonkeyPatch) -> dict[str, kernels.Finder]:
    """Two paths before torch's."""
    monkeypatch.delenv("HIQCACHE_KERNELS", raising=False)
    found = {"absent": _absent, "fast": _fast, **kernels._FINDERS}
    monkeypatch.setattr(kernels, "_FINDERS", found)
    return found


def test_the_first_that_can_be_had_is_chosen(finders: dict[str, kernels.Finder]) -> None:
    assert slot_path_class(BLOCK, CPU) is Fast
    del finders["fast"]
    assert slot_path_class(BLOCK, CPU) is not Fast


@pytest.mark.usefixtures("finders")
def test_a_path_is_forced_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIQCACHE_KERNELS", "torch")
    assert slot_path_class(BLOCK, CPU) is TorchSlots


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "HIQCACHE_KERNELS=absent cannot be had: there is no compiler; unset it"),
        ("fats", "HIQCACHE_KERNELS=fats is unknown; choose from absent, fast, "),
    ],
)
@pytest.mark.usefixtures("finders")
def test_a_name_that_cannot_be_had_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setenv("HIQCACHE_KERNELS", name)
    with pytest.raises(ValueError, match="^" + message):
        slot_path_class(BLOCK, CPU)


def test_torch_serves_what_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIQCACHE_KERNELS", raising=False)
    monkeypatch.setattr(kernels, "_FINDERS", {"absent": _absent, "torch": lambda *_: TorchSlots})
    assert slot_path_class(BLOCK, CPU) is TorchSlots
    monkeypatch.setattr(kernels, "_FINDERS", {"absent": _absent})
    with pytest.raises(AssertionError):
        slot_path_class(BLOCK, CPU)
