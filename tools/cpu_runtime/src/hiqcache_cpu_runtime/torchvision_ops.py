"""Define the operators that torchvision's own registrations insist on.

The torchvision wheel is built against CUDA torch, so its compiled library does not load beside
CPU torch and its operators are never defined. ``torchvision._meta_registrations`` then fails:
``operator torchvision::nms does not exist``. SGLang needs torchvision's transforms only, so a
schema without a kernel is enough.
"""

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# torchvision has tried its compiled library just before it imports this module.
_REGISTRATIONS = "torchvision._meta_registrations"

_OPERATORS = ("nms", "qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

# torch drops the definitions when the library object goes away.
_libraries: list[Any] = []


class TorchvisionOpsFinder(MetaPathFinder):
    """Finds nothing; defines the missing operators when torchvision is about to need them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _REGISTRATIONS:
            define_missing_operators()
        return None


def define_missing_operators() -> None:
    """Define each operator that torchvision's compiled library did not."""
    import torch

    missing = [name for name in _OPERATORS if not hasattr(torch.ops.torchvision, name)]
    if not missing:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in missing:
        library.define(name + _SCHEMA)
    _libraries.append(library)
