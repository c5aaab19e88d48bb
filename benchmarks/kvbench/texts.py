"""The texts that are scored: files of pinned packages, so that every machine scores the same.

The prose is out of copyright. Nothing of any text is kept here: ``texts.toml`` says where each
lies and its digest. A file that differs is refused, for its figures could not be compared.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

LIST = Path(__file__).with_name("texts.toml")
GROUPS = ("prose", "code", "reference")


class TextDiffersError(Exception):
    """A text is not installed, or is not the one that was chosen."""


@dataclass(frozen=True)
class Document:
    """One text: the unit over which confidence intervals are taken.

    Parameters
    ----------
    name
        Short and unique.
    group
        Its domain, one of :data:`GROUPS`.
    requirement
        The package that carries it, pinned.
    path
        The file, relative to where the package is installed.
    start
        What the scored part starts with: before it stands a title, a licence or a table of badges.
    sha256
        Of the file.
    """

    name: str
    group: str
    requirement: str
    path: str
    start: str
    sha256: str

    def read(self) -> str:
        """Return the text from ``start`` on, with plain line ends.

        Raises
        ------
        TextDiffersError
            If the package is not installed, or carries another text.
        """
        content = self._content()
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise TextDiffersError(
                f"{self.name}: {self.path} is not the file of {self.requirement}"
            )
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
        return text[text.index(self.start) :]

    def _content(self) -> bytes:
        try:
            package = distribution(self.requirement.partition("==")[0])
            return Path(str(package.locate_file(self.path))).read_bytes()
        except (PackageNotFoundError, FileNotFoundError) as error:
            raise TextDiffersError(f"{self.name}: {self.requirement} is not installed") from error


def documents() -> list[Document]:
    """Return every text, in the order of the list."""
    return [Document(**entry) for entry in tomllib.loads(LIST.read_text())["document"]]


def quick_documents() -> list[Document]:
    """Return the two that a test scores: prose and code."""
    chosen = documents()
    return [next(text for text in chosen if text.group == group) for group in GROUPS[:2]]
