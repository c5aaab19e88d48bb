"""L2: what is written to it, what makes room, and what a restore needs of it.

The rules are those of ``mem_cache/unified_radix_cache.py`` and of
``mem_cache/unified_cache/unified_tree_core.py``, whose lines are named.
"""

from __future__ import annotations

from simulator.node import Node
from simulator.tree import Tree


class Host:
    """The host pool.

    Parameters
    ----------
    tree
        Whose nodes it holds.
    tokens
        What it has room for.
    writes_back
        Whether a copy of what L1 holds too may be given up first.

    Attributes
    ----------
    free, written, evicted
        Tokens.
    """

    def __init__(self, tree: Tree, tokens: int, writes_back: bool) -> None:
        self._tree = tree
        self.free = tokens
        self._writes_back = writes_back
        self._duplicates: dict[int, Node] = {}
        tree.on_split = self.note_duplicate
        self.written = 0
        self.evicted = 0

    def write(self, node: Node) -> bool:
        """Copy a node, if room can be made (``unified_radix_cache.py:1737``)."""
        if self.free < node.length and not self._make_room(node.length - self.free):
            return False
        self.free -= node.length
        self.written += node.length
        node.on_host = True
        return True

    def drop(self, node: Node) -> None:
        """Give up a copy."""
        node.on_host = False
        self.free += node.length
        self.evicted += node.length

    def note_duplicate(self, node: Node) -> None:
        """Take note of a node that may be in both tiers (``unified_tree_core.py:1604``)."""
        if self._writes_back and node.on_device and node.on_host and node.loading is None:
            self._duplicates.setdefault(node.number, node)
        else:
            self._duplicates.pop(node.number, None)

    def forget(self, node: Node) -> None:
        """Take note that a node has left the tree."""
        self._duplicates.pop(node.number, None)

    def _make_room(self, tokens: int) -> bool:
        """Free tokens, or as many as can be (``unified_tree_core.py:1931``)."""
        before = self.free
        self._reclaim_duplicates(tokens)
        while self.free - before < tokens:
            leaf = self._tree.host_leaves.oldest()
            if leaf is None:
                return False
            self.drop(leaf)
            self._tree.remove(leaf)
            self.forget(leaf)
        return True

    def _reclaim_duplicates(self, tokens: int) -> None:
        """Give up copies of what L1 holds too, of its leaves last (``unified_tree_core.py:1975``).

        A leaf of L1 would be evicted next, and its copy spare a write.
        """
        before = self.free
        gone = []
        for spare_leaves in (True, False):
            for node in self._duplicates.values():
                if self.free - before >= tokens:
                    break
                if not (node.on_device and node.on_host):
                    gone.append(node)
                elif not (spare_leaves and node.is_device_leaf) and self._reclaimable(node):
                    self.drop(node)
                    gone.append(node)
        for node in gone:
            self.forget(node)

    @staticmethod
    def _reclaimable(node: Node) -> bool:
        return node.loading is None and not node.host_locks
