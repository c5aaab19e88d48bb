"""The radix tree: match, split, use and lock.

The rules are those of ``mem_cache/unified_cache/unified_tree_core.py``, whose lines are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simulator.leaves import Leaves
from simulator.node import Node
from simulator.tokens import Tokens

#: How much earlier a parent is used than its child, when a match uses a path (line 1033).
_EARLIER = 1e-5


@dataclass(frozen=True)
class Match:
    """What the tree holds of a sequence.

    Parameters
    ----------
    device_tokens, host_tokens
        Of its beginning, what is in L1, and what follows that is in L2 alone.
    device_node, node
        Where each ends.
    """

    device_tokens: int
    host_tokens: int
    device_node: Node
    node: Node


class Tree:
    """Nodes, who needs them, and what could be evicted.

    Parameters
    ----------
    page_size
        Tokens per page. Nodes are whole pages.

    Attributes
    ----------
    device_leaves, host_leaves
        What could be evicted of each tier.
    evictable
        Tokens of L1 that nobody needs.
    on_split
        Told about the upper node of each split.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self._clock = 0.0
        self._numbers = 0
        self.root = self._new(Tokens(()), None)
        self.device_leaves = Leaves(lambda node: node.is_device_leaf)
        self.host_leaves = Leaves(lambda node: node.is_host_leaf)
        self.evictable = 0
        self.on_split: Callable[[Node], None] = lambda node: None

    def _now(self) -> float:
        self._clock += 1.0
        return self._clock

    def _new(self, key: Tokens, parent: Node | None) -> Node:
        self._numbers += 1
        return Node(self._numbers, key, parent, self._now())

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root."""
        found = list(self.root.children.values())
        while found:
            node = found.pop()
            yield node
            found.extend(node.children.values())

    # Structure

    def _first_page(self, key: Tokens) -> Tokens:
        return key.cut(0, self.page_size)

    def whole_pages(self, tokens: int) -> int:
        """Tokens of the pages that so many tokens fill."""
        return tokens // self.page_size * self.page_size

    def child(self, node: Node, key: Tokens) -> Node | None:
        """The child that begins as ``key`` does."""
        return node.children.get(self._first_page(key).pieces)

    def shared(self, node: Node, key: Tokens) -> int:
        """Tokens of whole pages that a node and ``key`` both begin with."""
        return self.whole_pages(node.key.common(key))

    def add(self, parent: Node, key: Tokens) -> Node:
        """Add a leaf that L1 holds (line 1532)."""
        node = self._new(key, parent)
        parent.children[self._first_page(key).pieces] = node
        self.put_on_device(node)
        return node

    def split(self, child: Node, length: int) -> Node:
        """Make two of a node, and return the upper one (line 1467).

        The lower one stays what it was to those who hold it. It counts as used now.
        """
        assert child.parent is not None and 0 < length < child.length
        upper = self._new(child.key.cut(0, length), child.parent)
        self._now()  # the upper one's time of creation
        for name in ("on_device", "on_host", "loading", "locks", "uses"):
            setattr(upper, name, getattr(child, name))
        child.parent.children[self._first_page(child.key).pieces] = upper
        child.key = child.key.cut(length)
        child.length -= length
        child.parent = upper
        upper.children[self._first_page(child.key).pieces] = child
        upper.device_children = int(child.on_device)
        self.use(child)
        self.offer(upper)
        self.on_split(upper)
        return upper

    def remove(self, node: Node) -> None:
        """Take a node out that neither tier holds."""
        parent = node.parent
        assert parent is not None
        del parent.children[self._first_page(node.key).pieces]
        self.offer(parent)

    # Use and locks

    def offer(self, node: Node) -> None:
        """Take note that a node may have become evictable."""
        self.device_leaves.offer(node)
        self.host_leaves.offer(node)

    def use(self, node: Node) -> None:
        """Count a node as used now (line 1096)."""
        node.used = self._now()
        self.offer(node)

    def use_path(self, node: Node) -> None:
        """Count a path as used, its end last (line 1030)."""
        now = self._now()
        for depth, each in enumerate(node.path()):
            each.used = now - depth * _EARLIER
            self.offer(each)

    def lock(self, node: Node) -> None:
        """Need a path (``components/full.py:282``)."""
        for each in node.path():
            if not each.locks and each.on_device:
                self.evictable -= each.length
            each.locks += 1

    def unlock(self, node: Node) -> None:
        """Need it no more (``components/full.py:331``)."""
        for each in node.path():
            each.locks -= 1
            assert each.locks >= 0
            if not each.locks and each.on_device:
                self.evictable += each.length
            self.offer(each)

    def put_on_device(self, node: Node) -> None:
        """Let L1 hold a node."""
        assert not node.on_device and node.parent is not None
        node.on_device = True
        node.parent.device_children += 1
        if not node.locks:
            self.evictable += node.length
        self.offer(node)

    def take_off_device(self, node: Node) -> None:
        """Let L1 give a node up."""
        assert node.is_device_leaf and node.parent is not None
        node.on_device = False
        node.parent.device_children -= 1
        self.evictable -= node.length
        self.offer(node)
        self.offer(node.parent)

    # Match

    def match(self, key: Tokens, limit: int) -> Match:
        """Find what is held of ``key`` before ``limit``, split where it ends, use it (line 905)."""
        rest = key.cut(0, self.whole_pages(limit))
        node = self.root
        while (found := self.child(node, rest)) is not None:
            length = self.shared(found, rest)
            node = found if length == found.length else self.split(found, length)
            if node is not found:
                break
            rest = rest.cut(length)
        self.use_path(node)
        return self._matched(node)

    def _matched(self, node: Node) -> Match:
        device = node
        host_tokens = 0
        while not device.on_device and device.parent is not None:
            host_tokens += device.length
            device = device.parent
        device_tokens = sum(each.length for each in device.path())
        return Match(device_tokens, host_tokens, device, node)
