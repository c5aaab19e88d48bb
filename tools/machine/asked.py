"""What is to be served: a model with a codec, on some ranks, with a budget of host memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from formats.capacity import Deployment
from formats.models import PRESETS, Model, read_model
from hiqcache.codecs import codec_names, make_codec
from patchstack.errors import Exit, ToolError

if TYPE_CHECKING:
    from hiqcache.codecs import KVCodec


@dataclass(frozen=True)
class Asked:
    """What the machine has to be ready for.

    Parameters
    ----------
    served : Deployment
        The model, its ranks and its pages.
    codec : str
        Value of ``--hicache-l2-codec``.
    size_gb : int
        Value of ``--hicache-size``: decimal gigabytes of each rank.
    nodes : int
        Machines that share the ranks.
    """

    served: Deployment
    codec: str
    size_gb: int
    nodes: int

    @property
    def ranks_here(self) -> int:
        """Ranks on this machine, as SGLang places them."""
        return max(self.served.tp // self.nodes, 1)

    def made(self) -> KVCodec:
        """Return the codec for a rank's KV cache.

        Raises
        ------
        ValueError
            If it cannot serve that.
        """
        return make_codec(self.codec, self.served.rank)


def asked(model: str, codec: str, page_size: int, tp: int, nodes: int, size_gb: int) -> Asked:
    """Return what the options of a command line ask for, refused in one line if that is nothing."""
    if codec not in codec_names():
        known = ", ".join(codec_names())
        raise ToolError(f"--codec {codec} is unknown", f"choose {known}", Exit.USAGE)
    if tp % nodes:
        told = f"--tp {tp} ranks do not divide among --nodes {nodes}"
        raise ToolError(told, "choose other numbers", Exit.USAGE)
    try:
        served = Deployment(model, find_model(model), tp, page_size)
    except ValueError as error:
        raise ToolError(f"--tp {tp}: {error}", "choose another --tp", Exit.USAGE) from error
    return Asked(served, codec, size_gb, nodes)


def find_model(name: str) -> Model:
    """Return a model by its folder, or by a name that is known, as its hub has it or as it is."""
    way_out = f"give a folder with a config.json, or one of {', '.join(PRESETS)}"
    if (folder := Path(name)).is_dir():
        return read_model(folder / "config.json", way_out)
    if model := PRESETS.get(name.rpartition("/")[2].lower()):
        return model
    raise ToolError(f"--model {name} is neither a folder nor a known model", way_out, Exit.USAGE)
