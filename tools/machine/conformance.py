"""The codec's bytes on this device, against those that were committed."""

from __future__ import annotations

from pathlib import Path

from formats.catalogue import built_in
from formats.device import usable_device
from formats.digests import (
    PAGE_SIZES,
    Manifest,
    differences,
    digest,
    digest_units,
    fixed_inputs,
    read_manifest,
)
from hiqcache.codecs import codec_class
from machine.finding import Finding, failed, passed, skipped
from patchstack.context import Context
from patchstack.errors import ToolError

#: From the root of the project.
MANIFEST = "tests/fixtures/conformance.json"


def check_conformance(codec: str, device: str, manifest: Path | None = None) -> Finding:
    """Whether the device encodes and decodes the fixed vectors to the committed bytes.

    Parameters
    ----------
    codec : str
        Value of ``--hicache-l2-codec``.
    device : str
        Where it runs.
    manifest : Path, optional
        Another manifest than the committed one.
    """
    if codec not in built_in():
        told = f"{codec} is another package's, and the manifest has none of its vectors"
        return skipped("conformance", told, "ask that package for its own")
    try:
        expected = _of_codec(read_manifest(manifest or Context.default().root / MANIFEST), codec)
        found = _made(codec, device)
    except (ToolError, OSError, RuntimeError) as error:
        return failed("conformance", str(error), "restore the manifest, and see devices")
    if wrong := differences(expected, found):
        told = f"{len(wrong)} differences on {device}; {wrong[0]}"
        step = f"do not serve {codec} here; tools/conformance.py generate --device {device}"
        return failed("conformance", told, f"{step} --expect {MANIFEST} names them all")
    told = f"{len(found.vectors)} vectors of {codec} have the committed bytes on {device}"
    return passed("conformance", told)


def _of_codec(manifest: Manifest, codec: str) -> Manifest:
    own = {name: made for name, made in manifest.vectors.items() if name.startswith(f"{codec}/")}
    return Manifest(manifest.made_with, manifest.inputs, own)


def _made(codec: str, device: str) -> Manifest:
    """Digest the vectors of one codec."""
    found, place = Manifest({}, {}, {}), usable_device(device)
    for given in fixed_inputs():
        found.inputs[given.name] = digest(given.keys, given.values)
        for page in PAGE_SIZES:
            made = digest_units(codec_class(codec)(given.geometry(page)), given, place, False)
            found.vectors[f"{codec}/{given.name}/p{page}"] = made
    return found
