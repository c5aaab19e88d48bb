"""What a tool tells while it works: plain lines on standard error, which a script may ignore."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Progress lines, or none where the user asked for quiet."""

    quiet: bool = False

    @property
    def live(self) -> bool:
        """Whether a person watches, so that a download may draw its own bar."""
        return not self.quiet and sys.stderr.isatty()

    def say(self, line: str) -> None:
        """Print one line."""
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)
