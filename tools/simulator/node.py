"""A node of the radix tree."""

from __future__ import annotations

from simulator.tokens import Piece, Tokens


class Node:
    """A stretch of tokens below what its parents hold.

    Attributes
    ----------
    key, length
        Its tokens.
    on_device, on_host
        Which tiers hold it.
    locks, host_locks
        Who needs it there.
    used
        When it was last used; larger is later.
    uses
        How often a request inserted it.
    device_children
        Children that the device holds.
    loading
        The end of the path that is being restored with it, or None.
    """

    __slots__ = (
        "children", "device_children", "host_locks", "key", "length", "loading", "locks", "number",
        "on_device", "on_host", "parent", "used", "uses",
    )  # fmt: skip

    def __init__(self, number: int, key: Tokens, parent: Node | None, used: float) -> None:
        self.number = number
        self.key = key
        self.length = len(key)
        self.parent = parent
        self.children: dict[tuple[Piece, ...], Node] = {}
        self.device_children = 0
        self.on_device = self.on_host = False
        self.loading: Node | None = None
        self.locks = self.host_locks = self.uses = 0
        self.used = used

    @property
    def is_device_leaf(self) -> bool:
        """Whether L1 could give it up: no child there, and nobody needs it."""
        free = self.on_device and not self.locks
        return free and not self.device_children and self.parent is not None

    @property
    def is_host_leaf(self) -> bool:
        """Whether L2 could give it up: L1 has it no more, no child at all, nobody needs it."""
        only_there = self.on_host and not self.on_device
        return only_there and not (self.children or self.locks or self.host_locks)

    def path(self) -> list[Node]:
        """Itself and what is above it, without the root."""
        found = []
        node = self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        return found
