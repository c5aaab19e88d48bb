"""The one error that the tools raise on purpose: a line, the way out and an exit code."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What an exit code of a patch-stack tool means."""

    DONE = 0
    FINDINGS = 1
    USAGE = 2
    USER_CHANGES = 3
    UPSTREAM = 4
    INTERRUPTED = 130


class ToolError(Exception):
    """Something that a user can cause and put right.

    Parameters
    ----------
    message
        What is wrong, naming the file, commit or option.
    hint
        The next command or step.
    exit_code
        What the process returns.
    """

    def __init__(self, message: str, hint: str, exit_code: Exit) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        """Return the one line, whatever line breaks the parts came with."""
        return " ".join(f"{self.message}; {self.hint}".split())
