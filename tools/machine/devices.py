"""What torch sees of the GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from machine.asked import Asked
from machine.finding import Finding, failed, passed, skipped

#: "SGLang only supports sm75 and above" (``load_model_utils.py``).
LOWEST_CAPABILITY = (7, 5)


@dataclass(frozen=True)
class Device:
    """A GPU.

    Parameters
    ----------
    name : str
        Its model.
    capability : tuple of int
        Its compute capability.
    memory : int
        Bytes.
    """

    name: str
    capability: tuple[int, int]
    memory: int


@dataclass(frozen=True)
class Torch:
    """What torch was built for, and what it can use.

    Parameters
    ----------
    version : str
        Its release.
    cuda : str, optional
        The CUDA that it was built with; None for a build without.
    devices : tuple of Device
        What it can use.
    problem : str
        Why it can use none.
    """

    version: str
    cuda: str | None
    devices: tuple[Device, ...] = ()
    problem: str = ""

    @property
    def cuda_major(self) -> int:
        """The release family of CUDA; 0 without."""
        return int(self.cuda.partition(".")[0]) if self.cuda else 0


def read_torch() -> Torch:
    """Ask torch for its devices, each proven to hold a value and to give it back."""
    import torch

    version, cuda = torch.__version__, torch.version.cuda
    if cuda is None:
        return Torch(version, None, problem="torch is a build without CUDA")
    devices = []
    try:
        torch.cuda.init()  # is_available would keep the reason to itself
        for number in range(torch.cuda.device_count()):
            torch.ones(1, device=f"cuda:{number}").cpu()
            found = torch.cuda.get_device_properties(number)
            capability = found.major, found.minor
            devices.append(Device(found.name, capability, found.total_memory))
    except (RuntimeError, AssertionError) as error:
        return Torch(version, cuda, problem=str(error).splitlines()[0])
    return Torch(version, cuda, tuple(devices), "" if devices else "there is none")


def check_devices(asked: Asked, torch: Torch, has_driver: bool) -> Finding:
    """Whether there is a GPU for each rank here that SGLang can use.

    Parameters
    ----------
    asked : Asked
        What is to be served.
    torch : Torch
        What torch sees.
    has_driver : bool
        Whether an NVIDIA driver is here.
    """
    if not torch.devices:
        if not has_driver:
            return skipped("devices", f"no GPU here: {torch.problem}", "rent a machine with one")
        step = "give the container its GPUs (docker run --gpus all), look at CUDA_VISIBLE_DEVICES"
        step = step if torch.cuda else "see driver"
        return failed("devices", f"torch can use no GPU: {torch.problem}", step)
    told = ", ".join(f"{d.name} (sm_{d.capability[0]}{d.capability[1]})" for d in torch.devices)
    if len(torch.devices) < asked.ranks_here:
        missing = f"{len(torch.devices)} for {asked.ranks_here} ranks: {told}"
        return failed("devices", missing, "choose a smaller --tp, or --nodes")
    lowest = min(device.capability for device in torch.devices)
    if lowest < LOWEST_CAPABILITY:
        return failed("devices", f"{told}; SGLang serves on sm_75 and above", "rent a newer GPU")
    note = "" if lowest >= (8, 0) else "; SGLang serves FP16 in place of BF16 below sm_80"
    return passed("devices", f"{told}{note}")
