"""An inert ``triton`` for environments that do not have the real one.

SGLang's modules define several hundred Triton kernels when they are imported, whatever the
device, and launch none of them on a CPU. Real triton is about 1 GB, so this finder answers
``import triton...`` with modules on which a kernel can be defined but not run. (SGLang does the
same for itself on Apple machines.) It sits last on ``sys.meta_path``: a real triton wins.
"""

import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any, NoReturn

# The least that SGLang's modules accept without a warning at import.
_VERSION = "3.2.0"


class InertKernel:
    """A kernel that was defined and cannot be launched.

    Parameters
    ----------
    fn
        The decorated function, kept because SGLang reads its signature.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        functools.update_wrapper(self, fn)

    def _refuse(self) -> NoReturn:
        raise RuntimeError(
            f"Triton kernel {self.fn.__qualname__} was launched, but this environment has no "
            "triton (hiqcache-cpu-runtime stands in for it)"
        )

    def __getitem__(self, grid: object) -> NoReturn:
        self._refuse()

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        self._refuse()


class InertConstant:
    """``tl.constexpr``: SGLang reads ``value`` back when it derives one constant from another."""

    def __init__(self, value: Any) -> None:
        self.value = value


class InertObject:
    """What any other class of triton is: it can be built, subclassed and subscripted."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __class_getitem__(cls, item: object) -> type["InertObject"]:
        return cls


class InertModule(ModuleType):
    """A module that has every attribute: a capitalised name is a class, any other a module.

    Called, it is a decorator, with arguments or without (``@triton.jit``,
    ``@triton.autotune(configs=..., key=...)``). It also reads as an empty container, which is
    what ``"cpu" in triton.backends.backends`` must find.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name[:1].isupper():
            value: Any = type(name, (InertObject,), {"__module__": self.__name__})
        else:
            value = importlib.import_module(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]):
            return _decorated(args[0])
        return _decorated

    def __contains__(self, item: object) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def _decorated(target: Any) -> Any:
    """Stop a function from being run as a kernel; leave classes and stacked decorators alone."""
    return InertKernel(target) if isinstance(target, FunctionType) else target


def _cdiv(x: int, y: int) -> int:
    return -(x // -y)


def _next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length() if n > 0 else 1


def _unchanged(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


# What must not be inert: plain arithmetic used outside kernels, values that are compared, classes
# that are tested with isinstance or caught.
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "triton": {
        "__version__": _VERSION,
        "JITFunction": InertKernel,
        "cdiv": _cdiv,
        "next_power_of_2": _next_power_of_2,
    },
    "triton.language": {"constexpr": InertConstant},
    "triton.runtime.jit": {"JITFunction": InertKernel, "constexpr_function": _unchanged},
    "triton.runtime.autotuner": {
        "OutOfResources": type("OutOfResources", (Exception,), {}),
        "PTXASError": type("PTXASError", (Exception,), {}),
    },
}


class InertTritonFinder(MetaPathFinder, Loader):
    """Finds ``triton`` and everything below it, as inert modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent = fullname.rpartition(".")[0]
        # A submodule that a real triton does not have stays missing.
        if fullname == "triton" or isinstance(sys.modules.get(parent), InertModule):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> InertModule:
        return InertModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(_ATTRIBUTES.get(module.__name__, {}))
