"""What a device makes of the fixed vectors, as digests that another device's are compared with.

Units are digested whole, padding included. Of restored rows every NaN is first made the same one:
devices keep different payload bits of a NaN when they convert it, and no format promises them.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from formats.catalogue import built_in
from formats.vectors import NUMBERS, Number, rows
from hiqcache.codecs import codec_class
from hiqcache.geometry import KVGeometry
from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from hiqcache.codecs import KVCodec
    from patchstack.report import Progress

#: KV heads, and the values of a head of K and of V.
SHAPES = (
    (8, 128, 128), (3, 64, 64), (2, 80, 80), (1, 96, 96), (4, 112, 112), (2, 192, 192),
    (1, 256, 256), (2, 192, 128), (3, 64, 96),
)  # fmt: skip
PAGE_SIZES = (1, 16, 64)
_GARBAGE = 0xA5
#: Bytes between two units, or two heads, that are not laid out without gaps.
_GAP = 128


@dataclass(frozen=True)
class Manifest:
    """The digests that a device gave.

    Parameters
    ----------
    made_with : dict
        The device and the release of torch, for the reader.
    inputs : dict
        For each shape and type, the digest of K and V.
    vectors : dict
        For each format, input and page size, the digests of ``units`` and of restored ``rows``.
    """

    made_with: dict[str, str]
    inputs: dict[str, str]
    vectors: dict[str, dict[str, str]]

    def to_json(self) -> str:
        """Return the manifest as JSON."""
        return json.dumps(asdict(self), indent=1)

    def of_format(self, name: str) -> tuple[int, str]:
        """How many vectors one format has, and a digest of their digests."""
        own = {key: made for key, made in self.vectors.items() if key.startswith(f"{name}/")}
        return len(own), hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Inputs:
    """K and V of one shape and type."""

    name: str
    keys: torch.Tensor
    values: torch.Tensor
    number: Number

    def geometry(self, page_size: int) -> KVGeometry:
        """The rows as one layer of a KV cache."""
        heads, dim = self.keys.shape[1:]
        return KVGeometry(1, heads, dim, self.values.shape[2], page_size, self.number.dtype)


def fixed_inputs() -> Iterator[Inputs]:
    """Yield every shape in every type."""
    for (heads, dim, v_dim), (kind, number) in product(SHAPES, NUMBERS.items()):
        width = f"{dim}" if dim == v_dim else f"{dim}-{v_dim}"
        keys, values = rows(heads, dim, number, 0), rows(heads, v_dim, number, 7919)
        yield Inputs(f"{heads}x{width}-{kind}", keys, values, number)


def make_manifest(device: torch.device, strided: bool, progress: Progress) -> Manifest:
    """Encode and decode every vector.

    Parameters
    ----------
    device : torch.device
        Where the codecs run.
    strided : bool
        Whether rows and units have gaps between them, as views of larger tensors.
    progress : Progress
        Where progress goes.
    """
    inputs, vectors = {}, {}
    for given in fixed_inputs():
        inputs[given.name] = digest(given.keys, given.values)
        for name, page_size in product(built_in(), PAGE_SIZES):
            codec = codec_class(name)(given.geometry(page_size))
            made = digest_units(codec, given, device, strided)
            vectors[f"{name}/{given.name}/p{page_size}"] = made
        progress.say(f"{given.name} done")
    made_with = {"device": str(device), "torch": torch.__version__}
    return Manifest(made_with, inputs, dict(sorted(vectors.items())))


def digest_units(
    codec: KVCodec, given: Inputs, device: torch.device, strided: bool
) -> dict[str, str]:
    """Encode rows, decode what came of it, and digest both."""
    pages = [x.unflatten(0, (-1, codec.geometry.page_size)) for x in (given.keys, given.values)]
    count = pages[0].shape[0]
    gap = _GAP if strided else 0
    keys, values = (_laid_out(x.to(device), gap) for x in pages)
    units = torch.empty((count, codec.unit.unit_bytes), dtype=torch.uint8, device=device)
    units = _laid_out(units.fill_(_GARBAGE), gap)
    workspace = codec.workspace(count, device)
    codec.encode(keys, values, units, workspace)
    k, v = (_laid_out(torch.full_like(x, -7.0), gap) for x in (keys, values))
    codec.decode(units, k, v, workspace)
    settled = (_without_payloads(x.cpu(), given.number) for x in (k, v))
    return {"units": digest(units.cpu()), "rows": digest(*settled)}


def _laid_out(x: torch.Tensor, gap: int) -> torch.Tensor:
    """The same values in memory with a gap behind each last dimension."""
    wide = torch.empty((*x.shape[:-1], x.shape[-1] + gap), dtype=x.dtype, device=x.device)
    return wide[..., : x.shape[-1]].copy_(x)


def _without_payloads(x: torch.Tensor, number: Number) -> torch.Tensor:
    return x.contiguous().view(torch.int16).masked_fill(x.isnan(), number.nan)


def digest(*tensors: torch.Tensor) -> str:
    """SHA-256 of the bytes of CPU tensors, one after another."""
    sha = hashlib.sha256()
    for tensor in tensors:
        whole = tensor.contiguous()
        sha.update(ctypes.string_at(whole.data_ptr(), whole.nbytes))
    return sha.hexdigest()


def read_manifest(file: Path) -> Manifest:
    """Read what :meth:`Manifest.to_json` wrote."""
    try:
        manifest = Manifest(**json.loads(file.read_text("utf-8")))
        _refuse_other_types(manifest)
        return manifest
    except (ValueError, TypeError, RecursionError) as error:
        hint = "give --expect a file that generate --json wrote"
        raise ToolError(f"{file} is no manifest ({error})", hint, Exit.USAGE) from None


def _refuse_other_types(manifest: Manifest) -> None:
    """Raise for what would only be found when the minutes of a comparison are over."""
    for name, part in asdict(manifest).items():
        if not isinstance(part, dict):
            raise TypeError(f"{name} is no table")
    for name, made in manifest.vectors.items():
        if name.count("/") != 2 or not isinstance(made, dict) or made.keys() != {"units", "rows"}:
            raise ValueError(f"{name!r} is no vector")


def differences(expected: Manifest, found: Manifest) -> list[str]:
    """Name what differs: the inputs, then the vectors whose inputs are the same."""
    wrong = [
        f"input {name} {how}: its vectors are other ones, and say nothing of a format"
        for name, how in _compared(expected.inputs, found.inputs)
    ]
    same = {name for name in found.inputs if expected.inputs.get(name) == found.inputs[name]}
    for part in ("units", "rows"):
        before, after = (_part(m, part, same) for m in (expected, found))
        wrong += [f"{name}: {part} {how}" for name, how in _compared(before, after)]
    return wrong


def _part(manifest: Manifest, part: str, inputs: set[str]) -> dict[str, Any]:
    """One digest of each vector of these inputs."""
    vectors = manifest.vectors.items()
    return {name: made[part] for name, made in vectors if name.split("/")[1] in inputs}


def _compared(expected: dict[str, Any], found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            yield name, "was not made"
        elif name not in expected:
            yield name, "is not expected"
        elif expected[name] != found[name]:
            yield name, "differs"
