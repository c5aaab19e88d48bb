"""A stand-in for a CUDA stream, on a machine that has none.

On CUDA a call returns when its work is enqueued; the work runs later, in order within its stream
and interleaved in any way with another stream. Under :class:`RecordingStream` the same happens to
the same code: each tensor operation that writes is recorded as it is dispatched and executed when
a test says so, one at a time.

What cannot be enqueued is refused as it is called, because on CUDA it would stop the host or
allocate: an operation that returns a value to Python (``item``), whose result's shape depends on
values (``nonzero``), or that makes a new tensor. Views make none, and are taken at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class NotEnqueuedError(AssertionError):
    """An operation that would allocate or wait for values."""


def takes_a_view(operation: Any) -> bool:
    """Whether the operation only describes memory that is there."""
    returns = operation._schema.returns
    aliases = [returned.alias_info for returned in returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


def writes_in_place(operation: Any) -> bool:
    """Whether the operation writes into an argument: ``copy_``, ``amax(out=)``."""
    return bool(operation._schema.is_mutable)


class HotPath(TorchDispatchMode):
    """Execute operations at once, and refuse those that a hot path must not have."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if takes_a_view(func):
            return func(*args, **kwargs)
        if not writes_in_place(func):
            raise NotEnqueuedError(f"{func} allocates or synchronises")
        self.writes.append(str(func))
        return func(*args, **kwargs)


class RecordingStream(TorchDispatchMode):
    """Record operations while active, to be executed afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.work: list[Callable[[], Any]] = []

    def launch(self, kernel: Callable[[], Any]) -> None:
        """Enqueue something that is one piece of work, such as a mover's kernel."""
        self.work.append(kernel)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if takes_a_view(func):
            return func(*args, **kwargs)
        if not writes_in_place(func):
            raise NotEnqueuedError(f"{func} allocates or synchronises")
        self.work.append(partial(func, *args, **kwargs))
        return kwargs.get("out", args[0])


def execute(first: RecordingStream, second: RecordingStream, turns: Iterable[bool]) -> None:
    """Execute all work of two streams, each in order.

    Parameters
    ----------
    first, second
        The streams; both keep their work and can be executed again.
    turns
        Whether the next piece is the second stream's. What is left when they end, or when the
        chosen stream has none, is executed in order: the first stream's, then the second's.
    """
    positions = [0, 0]
    streams = (first.work, second.work)
    for turn in turns:
        if positions[turn] < len(streams[turn]):
            streams[turn][positions[turn]]()
            positions[turn] += 1
    for work, position in zip(streams, positions, strict=True):
        for piece in work[position:]:
            piece()
