"""A host pool's own figures, read from inside the server, and what is refused on them."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from patchstack.errors import Exit, ToolError
from serving.metrics import l2_capacity

if TYPE_CHECKING:
    from serving.launch import Launch

#: Names the file that the plug-in writes to.
VARIABLE = "HIQCACHE_POOL_REPORT"

#: Where the plug-in lies: what a server's import path needs.
PLUGIN = Path(__file__).parent / "plugin"


@dataclass(frozen=True)
class PoolReport:
    """One host pool, as it allocated itself.

    Parameters
    ----------
    pool
        Name of its class.
    slots
        Tokens that it holds.
    size_per_token
        Bytes that SGLang believes a token takes.
    nbytes
        Bytes of the memory behind it.
    page_size
        Tokens per page.
    layout
        SGLang's name of how the slots are laid out.
    device_tokens
        Tokens of the device pool (L1) that it was sized by.
    """

    pool: str
    slots: int
    size_per_token: int
    nbytes: int
    page_size: int
    layout: str
    device_tokens: int

    def __post_init__(self) -> None:
        for name in ("slots", "size_per_token", "nbytes", "page_size", "device_tokens"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"PoolReport.{name} must be a positive integer, got {value!r}")

    @property
    def bytes_per_token(self) -> float:
        """Bytes of memory for each token that it holds."""
        return self.nbytes / self.slots

    @property
    def page_bytes(self) -> int:
        """Bytes of one page, by SGLang's own size of a token."""
        return self.page_size * self.size_per_token


def read_pool_report(file: Path) -> PoolReport:
    """Return the one host pool that a server reported.

    Raises
    ------
    ToolError
        If it reported none, several, or something else.
    """
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if len(lines) != 1:
        raise ToolError(
            f"the server reported {len(lines)} host pools, not one",
            "unset SGLANG_PLUGINS if it is set, and serve a model with one plain KV cache",
            Exit.FINDINGS,
        )
    try:
        known = {field.name for field in fields(PoolReport)}
        figures = json.loads(lines[0])
        return PoolReport(**{name: figures[name] for name in known})
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(
            f"{file} is not a pool report ({type(error).__name__}: {error})",
            f"install the files of {PLUGIN} anew",
            Exit.FINDINGS,
        ) from error


def confirmed_pool(launch: Launch, metrics: str) -> PoolReport | None:
    """Return the host pool that a server has, if it is as large as planned, or None without one.

    A server with another one shows something else than it is taken for, so nothing should be
    measured on it.

    Parameters
    ----------
    launch
        How it was started.
    metrics
        Its ``/metrics``.

    Raises
    ------
    ToolError
        If the plan, the pool and the server's own gauge do not agree.
    """
    if launch.l2 is None:
        return None
    report = read_pool_report(launch.pool_report)
    sizes = {
        "planned": launch.l2.tokens,
        "allocated": report.slots,
        "its gauge": l2_capacity(metrics),
    }
    if len(set(sizes.values())) != 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ToolError(
            f"the server {launch.name!r} has an L2 of another size than planned (tokens: {told})",
            "use the pinned release, one rank, and a budget that the host's memory holds",
            Exit.FINDINGS,
        )
    return report


def refuse_unequal_bytes(raw: PoolReport, encoded: PoolReport) -> None:
    """Raise if one of two pools holds more memory than the other, by over a page.

    A pool is whole pages, so two codecs' pools cannot be equal to the byte. The smaller of the two
    pages is what a fair comparison may differ by.
    """
    difference = abs(raw.nbytes - encoded.nbytes)
    allowed = min(raw.page_bytes, encoded.page_bytes)
    if difference > allowed:
        raise ToolError(
            f"the raw L2 has {raw.nbytes:,} bytes and the encoded one {encoded.nbytes:,}: "
            f"they differ by {difference:,}, more than one page ({allowed:,})",
            "set both by --hicache-ratio with hiqcache.capacity.ratio_for_bytes",
            Exit.FINDINGS,
        )
