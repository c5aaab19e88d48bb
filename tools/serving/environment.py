"""The versions and the machine of a run, and the refusal of an SGLang without the series."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from patchstack.errors import Exit, ToolError

#: A file that the series adds.
PATCHED = "srt/mem_cache/pool_host/l2_codec.py"


def refuse_unpatched(environment: str) -> None:
    """Raise unless this interpreter has a patched SGLang and the runtime library.

    Parameters
    ----------
    environment
        The tox environment that has them.
    """
    way_out = f"run tox -e {environment}, which makes an environment that has it"
    sglang, library = find_spec("sglang"), find_spec("hiqcache")
    if sglang is None or sglang.origin is None or library is None:
        missing = "SGLang" if library else "hiqcache"
        raise ToolError(f"{missing} is not installed here", way_out, Exit.USAGE)
    if not (Path(sglang.origin).parent / PATCHED).is_file():
        raise ToolError(f"SGLang {_version('sglang')} is not patched", way_out, Exit.USAGE)


@dataclass(frozen=True)
class Environment:
    """Where something was measured."""

    python: str
    torch: str
    sglang: str
    hiqcache: str
    system: str
    processor: str
    cores: int
    load: float

    def sentence(self) -> str:
        """Say it in one line."""
        return (
            f"{self.processor}, {self.cores} cores, load {self.load:.1f} at the start; "
            f"SGLang {self.sglang}, torch {self.torch}, Python {self.python}"
        )


def this_environment() -> Environment:
    """Return the versions and the machine that this process runs on."""
    return Environment(
        python=platform.python_version(),
        torch=_version("torch"),
        sglang=_version("sglang"),
        hiqcache=_version("hiqcache"),
        system=platform.platform(),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        load=os.getloadavg()[0],
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
