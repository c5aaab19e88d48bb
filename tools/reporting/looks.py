"""How a configuration is drawn: always alike, and told apart without colour by dash and mark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evidence.record import NO_L2, RAW

_KNOWN: dict[str, tuple[str, Any, str]] = {
    NO_L2: ("#8a8a8a", ":", "x"),
    RAW: ("black", "-", "o"),
    "int8": ("#1f6fb4", "--", "s"),
    "int8-hadamard": ("#c2571a", "-.", "^"),
    "k8v4": ("#3c8d40", (0, (6, 1, 1, 1, 1, 1)), "D"),
    "int4": ("#7a4fa3", (0, (3, 1)), "v"),
}
_OTHERS: tuple[tuple[str, Any, str], ...] = (
    ("#a8323e", (0, (1, 3)), "P"),
    ("#4a4a4a", (0, (8, 3)), "*"),
    ("#008080", (0, (5, 1, 1, 3)), "<"),
    ("#946a00", (0, (2, 2, 6, 2)), ">"),
)
#: A configuration without a line of its own is told by its marks' numbers.
_LINE = {"markersize": 5, "linewidth": 1.4}
LONGEST_NAME = 32


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the line of each name, for matplotlib."""
    found: dict[str, dict[str, Any]] = {}
    others = 0
    for name in names:
        look = _KNOWN.get(name)
        if look is None:
            color, dashes, marker = _OTHERS[others % len(_OTHERS)]
            if others >= len(_OTHERS):  # marked by its number, which no other has
                marker = f"${others}$"
            others += 1
        else:
            color, dashes, marker = look
        found[name] = {
            "color": color, "linestyle": dashes, "marker": marker, "label": short(name), **_LINE,
        }  # fmt: skip
    return found


def short(name: str) -> str:
    """Cut a name that a legend has no room for."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
