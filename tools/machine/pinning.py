"""Whether host memory can be pinned, and the shared memory that ranks talk through.

SGLang's host pools are private memory that is registered with CUDA, so ``/dev/shm`` holds none of
them. NCCL uses it between the ranks of a machine. Whether a driver counts registered memory against
``ulimit -l`` is not written down anywhere, so memory past the limit is registered to see it.
"""

from __future__ import annotations

import mmap
import os
import resource
from collections.abc import Callable
from pathlib import Path

from hiqcache.capacity import GIGABYTE
from machine.asked import Asked
from machine.devices import Torch
from machine.finding import Finding, failed, passed, skipped

#: What is registered where the pool is larger: enough to be past a limit that a shell sets.
_LARGEST_PROBE = 2**30
#: What NCCL's manual asks a container to have.
_SHARED = 2**30
_UNLIMIT = "raise it (docker run --ulimit memlock=-1, LimitMEMLOCK=infinity for a service)"


def locked_limit() -> int | None:
    """Bytes that ``ulimit -l`` lets a process lock, or None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def register(size: int) -> str | None:
    """Register memory with CUDA as SGLang does, and give it back; return what went wrong."""
    import torch

    buffer = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
    torch.zeros(1, device="cuda")  # makes the context that memory is registered with
    buffer.zero_()  # only pages that are there can be pinned
    runtime = torch.cuda.cudart()
    error = runtime.cudaHostRegister(buffer.data_ptr(), size, 0)
    if int(error):
        return str(runtime.cudaGetErrorString(error))
    runtime.cudaHostUnregister(buffer.data_ptr())
    return None


def check_pinning(
    asked: Asked,
    torch: Torch,
    limit: int | None,
    register: Callable[[int], str | None] = register,
) -> Finding:
    """Whether memory can be registered, past the limit if there is one.

    Parameters
    ----------
    asked : Asked
        What is to be served.
    torch : Torch
        What torch sees.
    limit : int, optional
        Bytes, from :func:`locked_limit`.
    register : callable
        Registers that many bytes and says what went wrong.
    """
    said = "no limit" if limit is None else f"ulimit -l is {limit // 1024:,} KiB"
    if not torch.devices:
        return skipped("pinning", f"no CUDA device; nothing is pinned; {said}", "see devices")
    size = min(asked.size_gb * GIGABYTE, _LARGEST_PROBE) // mmap.PAGESIZE * mmap.PAGESIZE
    if why := register(size):
        told = f"CUDA does not pin {size:,} bytes: {why}; {said}"
        return failed("pinning", told, f"{_UNLIMIT}, and see host memory")
    return passed("pinning", f"CUDA pins {size:,} bytes; {said}")


def shared_bytes(folder: Path = Path("/dev/shm")) -> int | None:
    """Bytes that shared memory may have in all, or None where there is none."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def check_shared(asked: Asked, shared: int | None) -> Finding:
    """Whether ranks on this machine have shared memory to talk through.

    Parameters
    ----------
    asked : Asked
        What is to be served.
    shared : int, optional
        Bytes, from :func:`shared_bytes`.
    """
    said = "there is no /dev/shm" if shared is None else f"/dev/shm may have {shared:,} bytes"
    if asked.ranks_here == 1:
        return passed("shared memory", f"{said}; one rank needs none for its pool")
    if (shared or 0) < _SHARED:
        return failed("shared memory", f"{said}; NCCL wants 1 GiB", "docker run --shm-size=1g")
    return passed("shared memory", f"{said}, for NCCL; the pools are not in it")
