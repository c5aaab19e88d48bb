"""The model that is served: made from a package if need be, and the KV that it keeps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from formats.models import read_model
from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from hiqcache.geometry import KVGeometry

PACKAGED = "smollm2-135m-instruct"
_WAY_OUT = "give --model the Hugging Face folder of a Llama or Qwen model"


def packaged_model(cache: Path) -> Path:
    """Return the folder of the model that a package carries, and write it if it is not there.

    Parameters
    ----------
    cache
        The folder of what can be had again.
    """
    from cpu_runtime.model import ModelError, prepare_model

    # transformers asks the hub about local folders too, and draws bars on standard error.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        return prepare_model(cache / "models" / PACKAGED)
    except ModelError as error:
        raise ToolError(str(error), "see tools/cpu_runtime/README.md", Exit(error.code)) from error


def model_name(folder: Path) -> str:
    """Return what a model is called: its folder's name, or its own where the hub's cache has it."""
    snapshots, cached = folder.parent, folder.parent.parent.name
    if snapshots.name == "snapshots" and cached.startswith("models--"):
        return cached.removeprefix("models--").replace("--", "/")
    return folder.name


def model_geometry(model: Path, page_size: int) -> KVGeometry:
    """Return the KV geometry that a Hugging Face folder's ``config.json`` describes."""
    return read_model(model / "config.json", _WAY_OUT).geometry(page_size)
