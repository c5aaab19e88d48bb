#!/usr/bin/env python3
"""Print what a model's host cache holds, raw and with each codec.

Bytes per token are of all layers, K and V, with the padding, which is also listed. Tokens are what
SGLang makes of --hicache-size: whole pages, and one page more than the budget holds. A model with
fewer KV heads than ranks has each head on several of them, as in SGLang.

Exit codes: 0 done, 2 usage.
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))
# After what is installed: the library of this checkout serves where none is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from formats.models import LARGEST, PRESETS, read_model
from patchstack.command import INSTALL_TORCH, Parser, run
from patchstack.errors import Exit, ToolError
from serving.delivery import add_json_option, deliver, refuse_unwritable

if TYPE_CHECKING:
    from formats.capacity import Capacity, Deployment, Refused

EXAMPLE = """\
examples:
  tools/capacity.py --model qwen3-8b --page-size 64 --size 8 16 32
  tools/capacity.py --config path/to/config.json --tp 4 --codec int4 --plot capacity.svg
"""


def positive(kind: type[int] | type[float], text: str) -> float:
    """Parse a number above zero that a machine could have."""
    number = kind(text)
    if not number > 0:
        raise ArgumentTypeError(f"{text} is not above zero")
    if number > LARGEST:
        raise ArgumentTypeError(f"{text[:20]} is above {LARGEST:,}")
    return number


def whole(text: str) -> int:
    """Parse an integer above zero."""
    return int(positive(int, text))


def gigabytes(text: str) -> float:
    """Parse a size."""
    return positive(float, text)


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser("capacity.py", description=__doc__, epilog=EXAMPLE)
    which = options.add_mutually_exclusive_group(required=True)
    names = ", ".join(PRESETS)
    which.add_argument("--model", choices=PRESETS, metavar="NAME", help=f"one of {names}")
    which.add_argument("--config", type=Path, metavar="FILE", help="a model's config.json")
    options.add_argument("--tp", type=whole, default=1, help="ranks (1)")
    options.add_argument("--page-size", type=whole, default=1, help="tokens per page (1)")
    codec_help = "values of --hicache-l2-codec (all of them)"
    options.add_argument("--codec", nargs="+", metavar="CODEC", help=codec_help)
    size_help = "decimal gigabytes per rank, as for --hicache-size (8)"
    options.add_argument(
        "--size", type=gigabytes, nargs="+", default=[8.0], metavar="GB", help=size_help
    )
    plot_help = "draw capacity against budget (.svg, .png, .pdf)"
    options.add_argument("--plot", type=Path, metavar="FILE", help=plot_help)
    add_json_option(options)
    return options


def deployment(given: Namespace) -> Deployment:
    """Return the model that was named, as it is to be served."""
    from formats.capacity import Deployment

    if given.config:
        name, model = str(given.config), read_model(given.config, "give a model's config.json")
    else:
        name, model = given.model, PRESETS[given.model]
    try:
        return Deployment(name, model, given.tp, given.page_size)
    except ValueError as error:
        raise ToolError(f"--tp {given.tp}: {error}", "choose another --tp", Exit.USAGE) from error


def chosen_codecs(given: Sequence[str] | None) -> list[str]:
    """Return the codecs to list; those of the command line, or all of them after ``none``."""
    from formats.capacity import RAW, RAW_NAMES
    from hiqcache.codecs import codec_names

    known = [RAW, *codec_names()]
    names = [RAW if name in RAW_NAMES else name for name in given or known]
    for name in names:
        if name not in known:
            raise ToolError(f"--codec {name} is unknown", f"choose {', '.join(known)}", Exit.USAGE)
    return list(dict.fromkeys(names))


def plot(served: Deployment, results: Sequence[Capacity | Refused], file: Path) -> None:
    """Draw what is not refused."""
    from formats.capacity import Capacity

    try:
        from formats.capacity_plot import write_plot
    except ModuleNotFoundError as error:
        hint = "pip install matplotlib"
        raise ToolError(f"--plot needs {error.name}", hint, Exit.USAGE) from error
    held = [result for result in results if isinstance(result, Capacity)]
    if not held:
        raise ToolError("--plot has nothing to draw", "add none to --codec", Exit.USAGE)
    try:
        write_plot(served, held, file)
    except ValueError as error:
        raise ToolError(f"--plot {file}: {error}", "try .svg", Exit.USAGE) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        given = parser().parse_args(argv)
        refuse_unwritable("--plot", given.plot)
        refuse_unwritable("--json", given.json)
        from formats.capacity import capacity
        from formats.capacity_output import print_table, to_json

        served = deployment(given)
        results = [capacity(served, codec, given.size) for codec in chosen_codecs(given.codec)]
        if given.plot:
            plot(served, results, given.plot)
        deliver(lambda: print_table(served, results), to_json(served, results), given.json)
        return Exit.DONE

    return run("capacity.py", body, INSTALL_TORCH)


if __name__ == "__main__":
    sys.exit(main())
