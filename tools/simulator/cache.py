"""Both tiers of the cache, as the scheduler uses them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from simulator.host import Host
from simulator.node import Node
from simulator.server import LOAD_BACK_THRESHOLD, Server
from simulator.tokens import Tokens
from simulator.tree import Match, Tree


@dataclass(frozen=True)
class _Transfer:
    """A copy between the tiers, whose end has not been seen."""

    node: Node
    is_load: bool
    seen: int


class Cache:
    """L1, L2 and the tree above them.

    Parameters
    ----------
    server
        Sizes and rules.

    Attributes
    ----------
    free
        Tokens of L1 that are neither in the tree nor of a request.
    evicted, restored, dropped
        Tokens that left L1, that came back from L2, and that left L1 without a copy.
    now
        The scheduler's pass.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.tree = Tree(server.page_size)
        self.host = Host(self.tree, server.l2_tokens, server.writes_back)
        self.free = server.l1_tokens
        self.evicted = self.restored = self.dropped = 0
        self.now = 0
        self._transfers: deque[_Transfer] = deque()

    @property
    def available(self) -> int:
        """Tokens of L1 that could be had."""
        return self.free + self.tree.evictable

    @property
    def has_transfers(self) -> bool:
        """Whether some have not been seen to end."""
        return bool(self._transfers)

    def match(self, key: Tokens, limit: int) -> Match:
        """Find what is held of a sequence before ``limit``."""
        return self.tree.match(key, limit)

    # L1

    def make_room(self, tokens: int) -> bool:
        """Evict from L1 until so much is free (``unified_radix_cache.py:952``)."""
        kept = []
        while self.free < tokens and (leaf := self.tree.device_leaves.oldest()) is not None:
            if not self._evict(leaf):
                kept.append(leaf)
        for leaf in kept:
            self.tree.offer(leaf)
        return self.free >= tokens

    def take(self, tokens: int) -> None:
        """Give a request tokens that are free."""
        assert 0 <= tokens <= self.free, f"{tokens} of {self.free} free tokens"
        self.free -= tokens

    def give_back(self, tokens: int) -> None:
        """Take a request's tokens back."""
        self.free += tokens

    def _evict(self, leaf: Node) -> bool:
        """Evict a leaf of L1, after it is written if L2 is written back (line 1017)."""
        if not leaf.on_host and self._server.writes_back and self._server.l2_tokens:
            if not self.host.write(leaf):
                return self._drop_subtree(leaf)
            self.host.note_duplicate(leaf)
        self._off_device(leaf)
        if not leaf.on_host:
            self._forget(leaf)
        return True

    def _off_device(self, leaf: Node) -> None:
        self.tree.take_off_device(leaf)
        self.free += leaf.length
        self.evicted += leaf.length

    def _forget(self, node: Node) -> None:
        self.dropped += node.length
        self.host.forget(node)
        self.tree.remove(node)

    def _drop_subtree(self, leaf: Node) -> bool:
        """Drop a leaf that L2 has no room for, with all below (``unified_tree_core.py:1825``)."""
        below = [leaf]
        for node in below:
            below.extend(node.children.values())
        if any(node.locks or node.host_locks for node in below):
            return False
        for node in reversed(below[1:]):
            self.host.drop(node)
            self.host.forget(node)
            self.tree.remove(node)
        self._off_device(leaf)
        self._forget(leaf)
        return True

    # Insert

    def insert(self, key: Tokens, protected: int, inserted: int) -> Node:
        """Hand a request's tokens to the tree (``unified_tree_core.py:1282``).

        What the tree already holds there and the request computed again is free afterwards.

        Parameters
        ----------
        key
            Whole pages.
        protected
            Tokens at the beginning that were the tree's before.
        inserted
            Tokens that the request has inserted before, which do not count as used once more.
        """
        node, at, rest = self.tree.root, 0, key
        while len(rest) and (found := self.tree.child(node, rest)) is not None:
            self.tree.use(found)
            length = self.tree.shared(found, rest)
            node = found if length == found.length else self.tree.split(found, length)
            if node.on_device:
                self.free += max(0, length - max(0, protected - at))
            else:
                self.tree.put_on_device(node)
                self.host.note_duplicate(node)
            at += length
            self._count(node, at, inserted)
            rest = rest.cut(length)
        if len(rest):
            node = self.tree.add(node, rest)
            self._count(node, at + len(rest), inserted)
        return node

    def _count(self, node: Node, end: int, inserted: int) -> None:
        """Count a use, and write the node to L2 if it is due (``unified_tree_core.py:1104``)."""
        if end <= inserted:
            return
        node.uses += 1
        due = self._server.write_at_use
        if due is None or node.on_host or node.uses < due:
            return
        for each in reversed(node.path()):  # what is above comes first
            if not each.on_host and not self._write(each):
                return

    def _write(self, node: Node) -> bool:
        if not self.host.write(node):
            return False
        self.tree.lock(node)
        self._transfers.append(_Transfer(node, False, self.now + self._server.events_after))
        return True

    # Restore

    def load_back(self, node: Node) -> int:
        """Restore a path from L2, and return its tokens, or 0 (``unified_radix_cache.py:1857``)."""
        missing = [each for each in node.path() if not each.on_device]
        tokens = sum(each.length for each in missing)
        if tokens < LOAD_BACK_THRESHOLD:
            return 0
        node.host_locks += 1
        self.tree.lock(node)
        if not self.make_room(tokens):
            self.tree.unlock(node)
            self._unpin(node)
            return 0
        self.free -= tokens
        self.restored += tokens
        for each in reversed(missing):
            self.tree.put_on_device(each)
            each.loading = node
        # Locked until the end of the transfer is seen, and the host's copy of the last node too.
        self._transfers.append(_Transfer(node, True, self.now + self._server.events_after))
        return tokens

    def _unpin(self, node: Node) -> None:
        node.host_locks -= 1
        self.tree.offer(node)

    def see_transfers(self) -> None:
        """See which transfers have ended (``unified_radix_cache.py:3655``)."""
        while self._transfers and self._transfers[0].seen <= self.now:
            transfer = self._transfers.popleft()
            self.tree.unlock(transfer.node)
            if transfer.is_load:
                self._loaded(transfer.node)

    def _loaded(self, node: Node) -> None:
        self._unpin(node)
        for each in node.path():
            if each.loading is node:
                each.loading = None
                self.host.note_duplicate(each)
