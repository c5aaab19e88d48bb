"""A stand-in for ``torch.cuda.Event``, on a machine that has none.

A stream passes an event later than the host records it. Here the device stands still until a test
lets it :meth:`~DelayedEvent.pass_one`, and each event that it passes takes a millisecond.
"""

from __future__ import annotations

from typing import ClassVar


class DelayedEvent:
    """An event that is passed in its turn, and must not be waited for."""

    recorded: ClassVar[int]
    passed: ClassVar[int]

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing, "an event without timing has no elapsed time"
        self._turn: int | None = None

    @classmethod
    def begin(cls) -> None:
        """Forget all that was recorded."""
        cls.recorded = cls.passed = 0

    @classmethod
    def pass_one(cls) -> None:
        """Let the device go on, past the next event."""
        assert cls.passed < cls.recorded, "nothing was enqueued"
        cls.passed += 1

    @classmethod
    def pass_all(cls) -> None:
        """Let the device catch up."""
        cls.passed = cls.recorded

    def record(self) -> None:
        """Enqueue the event."""
        assert self._turn is None, "an event that is read later is not recorded again"
        DelayedEvent.recorded += 1
        self._turn = DelayedEvent.recorded

    def query(self) -> bool:
        """Whether the device has passed the event."""
        assert self._turn is not None
        return self._turn <= DelayedEvent.passed

    def synchronize(self) -> None:
        """Refuse to wait."""
        raise AssertionError("the host waits for the device")

    def elapsed_time(self, end: DelayedEvent) -> float:
        """Milliseconds from this event to another."""
        assert self.query() and end.query(), "CUDA raises for an event that was not passed"
        assert self._turn is not None and end._turn is not None
        return float(end._turn - self._turn)
