"""What SGLang compiles its kernels with when a server starts: nvcc, a C++ compiler and ninja."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from machine.devices import Torch
from machine.finding import Finding, failed, passed, skipped

_TOOLKIT = "install CUDA's toolkit (an image with -devel in its name has it), or set CUDA_HOME"


@dataclass(frozen=True)
class Compilers:
    """The programs that were found.

    Parameters
    ----------
    nvcc : str
        Its path, where SGLang looks for it.
    cuda : str, optional
        The release that it tells; None if it does not run.
    cxx : str, optional
        The path of the C++ compiler.
    ninja : str, optional
        The path of ninja.
    """

    nvcc: str
    cuda: str | None
    cxx: str | None
    ninja: str | None


def read_compilers() -> Compilers:
    """Look for them as SGLang does (``kernels/jit/utils``)."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    found = shutil.which("nvcc")
    if home is None:
        home = str(Path(found).parent.parent) if found else "/usr/local/cuda"
    nvcc = str(Path(home) / "bin" / "nvcc")
    cxx = shutil.which(os.environ.get("CXX", "c++"))
    return Compilers(nvcc, _release(nvcc), cxx, shutil.which("ninja"))


def _release(nvcc: str) -> str | None:
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    said = re.search(r"release (\d+\.\d+)", done.stdout)
    return said and said[1]


def check_compilers(torch: Torch, found: Compilers) -> Finding:
    """Whether they are all here, and nvcc of the CUDA that torch was built with.

    Parameters
    ----------
    torch : Torch
        What torch was built for and sees.
    found : Compilers
        What is here.
    """
    if not torch.devices:
        return skipped("compilers", "no CUDA device; nothing is compiled", "see devices")
    if found.cuda is None:
        return failed("compilers", f"{found.nvcc} does not run", _TOOLKIT)
    if int(found.cuda.partition(".")[0]) != torch.cuda_major:
        told = f"nvcc is of CUDA {found.cuda}, torch {torch.version} of CUDA {torch.cuda}"
        return failed("compilers", told, f"set CUDA_HOME to a toolkit of CUDA {torch.cuda_major}")
    if found.cxx is None:
        return failed("compilers", "there is no C++ compiler", "apt-get install g++, or set CXX")
    if found.ninja is None:
        return failed("compilers", "there is no ninja", "pip install ninja, and have it in PATH")
    told = f"nvcc {found.cuda} ({found.nvcc}), {found.cxx}, {found.ninja}"
    return passed("compilers", told)
