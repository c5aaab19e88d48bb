"""Operations that SGLang imports but that this stand-in does not have."""

from collections.abc import Callable
from typing import NoReturn


def missing(name: str) -> Callable[..., NoReturn]:
    """Return a function that refuses to run and names the operation."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name}: hiqcache-cpu-runtime does not have it")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse
