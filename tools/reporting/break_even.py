"""From which bandwidth on decoding takes longer than the bytes that are saved.

A restore is taken for its move and then its decoding, the scatter included, ``bytes / bandwidth +
decode``: what overlaps of the two only shortens it. A raw one has more bytes and no decoding. So
the two take as long at ``(raw bytes - encoded bytes) / decode``.
"""

from __future__ import annotations

from dataclasses import dataclass

from evidence.record import RAW
from reporting.restore import Restore

#: Bytes per second that a copy from pinned memory reaches of a bus with 16 lanes, about.
BUSES = {"PCIe 4": 25e9, "PCIe 5": 50e9}


@dataclass(frozen=True)
class BreakEven:
    """A configuration's restore of a prefix, against the raw one.

    Parameters
    ----------
    configuration, prefix_tokens
        Which.
    raw_bytes, encoded_bytes
        Bytes that each moves.
    decode_s
        Seconds of decoding.
    """

    configuration: str
    prefix_tokens: int
    raw_bytes: int
    encoded_bytes: int
    decode_s: float

    def __post_init__(self) -> None:
        if not 0 < self.encoded_bytes < self.raw_bytes or self.decode_s <= 0:
            raise ValueError(f"{self} has nothing to weigh")

    @property
    def bandwidth(self) -> float:
        """Bytes per second below which restoring encoded is the faster."""
        return (self.raw_bytes - self.encoded_bytes) / self.decode_s

    @property
    def decode_rate(self) -> float:
        """Bytes of KV that decoding makes in a second."""
        return self.raw_bytes / self.decode_s

    def needed_rate(self, bandwidth: float) -> float:
        """Bytes of KV that decoding would have to make in a second, to break even there."""
        return bandwidth * self.raw_bytes / (self.raw_bytes - self.encoded_bytes)

    def against_raw(self, bandwidth: float) -> float:
        """How many times as long as a raw restore it takes over a bus."""
        return (self.encoded_bytes / bandwidth + self.decode_s) / (self.raw_bytes / bandwidth)


def break_evens(measured: Restore) -> list[BreakEven]:
    """Weigh every row that has a raw one of its length and whose decoding was timed."""
    raw = {row.prefix_tokens: row.bytes for row in measured.rows if row.configuration == RAW}
    found = []
    for row in measured.restored:
        decode_s, raw_bytes = row.phase("decode_s"), raw.get(row.prefix_tokens)
        if decode_s and row.bytes and raw_bytes and row.bytes < raw_bytes:
            weighed = (row.configuration, row.prefix_tokens, raw_bytes, row.bytes, decode_s)
            found.append(BreakEven(*weighed))
    return found
