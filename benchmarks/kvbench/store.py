"""Scores on disk, one line each, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from kvbench.metrics import Score


@dataclass(frozen=True)
class Key:
    """What a score is of. A score whose key differs in anything is not used again.

    Parameters
    ----------
    setting
        The model and how it is computed.
    format, made
        The format, and the digest of what it makes of a fixed draw.
    document, window
        The text's digest, and which of its windows.
    """

    setting: str
    format: str
    made: str
    document: str
    window: int


@dataclass(frozen=True)
class Measured:
    """A format's score on one window.

    Parameters
    ----------
    held
        Bytes that the format held.
    elements
        Numbers that they stood for.
    score
        What the model made of them.
    """

    held: int
    elements: int
    score: Score


class Store:
    """Scores by their keys.

    Parameters
    ----------
    file
        Where they are kept; made with its folder at the first score.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[Key, Measured] = {}
        if file.exists():
            for line in file.read_text(errors="replace").splitlines():
                self._read(line)

    def __contains__(self, key: Key) -> bool:
        return key in self._found

    def __getitem__(self, key: Key) -> Measured:
        return self._found[key]

    def add(self, key: Key, measured: Measured) -> None:
        """Keep a score, on disk before anything else is measured."""
        self._found[key] = measured
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as stream:
            # The line break comes first, so that a line that was cut short spoils no other.
            stream.write("\n" + json.dumps([asdict(key), asdict(measured)]))

    def _read(self, line: str) -> None:
        try:
            key, measured = json.loads(line)
            score = Score(**measured.pop("score"))
            self._found[Key(**key)] = Measured(**measured, score=score)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            return  # what an interruption left of the last line, or no score
