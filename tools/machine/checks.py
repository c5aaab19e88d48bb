"""All of the checks, in the order in which their next steps are taken."""

from __future__ import annotations

from collections.abc import Iterator

from machine.asked import Asked
from machine.compilers import check_compilers, read_compilers
from machine.conformance import check_conformance
from machine.devices import Torch, check_devices, read_torch
from machine.driver import check_driver, read_driver
from machine.finding import Finding, failed, skipped
from machine.fit import check_capacity, check_codec, check_rows
from machine.installed import check_library, check_requirements, check_sglang, read_installed
from machine.memory import available_bytes, check_memory
from machine.pinning import check_pinning, check_shared, locked_limit, shared_bytes
from machine.pool import MOVER, ROUND_TRIP, check_pool

_LONG = ("conformance", MOVER, ROUND_TRIP)


def check_machine(asked: Asked, quick: bool) -> Iterator[Finding]:
    """Make every check, and yield what it says as soon as it says it.

    Parameters
    ----------
    asked : Asked
        What the machine has to be ready for.
    quick : bool
        Whether to leave out what takes more than a few seconds.
    """
    torch, driver, installed = read_torch(), read_driver(), read_installed()
    yield check_codec(asked)
    yield check_rows(asked)
    yield check_capacity(asked)
    yield check_memory(asked, available_bytes())
    yield check_driver(torch, driver)
    yield check_devices(asked, torch, driver is not None)
    yield _pinning(asked, torch)
    yield check_shared(asked, shared_bytes())
    yield check_compilers(torch, read_compilers())
    yield check_sglang(installed)
    yield check_library(installed)
    yield check_requirements(installed, torch)
    if quick:
        for check in _LONG:
            yield skipped(check, "--quick", "leave --quick out")
        return
    yield check_conformance(asked.codec, "cuda" if torch.devices else "cpu")
    yield from check_pool(asked, torch, installed)


def _pinning(asked: Asked, torch: Torch) -> Finding:
    try:
        return check_pinning(asked, torch, locked_limit())
    except (OSError, RuntimeError, AssertionError) as error:  # torch asserts that it has CUDA
        return failed("pinning", f"{type(error).__name__}: {error}", "see host memory and devices")
