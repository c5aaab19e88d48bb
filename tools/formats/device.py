"""The device that a user names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    import torch


def usable_device(name: str) -> torch.device:
    """Return the device, proven to hold a value and give it back."""
    import torch

    try:
        device = torch.device(name)
        torch.ones(1, device=device).cpu()
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for it
        reason = str(error).splitlines()[0].split(". ")[0]
        raise ToolError(
            f"--device {name} cannot be used: {reason}", "try --device cpu", Exit.USAGE
        ) from error
    return device
