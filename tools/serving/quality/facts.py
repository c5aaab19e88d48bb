"""What a server says about itself, and which two servers can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchstack.errors import Exit, ToolError
from serving.client import Client
from serving.l2 import NO_CODEC
from serving.metrics import l2_capacity

#: Arguments of a server that change an answer.
_ALIKE = ("model_path", "version", "device", "tp_size", "page_size", "attention_backend")


@dataclass(frozen=True)
class Facts:
    """What a server says about itself.

    Parameters
    ----------
    codec
        Its ``--hicache-l2-codec``.
    arguments
        Its other arguments that change an answer.
    l1_tokens, l2_tokens
        Tokens that its device and its host cache hold.
    """

    codec: str
    arguments: Mapping[str, Any]
    l1_tokens: int
    l2_tokens: int

    @property
    def page_size(self) -> int:
        """Tokens per page."""
        return self.arguments["page_size"]


def read_facts(client: Client) -> Facts:
    """Ask a server.

    Raises
    ------
    ToolError
        If it has no L2, or no metrics to tell its size.
    """
    info = client.server_info()
    if not info.get("enable_hierarchical_cache"):
        raise ToolError(
            f"{client.url} has no L2", "start it with --enable-hierarchical-cache", Exit.USAGE
        )
    l2_tokens = l2_capacity(client.metrics())
    if l2_tokens is None:
        raise ToolError(
            f"{client.url} does not tell the size of its L2",
            "start it with --enable-metrics",
            Exit.USAGE,
        )
    return Facts(
        info.get("hicache_l2_codec") or NO_CODEC,
        {name: info.get(name) for name in _ALIKE},
        info["max_total_num_tokens"],
        l2_tokens,
    )


def refuse_incomparable(raw: Facts, encoded: Facts) -> None:
    """Raise unless one server has a raw L2, the other an encoded one, and all else is alike."""
    if raw.codec != NO_CODEC or encoded.codec == NO_CODEC:
        raise ToolError(
            f"the L2s are {raw.codec!r} and {encoded.codec!r}",
            f"start the first server with --hicache-l2-codec {NO_CODEC}, the second with a codec",
            Exit.USAGE,
        )
    for name, value in raw.arguments.items():
        if encoded.arguments[name] != value:
            raise ToolError(
                f"the servers differ in {name}: {value} and {encoded.arguments[name]}",
                "start both alike but for --hicache-l2-codec",
                Exit.USAGE,
            )
