"""What decides the rules: sizes, write policy and the limits of a prefill pass."""

from __future__ import annotations

from dataclasses import dataclass

from serving.l2 import WRITE_BACK, WRITE_POLICIES, WRITE_THROUGH

#: Fewer host tokens than these are computed again (``unified_radix_cache.py:576``).
LOAD_BACK_THRESHOLD = 10
#: Answer tokens that admission reserves at most (``managers/schedule_policy.py:89``).
LONGEST_RESERVED_ANSWER = 4096
#: Passes of admission between two touches of what waits, and requests touched
#: (``managers/schedule_policy.py:137-139``).
TOUCH_INTERVAL, TOUCHED = 32, 128


@dataclass(frozen=True)
class Server:
    """A server of SGLang.

    Parameters
    ----------
    l1_tokens, l2_tokens
        Tokens of the device pool and of the host pool; 0 is a server without a host cache.
    page_size
        Tokens per page, which both are whole numbers of.
    write_policy
        SGLang's ``--hicache-write-policy``.
    chunk_tokens
        ``--chunked-prefill-size``: what one pass computes at most. 8192 on GPUs of 60 to 160 GB
        (``arg_groups/memory_hook.py:123-147``), 4096 without a GPU.
    prefill_tokens
        ``--max-prefill-tokens``.
    max_running
        ``--max-running-requests``, or None where it does not bind.
    overlap
        Whether a pass is prepared while the one before it runs, as by default: what a pass
        computed is in the tree only when the next one has been chosen.
    """

    l1_tokens: int
    l2_tokens: int = 0
    page_size: int = 1
    write_policy: str = WRITE_THROUGH
    chunk_tokens: int = 8192
    prefill_tokens: int = 16384
    max_running: int | None = None
    overlap: bool = True

    def __post_init__(self) -> None:
        for name in ("l1_tokens", "page_size", "chunk_tokens", "prefill_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: it has to be at least 1")
        if self.l2_tokens < 0:
            raise ValueError(f"l2_tokens = {self.l2_tokens}")
        for name in ("l1_tokens", "l2_tokens"):
            if getattr(self, name) % self.page_size:
                raise ValueError(f"{name} = {getattr(self, name)}: no pages of {self.page_size}")
        if self.chunk_tokens < self.page_size:
            raise ValueError(f"a chunk of {self.chunk_tokens} tokens is less than a page")
        if self.max_running is not None and self.max_running < 1:
            raise ValueError(f"max_running = {self.max_running}")
        if self.write_policy not in WRITE_POLICIES:
            raise ValueError(f"{self.write_policy!r} is none of {', '.join(WRITE_POLICIES)}")

    @property
    def writes_back(self) -> bool:
        """Whether L2 is written when L1 evicts, and not before."""
        return self.write_policy == WRITE_BACK

    @property
    def write_at_use(self) -> int | None:
        """At which use of a node it is written to L2 (``unified_radix_cache.py:558``)."""
        if self.writes_back or not self.l2_tokens:
            return None
        return 1 if self.write_policy == WRITE_THROUGH else 2

    @property
    def events_after(self) -> int:
        """Passes until the end of a transfer is seen.

        A transfer takes less than a pass. With overlap it is submitted behind a pass that still
        runs when the next is prepared.
        """
        return 2 if self.overlap else 1

    def whole_pages(self, tokens: int) -> int:
        """Tokens of the pages that so many tokens fill."""
        return tokens // self.page_size * self.page_size

    def taken(self, tokens: int) -> int:
        """Tokens of the pages that so many tokens need."""
        return -(-tokens // self.page_size) * self.page_size
