"""How tests look at a refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from patchstack.errors import ToolError


def refusal(action: Callable[[], object]) -> ToolError:
    """Return the error that an action ends in, which is one line."""
    with pytest.raises(ToolError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return caught.value
