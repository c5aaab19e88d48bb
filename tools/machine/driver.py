"""What ``nvidia-smi`` says, and the driver that torch's CUDA needs."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from machine.devices import Torch
from machine.finding import Finding, failed, passed, skipped

#: The oldest driver of each release family of CUDA, of which every release runs on it
#: (docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
OLDEST_DRIVER = {12: 525, 13: 580}
_QUERY = ("--query-gpu=driver_version", "--format=csv,noheader")
_PATIENCE_S = 60.0  # without its persistence mode a driver wakes its GPUs for the question


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver.

    Parameters
    ----------
    version : str
        Its release.
    problem : str
        What ``nvidia-smi`` says if it has no release to tell.
    """

    version: str = ""
    problem: str = ""

    @property
    def major(self) -> int:
        """The first number of its release; 0 if that is no number."""
        first = self.version.partition(".")[0]
        return int(first) if first.isdecimal() else 0


def read_driver() -> Driver | None:
    """Ask ``nvidia-smi``; None where there is no such program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *_QUERY],
            capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Driver(problem=f"nvidia-smi cannot be asked: {error}")
    lines = (done.stdout + done.stderr).strip().splitlines() or ["it says nothing"]
    if done.returncode != 0:
        return Driver(problem=f"nvidia-smi: {lines[0]}")
    return Driver(version=lines[0].strip())


def check_driver(torch: Torch, driver: Driver | None) -> Finding:
    """Whether the driver runs the CUDA that torch was built with.

    Parameters
    ----------
    torch : Torch
        What torch was built for and sees.
    driver : Driver, optional
        What is here.
    """
    if driver is None:
        if torch.devices:
            told = "nvidia-smi is not here to tell its release, but torch can use the device"
            return passed("driver", told)
        step = "rent a machine with a GPU; in a container, docker run --gpus all"
        return skipped("driver", "no nvidia-smi, so no NVIDIA driver", step)
    if driver.problem:
        return failed("driver", driver.problem, "repair the driver, or rent another machine")
    if torch.cuda is None:
        told = f"{driver.version} is here, and torch {torch.version} is a build without CUDA"
        return failed("driver", told, "install the torch that SGLang requires, from PyPI")
    needed = OLDEST_DRIVER.get(torch.cuda_major)
    told = f"{driver.version}; torch {torch.version} is built with CUDA {torch.cuda}"
    if needed is None:
        return passed("driver", f"{told}, whose oldest driver is not known here")
    told = f"{told}, which runs on {needed} and later"
    if driver.major >= needed:
        return passed("driver", told)
    if torch.devices:
        return passed("driver", f"{told}; torch can use the device (CUDA's forward compatibility)")
    return failed("driver", told, f"rent a machine with driver {needed} or later")
