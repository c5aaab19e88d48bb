"""What can be evicted, least recently used first."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from simulator.node import Node


class Leaves:
    """Nodes in the order of their last use.

    Entries are not removed when a node stops being a leaf or is used: they are passed over.

    Parameters
    ----------
    is_leaf
        Tells whether a node can be evicted now.
    """

    def __init__(self, is_leaf: Callable[[Node], bool]) -> None:
        self._is_leaf = is_leaf
        self._heap: list[tuple[float, int, Node]] = []

    def offer(self, node: Node) -> None:
        """Take note of a node that may have become a leaf, or was used."""
        if self._is_leaf(node):
            heapq.heappush(self._heap, (node.used, node.number, node))

    def oldest(self) -> Node | None:
        """The leaf that was used least recently; it is out unless it is offered again."""
        while self._heap:
            used, _, node = heapq.heappop(self._heap)
            if used == node.used and self._is_leaf(node):
                return node
        return None
