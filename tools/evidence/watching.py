"""How full a server's L2 is while it serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from serving.client import Client, RequestError
from serving.metrics import snapshot

#: SGLang's gauge of tokens in its host cache.
USED = "sglang:hicache_host_used_tokens"
_EVERY_S = 1.0


@contextmanager
def l2_watched(client: Client) -> Iterator[list[float]]:
    """Give a list that grows by a reading each second: the tokens that L2 holds.

    Without an L2 it stays empty. A reading that the server did not answer is left out.
    """
    readings: list[float] = []
    done = Event()

    def read() -> None:
        while not done.wait(_EVERY_S):
            try:
                found = snapshot(client.metrics()).gauges.get(USED)
            except RequestError:
                continue
            if found is not None:
                readings.append(found)

    reader = Thread(target=read, name="L2 watcher", daemon=True)
    reader.start()
    try:
        yield readings
    finally:
        done.set()
        reader.join()
