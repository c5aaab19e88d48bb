"""Import hooks that let SGLang's modules import on a machine without a GPU.

The ``.pth`` file beside this package calls :func:`install_hooks` at every start of the
interpreter, so SGLang's own processes get the hooks too. Nothing heavy is imported here: an
interpreter that never touches torch pays two small modules.
"""

import sys

from .inert_triton import InertTritonFinder
from .torchvision_ops import TorchvisionOpsFinder

__all__ = ["install_hooks"]


def install_hooks() -> None:
    """Install both finders on ``sys.meta_path``; a second call changes nothing."""
    if not any(isinstance(finder, TorchvisionOpsFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, TorchvisionOpsFinder())
    if not any(isinstance(finder, InertTritonFinder) for finder in sys.meta_path):
        # Last, so that it is asked only when no real triton was found.
        sys.meta_path.append(InertTritonFinder())
