"""A small model of Qwen3's architecture with random weights.

Its KV has Qwen3-8B's heads, 8 of 128, in 9 layers in place of 36: a quarter of the bytes per token,
so a quarter of the host memory holds as many tokens. What hits a cache does not depend on weights,
and how long a token takes to compute is a matter of the model in any case.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

#: Grows when the model that is written changes.
_VERSION = 1
NAME = f"qwen3-shaped-9x8x128-v{_VERSION}"
_WORDS = 8192
CONFIG = {
    "num_hidden_layers": 9,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 256,
    "intermediate_size": 768,
    "max_position_embeddings": 32768,
    "rope_theta": 1e6,
    "vocab_size": _WORDS,
    "tie_word_embeddings": True,
}


def random_model(cache: Path) -> Path:
    """Return the model's folder, and write it if it is not there.

    Parameters
    ----------
    cache
        The folder of what can be had again.
    """
    out = cache / "models" / NAME
    if out.is_dir():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{NAME}-", dir=out.parent))
    try:
        folder = scratch / NAME
        folder.mkdir()
        _write_weights(folder)
        _write_tokenizer(folder)
        folder.replace(out)
    except OSError:
        # Another process may have made the same folder in the meantime.
        if not out.is_dir():
            raise
    finally:
        shutil.rmtree(scratch)
    return out


def _write_weights(folder: Path) -> None:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    Qwen3ForCausalLM(Qwen3Config(**CONFIG)).bfloat16().save_pretrained(folder)


def _write_tokenizer(folder: Path) -> None:
    """Write one whose every token is a word.

    With a byte-level tokenizer a random model's tokens often are no text yet, and the benchmark
    takes a first token without text for none.
    """
    vocabulary = {f"w{number}": number for number in range(_WORDS)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32768}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
