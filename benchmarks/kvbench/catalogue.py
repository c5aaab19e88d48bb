"""The formats that are measured, in the order of the tables."""

from __future__ import annotations

from importlib.metadata import version

from kvbench.emulations import Affine, BareFp8, Nvfp4
from kvbench.formats import Format, PerTensor, TensorCodec
from kvbench.ours import Ours
from kvbench.peers import (
    BitsandbytesNf4,
    Gguf,
    HqqInt4,
    QuantoInt4,
    TorchaoInt8,
    TorchaoNf4,
)

#: The one without rotation, for bytes that stay the same when a page is encoded again. Where they
#: need not, ``int8-hadamard`` is better in the same bytes, so that this one may be dominated.
PLAIN = "int8"
OURS = ("int8", "int8-hadamard", "k8v4", "int4")

_PEERS: tuple[tuple[str, str, TensorCodec], ...] = (
    ("gguf q8_0", "gguf", Gguf("Q8_0")),
    ("gguf q5_0", "gguf", Gguf("Q5_0")),
    ("gguf q4_1", "gguf", Gguf("Q4_1")),
    ("gguf q4_0", "gguf", Gguf("Q4_0")),
    ("quanto int4", "optimum-quanto", QuantoInt4()),
    ("torchao int8", "torchao", TorchaoInt8()),
    ("torchao nf4", "torchao", TorchaoNf4()),
    ("bitsandbytes nf4", "bitsandbytes", BitsandbytesNf4()),
    ("hqq int4", "hqq", HqqInt4()),
)

#: KIVI's axes: a key channel over a page of 32 tokens, a value head of one token.
_EMULATIONS: tuple[tuple[str, TensorCodec, TensorCodec], ...] = (
    ("LMCache fp8 (emulated)", BareFp8(), BareFp8()),
    ("NVFP4 pages (emulated)", Nvfp4(), Nvfp4()),
    ("KIVI-axes int4 (emulated)", Affine(4, tokens=32), Affine(4, tokens=1)),
    ("KIVI-axes int3 (emulated)", Affine(3, tokens=32), Affine(3, tokens=1)),
)

#: What a test has the time for.
QUICK = ("int8", "gguf q8_0", "gguf q4_0", "NVFP4 pages (emulated)")


def ours() -> list[Format]:
    """Return the library's codecs."""
    return [Ours(name) for name in OURS]


def others() -> list[Format]:
    """Return other projects' formats, which need their packages."""
    return [
        PerTensor(name, "peer", f"{package} {version(package)}", codec, codec)
        for name, package, codec in _PEERS
    ]


def emulated() -> list[Format]:
    """Return the formats that are emulated."""
    return [PerTensor(name, "emulation", "", keys, values) for name, keys, values in _EMULATIONS]


def all_formats() -> list[Format]:
    """Return every format."""
    return [*ours(), *others(), *emulated()]


def quick_formats() -> list[Format]:
    """Return the few that a test measures."""
    return [form for form in all_formats() if form.name in QUICK]
