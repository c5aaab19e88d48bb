"""A server's figures once they stand still: SGLang counts a backup when it has ended."""

from __future__ import annotations

import time

from serving.client import Client
from serving.metrics import parse_counters

_WAIT_S, _POLL_S = 30.0, 1.0


def settled_metrics(client: Client) -> str:
    """Return ``/metrics`` when two readings show the same transfers, or after half a minute."""
    deadline = time.monotonic() + _WAIT_S
    text = client.metrics()
    while time.monotonic() < deadline:
        time.sleep(_POLL_S)
        before, text = text, client.metrics()
        if parse_counters(text) == parse_counters(before):
            break
    return text
