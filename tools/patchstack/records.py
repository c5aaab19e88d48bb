"""``patches/resolutions/``: what the user did in earlier rebases, file by file.

A conflict that was resolved and nothing more is kept by itself (`patchstack.resolutions`), so that
it can return in another surrounding; whatever else was done to a patch is kept whole
(`patchstack.reworks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import Exit, ToolError
from patchstack.resolutions import Resolution
from patchstack.reworks import Rework

Record = Resolution | Rework
_KINDS: dict[str, type[Resolution] | type[Rework]] = {".toml": Resolution, ".patch": Rework}


@dataclass(frozen=True)
class Records:
    """What may be used.

    Parameters
    ----------
    resolutions
        By the keys of their conflicts.
    reworks
        By their names.
    """

    resolutions: dict[str, Resolution]
    reworks: dict[str, Rework]

    @classmethod
    def of(cls, *records: Record) -> Records:
        """Sort records; of two for the same, the later one counts."""
        return cls(
            {each.key: each for each in records if isinstance(each, Resolution)},
            {each.name: each for each in records if isinstance(each, Rework)},
        )

    def holds(self, record: Record) -> bool:
        """Return whether the same was recorded for the same already."""
        if isinstance(record, Rework):
            return self.reworks.get(record.name) == record
        known = self.resolutions.get(record.key)
        return known is not None and known.resolved == record.resolved


def parse_record(name: str, data: bytes) -> Record:
    """Read the content of a file; ValueError, KeyError or the like if it cannot be right."""
    return _KINDS[Path(name).suffix].parse(data)


def read_records(folder: Path) -> tuple[Record, ...]:
    """Return everything that is recorded."""
    found = []
    for path in sorted(folder.glob("*")):
        if path.suffix not in _KINDS:
            continue
        try:
            found.append(parse_record(path.name, path.read_bytes()))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ToolError(
                f"patches/{folder.name}/{path.name} cannot be used:"
                f" {type(error).__name__}: {error}",
                "restore it with git checkout, remove it, or run with --no-resolutions",
                Exit.UPSTREAM,
            ) from None
    return tuple(found)
