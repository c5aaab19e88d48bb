"""Install the patched SGLang and hiqcache into the environment whose interpreter runs this file.

Their own requirements ask for the CUDA stack, so nothing else is installed with them. An
environment that already has these very wheels is left alone.
"""

import argparse
import hashlib
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]


def build(revision: str) -> list[Path]:
    """Apply the series and write the wheels; apply.py reports what goes wrong."""
    command = [sys.executable, str(TOOLS / "apply.py"), "--rev", revision, "--wheel", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return [Path(wheel) for wheel in json.loads(done.stdout)["wheels"]]


def is_installed(wheel: Path) -> bool:
    """Tell whether the installed distribution came from a wheel of the same bytes (PEP 610)."""
    try:
        installed = importlib.metadata.distribution(wheel.name.split("-")[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    recorded = origin.get("archive_info", {}).get("hashes", {}).get("sha256")
    return recorded == hashlib.sha256(wheel.read_bytes()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Install the patched SGLang and hiqcache, without their requirements.",
        epilog="example: ~/sglang-cpu/bin/python tools/cpu_runtime/patched.py --rev pin",
    )
    parser.add_argument("--rev", default="pin", help="a supported release (pin)")
    wheels = build(parser.parse_args(arguments).rev)
    missing = [str(wheel) for wheel in wheels if not is_installed(wheel)]
    if not missing:
        print("the patched wheels are installed already", file=sys.stderr)
        return 0
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    options = ["--no-deps", "--force-reinstall"]
    return subprocess.run([*pip, *options, *missing], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
