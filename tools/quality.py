#!/usr/bin/env python3
"""Show how a codec's L2 changes answers: the same prompts restored from it and from a raw L2.

SGLang's server serves the prompts with a raw L2 and then with each codec's. Every prefix is
computed, pushed out of L1 and restored from L2, which each request has to prove by its own
cached-token details; one that was not restored is left out and counted. Without restores there is
no result. It takes about 20 minutes for the raw L2 and for each codec on two cores.

Two servers that run already, on any machine, are compared by address. Start both alike but for
--hicache-l2-codec, with --enable-hierarchical-cache --enable-metrics, the default write policy, a
--hicache-ratio of 2 or more and no API key, and let nobody else use them: their caches are
flushed. --max-total-tokens keeps L1 small and the run short.
"""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))

from patchstack.command import Parser, at_least_one, run
from patchstack.errors import Exit, ToolError
from serving.delivery import add_json_option, deliver, refuse_unwritable, write_file

if TYPE_CHECKING:
    from serving.progress import Progress
    from serving.quality.document import Document
    from serving.quality.prompts import Size

EXAMPLE = """\
examples:
  tools/quality.py --quick --codec int8
  tools/quality.py --json quality.json --page quality.md
  tools/quality.py --raw-url http://a:30000 --codec-url http://b:30000

exit codes: 0 done, 1 no result (nothing was restored, or a server failed), 2 usage, 4 the model's
package is not the expected one
"""
#: What --from and --raw-url need. tox -e quality has what servers need that are started here.
INSTALL = "pip install numpy rich prometheus-client"
FULL, QUICK = 220, 12
PREFIX_TOKENS = 384


def parser() -> Parser:
    """Return the command line's parser."""
    options = Parser(
        "quality.py",
        description=__doc__,
        epilog=EXAMPLE,
    )
    add, here = options.add_argument, options.add_argument_group("servers that are started here")
    there = options.add_argument_group("servers that run already")
    add("--quick", action="store_true", help=f"{QUICK} requests")
    add("--requests", type=at_least_one, metavar="N", help=f"how many ({FULL})")
    prefix_help = f"tokens of a prompt that are restored, whole pages ({PREFIX_TOKENS})"
    add("--prefix-tokens", type=at_least_one, default=PREFIX_TOKENS, metavar="N", help=prefix_help)
    add_json_option(options)
    add("--page", type=Path, metavar="FILE", help="write the table as a Markdown page, too")
    add("--from", type=Path, dest="source", metavar="FILE", help="show what --json wrote before")
    model_help = "a Hugging Face folder of a BF16 model (SmolLM2-135M-Instruct, made once)"
    here.add_argument("--model", type=Path, metavar="DIR", help=model_help)
    here.add_argument("--codec", metavar="A,B,...", help="which codecs (all)")
    there.add_argument("--raw-url", metavar="URL", help="the one with a raw L2")
    there.add_argument("--codec-url", metavar="URL", help="the one with a codec")
    return options


def refuse_contradictions(given: Namespace) -> None:
    """Refuse options that do not go together, and files that could not be written."""
    refuse_unwritable("--json", given.json)
    refuse_unwritable("--page", given.page)
    told = "see quality.py --help"
    if bool(given.raw_url) != bool(given.codec_url):
        raise ToolError("--raw-url and --codec-url go together", told, Exit.USAGE)
    if given.raw_url and (given.model or given.codec):
        raise ToolError("a server that runs has its --model and --codec", told, Exit.USAGE)


def shown_before(file: Path) -> Document:
    """Read a result, proven to have all that is shown."""
    from serving.quality.document import no_result, read_document
    from serving.quality.output import page

    document = read_document(file)
    try:
        page(document)
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise no_result(file) from error
    return document


def measure(given: Namespace, command: str) -> Document:
    """Serve the prompts and return what came of it."""
    from serving.progress import on_standard_error
    from serving.quality.document import make_document
    from serving.quality.prompts import Size
    from serving.quality.servers import compare_running

    size = Size(given.requests or (QUICK if given.quick else FULL), given.prefix_tokens)
    with on_standard_error() as progress:
        if given.raw_url:
            measured = compare_running(given.raw_url, given.codec_url, size, progress)
            return make_document(measured, command, None)
        return measure_here(given, command, size, progress)


def measure_here(given: Namespace, command: str, size: Size, progress: Progress) -> Document:
    """Start the servers on this machine."""
    from patchstack.context import Context
    from serving.environment import refuse_unpatched, this_environment
    from serving.model import packaged_model
    from serving.quality.document import make_document
    from serving.quality.servers import compare_launched

    refuse_unpatched("quality")
    environment = this_environment()
    progress.stage("preparing the model")
    model = given.model.absolute() if given.model else packaged_model(Context.default().cache)
    names = given.codec.split(",") if given.codec else None
    return make_document(compare_launched(model, names, size, progress), command, environment)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def body() -> int:
        arguments = sys.argv[1:] if argv is None else argv
        given = parser().parse_args(arguments)
        refuse_contradictions(given)
        from serving.quality.document import to_json
        from serving.quality.output import page, print_table

        command = shlex.join(["tools/quality.py", *arguments])
        document = shown_before(given.source) if given.source else measure(given, command)
        if given.page:
            write_file(given.page, page(document))
        deliver(lambda: print_table(document), to_json(document), given.json)
        return Exit.DONE

    return run("quality.py", body, INSTALL)


if __name__ == "__main__":
    sys.exit(main())
