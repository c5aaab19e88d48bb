#!/usr/bin/env python3
"""Install the patched release with SGLang's CUDA requirements, where there is a GPU to use them.

Without an NVIDIA driver nothing is installed: the CUDA stack takes 10 GB and would serve no test.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cpu_runtime.patched import build, is_installed


def has_driver() -> bool:
    """Whether an NVIDIA driver can be loaded here."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    """Install, or say why not; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python tools/gpu_environment.py --rev pin"
    )
    parser.add_argument("--rev", default="pin", help="a supported release (pin)")
    revision = parser.parse_args(arguments).rev
    if not has_driver():
        print(
            "no NVIDIA driver here: SGLang is not installed, and each test that needs a GPU is "
            "skipped",
            file=sys.stderr,
        )
        return 0
    wheels = build(revision)
    if all(is_installed(wheel) for wheel in wheels):
        return 0
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    return subprocess.run([*pip, *map(str, wheels)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
