"""What every unit test runs under."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

settings.register_profile("unit", deadline=None)  # a busy machine is no failure
settings.load_profile("unit")


@pytest.fixture(autouse=True, scope="session")
def _one_torch_thread() -> Iterator[None]:
    """Small tensors on a busy machine: threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
