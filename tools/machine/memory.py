"""Host memory, by the rule that SGLang's host pools refuse by.

``host_memory_budget_bytes`` (``mem_cache/pool_host/base.py``): what is available, within the
control groups, less 10 GiB for everybody else, divided among the ranks of the machine.
"""

from __future__ import annotations

from pathlib import Path

from hiqcache.capacity import GIGABYTE, tokens_for_size
from machine import cgroup
from machine.asked import Asked
from machine.finding import Finding, failed, passed, skipped

#: ``HICACHE_HOST_MEMORY_RESERVE_BYTES``.
RESERVE = 10 * 2**30


def available_bytes(proc: Path = Path("/proc")) -> int:
    """Memory that can be had without swapping, within the control groups.

    Parameters
    ----------
    proc : Path
        Where the process file system is.
    """
    lines = (proc / "meminfo").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    available, limited = int(kilobytes) * 1024, cgroup.headroom(proc)
    return available if limited is None else min(available, limited)


def check_memory(asked: Asked, available: int) -> Finding:
    """Whether the pools of this machine's ranks fit into what SGLang lets them have.

    Parameters
    ----------
    asked : Asked
        What is to be served.
    available : int
        Bytes, from :func:`available_bytes`.
    """
    try:
        held = asked.made().bytes_per_token
    except ValueError:
        return skipped("host memory", "the codec does not serve this model", "see codec")
    pool = tokens_for_size(asked.size_gb, held, asked.served.page_size) * held
    budget = max(0, available - RESERVE) // asked.ranks_here
    told = (
        f"{_gb(pool)} GB for each of {asked.ranks_here} rank(s) here, of {_gb(budget)} GB that "
        f"SGLang lets each have ({_gb(available)} GB available, 10 GiB stay free)"
    )
    if pool <= budget:
        return passed("host memory", told)
    fitting = (budget - asked.served.page_size * held) // GIGABYTE
    smaller = f"--hicache-size {fitting}, or " if fitting > 0 else ""
    return failed("host memory", told, f"{smaller}free or rent more host memory")


def _gb(size: int) -> str:
    return f"{size / GIGABYTE:.1f}"
