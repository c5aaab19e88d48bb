"""Install the CPU runtime into the environment whose interpreter runs this file.

The runtime stands in for sgl_kernel and, where it is missing, for triton. In an environment that
can use a GPU it would hide the real ones, so it is refused wherever a real kernel package or a
CUDA build is found. Needs the standard library alone.
"""

import argparse
import importlib.metadata
import importlib.util
import runpy
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

PROJECT = Path(__file__).resolve().parent
NAME = "hiqcache-cpu-runtime"
REAL_KERNELS = ("sgl-kernel", "sglang-kernel", "sgl-kernel-cpu")
CUDA_PREFIXES = ("nvidia-", "cuda")

DONE, FINDINGS, REFUSED = 0, 1, 2


def find_distribution(name: str) -> Distribution | None:
    """Return the installed distribution of that name."""
    try:
        return importlib.metadata.distribution(name)
    except PackageNotFoundError:
        return None


def real_kernel() -> str | None:
    """Name the sgl_kernel that is not this runtime's, if the environment has one."""
    for name in REAL_KERNELS:
        if find_distribution(name):
            return f"the distribution {name}"
    spec = importlib.util.find_spec("sgl_kernel")
    if spec is None:
        return None
    location = Path(spec.origin or next(iter(spec.submodule_search_locations or ["sgl_kernel"])))
    installed = find_distribution(NAME)
    if installed and location in installed_files(installed):
        return None
    return str(location)


def installed_files(distribution: Distribution) -> set[Path]:
    """Return the files that the distribution installed."""
    return {Path(str(distribution.locate_file(path))) for path in distribution.files or ()}


def cuda_packages() -> list[str]:
    """Name what makes this a CUDA environment: CUDA distributions, a CUDA build of torch."""
    names = {str(found.metadata["Name"]).lower() for found in importlib.metadata.distributions()}
    packages = sorted(name for name in names if name.startswith(CUDA_PREFIXES))
    torch = find_distribution("torch")
    if torch:
        # torch writes its build into this file, so torch itself need not be imported.
        build = runpy.run_path(str(torch.locate_file("torch/version.py")))
        if build.get("cuda"):
            packages.append(f"torch {torch.version} (built for CUDA {build['cuda']})")
    return packages


def refusal() -> str | None:
    """Say in one line why the runtime must not be in this environment, if it must not."""
    kernel = real_kernel()
    if kernel:
        return (
            f"refused: {sys.prefix} has a real sgl_kernel ({kernel}), which the stand-in would "
            "hide; make an environment from requirements.txt and run install.py with its python"
        )
    packages = cuda_packages()
    if packages:
        return (
            f"refused: {sys.prefix} is a CUDA environment ({', '.join(packages)}); make one from "
            "requirements.txt with PyTorch's CPU index and run install.py with its python"
        )
    return None


def is_current(distribution: Distribution) -> bool:
    """Tell whether each source file is installed as it is here."""
    source = PROJECT / "src"
    files = [path for path in source.rglob("*") if path.suffix in {".py", ".pth"}]
    installed = {
        path: Path(str(distribution.locate_file(path.relative_to(source)))) for path in files
    }
    return all(
        there.is_file() and there.read_bytes() == here.read_bytes()
        for here, there in installed.items()
    )


def run_pip(*arguments: str) -> str | None:
    """Run this environment's pip; return the last line of its complaint if it fails."""
    # Only the environment's own site-packages: --isolated ignores a configured target or user
    # scheme.
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"pip ended with {done.returncode}"


def check() -> tuple[int, str]:
    """Report on the environment without changing it."""
    reason = refusal()
    if reason:
        return REFUSED, reason
    installed = find_distribution(NAME)
    if installed is None:
        return FINDINGS, f"{NAME} is not installed in {sys.prefix}; run install.py"
    if not is_current(installed):
        return FINDINGS, f"{NAME} in {sys.prefix} differs from this source; run install.py"
    return DONE, f"{NAME} {installed.version} is installed in {sys.prefix}"


def install() -> tuple[int, str]:
    """Install the runtime, or replace an older copy of it."""
    code, message = check()
    if code != FINDINGS:
        return code, message
    if importlib.util.find_spec("hatchling") is None:
        return REFUSED, "hatchling is missing: pip install -r requirements.txt first"
    options = ["--no-deps", "--no-build-isolation", "--force-reinstall"]
    complaint = run_pip("install", *options, str(PROJECT))
    if complaint:
        return REFUSED, f"pip did not install {PROJECT}: {complaint}"
    return DONE, f"{NAME} is installed in {sys.prefix}"


def uninstall() -> tuple[int, str]:
    """Remove the runtime if it is there."""
    if find_distribution(NAME) is None:
        return DONE, f"{NAME} is not installed in {sys.prefix}"
    complaint = run_pip("uninstall", "--yes", NAME)
    if complaint:
        return REFUSED, f"pip did not uninstall {NAME}: {complaint}"
    return DONE, f"{NAME} is removed from {sys.prefix}"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Install what lets stock SGLang start on a machine without a GPU.",
        epilog="example: ~/sglang-cpu/bin/python tools/cpu_runtime/install.py\n"
        "exit codes: 0 done, 1 not installed or out of date (--check), 2 refused",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="report, change nothing")
    action.add_argument("--uninstall", action="store_true", help="remove the runtime")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    action = check if options.check else uninstall if options.uninstall else install
    code, message = action()
    print(message, file=sys.stdout if code == DONE else sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
