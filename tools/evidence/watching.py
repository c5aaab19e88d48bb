"""How full a server's L2 is while it serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from evidence.record import USED
from serving.client import Client, RequestError
from serving.metrics import snapshot

_EVERY_S = 1.0


@contextmanager
def l2_watched(client: Client, before: float | None) -> Iterator[list[float]]:
    """Give a list that grows by a reading each second: the tokens that L2 holds.

    Parameters
    ----------
    client
        The server. Without an L2 the list stays empty, and an answer that it does not give, or
        that is none, leaves a reading out.
    before
        What the gauge said before: SGLang sets it with a batch, and not when it is flushed. The
        readings begin with another value.
    """
    readings: list[float] = []
    done = Event()

    def read() -> None:
        while not done.wait(_EVERY_S):
            try:
                found = snapshot(client.metrics()).gauges.get(USED)
            except (RequestError, ValueError):
                continue
            if found is not None and (readings or found != before):
                readings.append(found)

    reader = Thread(target=read, name="L2 watcher", daemon=True)
    reader.start()
    try:
        yield readings
    finally:
        done.set()
        reader.join()
