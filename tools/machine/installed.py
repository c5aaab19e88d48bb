"""SGLang, its patches, hiqcache, and the versions that SGLang requires."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path

from machine.devices import Torch
from machine.finding import Finding, failed, passed, skipped
from patchstack.context import Context
from patchstack.revisions import load_revisions
from patchstack.wheel import own_version
from serving.environment import PATCHED

_INSTALL = "install the wheels that tools/apply.py --rev pin --wheel writes"
_NAMED = 3


@dataclass(frozen=True)
class Installed:
    """What this interpreter imports.

    Parameters
    ----------
    sglang : Path, optional
        The folder of SGLang; None where there is none.
    patched : bool
        Whether the series is in it.
    version : str, optional
        Its release, if it was installed: a source tree does not tell.
    requirements : tuple of str
        What its wheel requires.
    hiqcache : str, optional
        The release of the library, if that was installed.
    """

    sglang: Path | None = None
    patched: bool = False
    version: str | None = None
    requirements: tuple[str, ...] = ()
    hiqcache: str | None = None


def read_installed() -> Installed:
    """Look for SGLang and hiqcache without importing them."""
    try:
        library: str | None = version("hiqcache")
    except PackageNotFoundError:
        library = None
    spec = find_spec("sglang")
    if spec is None or spec.origin is None:
        return Installed(hiqcache=library)
    folder = Path(spec.origin).resolve().parent
    patched, wheel = (folder / PATCHED).is_file(), _wheel_of(folder)
    if wheel is None:
        return Installed(folder, patched, hiqcache=library)
    return Installed(folder, patched, wheel.version, tuple(wheel.requires or ()), library)


def _wheel_of(folder: Path) -> Distribution | None:
    """Return what installed this folder; another SGLang may lie before it in the path."""
    try:
        found = distribution("sglang")
    except PackageNotFoundError:
        return None
    return found if Path(str(found.locate_file("sglang"))).resolve() == folder else None


def check_sglang(found: Installed) -> Finding:
    """Whether SGLang is here, and a release that this checkout patches."""
    if found.sglang is None:
        return skipped("sglang", "SGLang is not installed here", _INSTALL)
    if not found.patched:
        what = f"{found.version or 'a source tree'} in {found.sglang} is not patched"
        return failed("sglang", what, f"{_INSTALL}, and uninstall the other one")
    if found.version is None:
        return passed("sglang", f"a patched source tree, {found.sglang}")
    releases = load_revisions(Context.default().revisions_file).in_order
    known = [release.patched_version for release in releases]
    if found.version not in known:
        told = f"{found.version} is patched, but not by this checkout ({', '.join(known)})"
        return failed("sglang", told, _INSTALL)
    return passed("sglang", f"{found.version}, patched")


def check_library(found: Installed) -> Finding:
    """Whether SGLang, hiqcache and these tools belong together."""
    if not found.patched or (found.version is None and found.hiqcache is None):
        why = "no installed patched SGLang that would say which hiqcache it needs"
        return skipped("hiqcache", why, "see sglang")
    tools = own_version(Context.default().root)
    if found.hiqcache != tools:
        told = f"{found.hiqcache or 'none'} is installed, and these tools are of {tools}"
        return failed("hiqcache", told, _INSTALL)
    own = [text for text in found.requirements if text.startswith("hiqcache")]
    if wrong := unmet(own):
        return failed("hiqcache", f"SGLang requires {'; '.join(wrong)}", _INSTALL)
    wanted = f", as SGLang requires ({own[0]})" if own else ""
    return passed("hiqcache", f"{found.hiqcache}, that of these tools{wanted}")


def check_requirements(found: Installed, torch: Torch) -> Finding:
    """Whether the versions are here that SGLang's wheel requires."""
    if not found.requirements:
        why = "no installed SGLang that would say what it requires"
        return skipped("requirements", why, "see sglang")
    if not torch.devices:
        why = "no CUDA device; on a CPU SGLang runs without most of what it requires"
        return skipped("requirements", why, "see devices")
    wrong = unmet(found.requirements)
    if wrong:
        told = f"{len(wrong)} of {len(found.requirements)} are not met: {'; '.join(wrong[:_NAMED])}"
        told += "; ..." if len(wrong) > _NAMED else ""
        return failed("requirements", told, f"{_INSTALL}, without --no-deps")
    return passed("requirements", f"all of SGLang {found.version}'s are met: {_matrix(found)}")


def _matrix(found: Installed) -> str:
    """The requirements that decide what a machine must have."""
    deciding = ("torch=", "sglang-kernel=", "flashinfer", "transformers=", "cuda-python")
    return ", ".join(text for text in found.requirements if text.startswith(deciding))


def unmet(requirements: Iterable[str]) -> list[str]:
    """Name the requirements that this environment does not meet, each with what is here."""
    from packaging.requirements import Requirement

    wrong = []
    for text in requirements:
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            here = version(wanted.name)
        except PackageNotFoundError:
            wrong.append(f"{wanted.name}{wanted.specifier} (not installed)")
            continue
        if not wanted.specifier.contains(here, prereleases=True):
            wrong.append(f"{wanted.name}{wanted.specifier} ({here} is installed)")
    return wrong
