"""The measurement: each format on each window, beside the same window with BF16 KV."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import torch

from kvbench import metrics
from kvbench import model as modelling
from kvbench.formats import Format, fingerprint, held_bytes
from kvbench.metrics import Score, compare
from kvbench.model import KV, PREFIX, Model
from kvbench.store import Key, Measured, Store
from kvbench.texts import Document


class NotDeterministicError(RuntimeError):
    """The same KV was scored differently twice, so that no small difference means anything."""


def setting(model_digest: str) -> str:
    """Digest of what every score depends on: the model, the method, the packages."""
    digest = hashlib.sha256(model_digest.encode())
    for module in (modelling, metrics):
        digest.update(Path(str(module.__file__)).read_bytes())
    for package in ("torch", "transformers", "tokenizers"):
        digest.update(version(package).encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Window:
    """A window of a text, with what its prefix fills and BF16 KV predicts, once each is needed."""

    model: Model
    tokens: torch.Tensor

    @cached_property
    def kv(self) -> KV:
        """The KV of the prefix."""
        return self.model.prefill(self.tokens)

    @cached_property
    def reference(self) -> torch.Tensor:
        """The prediction with BF16 KV."""
        return self.model.score(self.tokens, self.kv)

    def score(self, kv: KV) -> Score:
        """Score ``kv`` against the BF16 KV."""
        found = self.model.score(self.tokens, kv)
        return compare(self.reference, found, self.tokens[PREFIX + 1 :])

    def measure(self, form: Format) -> Measured:
        """Score what ``form`` makes of the KV."""
        held = form.encode(self.kv.keys, self.kv.values)
        score = self.score(KV(*form.decode(held)))
        return Measured(held_bytes(held), self.kv.elements, score)


@dataclass(frozen=True)
class Run:
    """What a run measures.

    Parameters
    ----------
    setting
        From :func:`setting`.
    documents
        The texts.
    windows
        How many of each.
    formats
        The formats.
    """

    setting: str
    documents: Sequence[Document]
    windows: int
    formats: Sequence[Format]

    def key(self, form: Format, document: Document, window: int) -> Key:
        """Return where a score is kept."""
        return Key(self.setting, form.name, self.made[form.name], document.sha256, window)

    @cached_property
    def made(self) -> dict[str, str]:
        """Digest of what each format makes of a fixed draw."""
        return {form.name: fingerprint(form) for form in self.formats}

    def fill(self, store: Store, model: Model, say: Callable[[str], None]) -> None:
        """Measure what the store lacks, telling which text is done."""
        for number, document in enumerate(self.documents, 1):
            text = document.read()  # checked, even where all is in the store
            for index, tokens in enumerate(model.windows(text, self.windows)):
                self._fill_window(Window(model, tokens), document, index, store)
            say(f"{number}/{len(self.documents)} {document.name}")

    def _fill_window(self, window: Window, document: Document, index: int, store: Store) -> None:
        keys = {form: self.key(form, document, index) for form in self.formats}
        lacking = [form for form in self.formats if keys[form] not in store]
        if lacking and index == 0 and window.score(window.kv).divergence != 0.0:
            raise NotDeterministicError(
                f"{document.name}: the same KV was scored differently twice"
            )
        for form in lacking:
            store.add(keys[form], window.measure(form))
