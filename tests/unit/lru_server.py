"""An SGLang that only remembers: two caches of pages, least recently used first out.

It answers as :class:`serving.client.Client` does, so what is sent to a server can be tested without
one. A reply's tokens and logprobs come from the prompt alone, and from how far off its L2 is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from serving.client import Reply, RequestError
from serving.l2 import NO_CODEC

Tokens = tuple[int, ...]


class Store:
    """Pages by all tokens up to their end, the least recently used first."""

    def __init__(self, tokens: int, page_size: int) -> None:
        self.pages: OrderedDict[Tokens, None] = OrderedDict()
        self.limit, self.page_size = tokens // page_size, page_size

    def ends(self, ids: Tokens) -> list[Tokens]:
        return [ids[:end] for end in range(self.page_size, len(ids) + 1, self.page_size)]

    def add(self, ids: Tokens) -> None:
        # The end goes first, as the leaves of a radix tree do.
        for page in reversed(self.ends(ids)):
            self.pages[page] = None
            self.pages.move_to_end(page)
        while len(self.pages) > self.limit:
            self.pages.popitem(last=False)

    def found(self, ids: Tokens) -> int:
        """Tokens of a prompt that it holds."""
        held = 0
        for page in self.ends(ids):
            if page not in self.pages:
                break
            held = len(page)
        return held


class LruServer:
    """A server with caches of these sizes."""

    url = "http://lru"

    def __init__(
        self,
        l1_tokens: int,
        l2_tokens: int,
        page_size: int = 1,
        codec: str = NO_CODEC,
        error: float = 0.0,
        writes_through: bool = True,
    ) -> None:
        self.sizes = l1_tokens, l2_tokens
        self.page_size, self.codec, self.error = page_size, codec, error
        self.writes_through = writes_through
        self.flush()

    def __enter__(self) -> LruServer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def flush(self) -> None:
        self.l1, self.l2 = (Store(size, self.page_size) for size in self.sizes)

    def complete(self, ids: Sequence[int], scored_from: int = -1, new_tokens: int = 1) -> Reply:
        ids = tuple(ids)
        if len(ids) + new_tokens > self.sizes[0]:
            raise RequestError(f"{len(ids)} tokens are more than an L1 of {self.sizes[0]} holds")
        known = ids[: scored_from if scored_from >= 0 else len(ids) - 1]
        device = self.l1.found(known)
        host = max(self.l2.found(known) - device, 0)
        generated = tuple(((ids[0] + n) % 97, -1.0) for n in range(new_tokens))
        for store in (self.l1, self.l2) if self.writes_through else (self.l1,):
            store.add(ids + tuple(token for token, _ in generated[:-1]))
        scored = len(ids) - scored_from - 1 if scored_from >= 0 else 0
        off = self.error if host else 0.0
        return Reply(len(ids), device, host, 0.0, (-2.0 - off,) * scored, generated)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        return [[ord(letter) + 1000 * at for letter in text] for at, text in enumerate(texts)]

    def server_info(self) -> dict[str, object]:
        return {
            "enable_hierarchical_cache": True,
            "hicache_l2_codec": self.codec,
            "max_total_num_tokens": self.sizes[0],
            "page_size": self.page_size,
            "model_path": "somewhere/tiny",
            "version": "0",
            "device": "cpu",
        }

    def metrics(self) -> str:
        return (
            f"sglang:hicache_host_total_tokens {self.sizes[1]}\n"
            "sglang:hicache_backup_tokens_total 10\nsglang:hicache_backup_bytes_total 1000\n"
        )
