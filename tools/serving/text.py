"""Real text that every Python brings: the language reference's topics that ``help()`` shows."""

from __future__ import annotations

from pathlib import Path

from patchstack.errors import Exit, ToolError


def python_topics() -> list[str]:
    """Return the topics in the order of their names."""
    from pydoc_data.topics import topics

    return [topics[name] for name in sorted(topics)]


def encoded_topics(model: Path) -> list[list[int]]:
    """Return the topics as token ids of the model's tokenizer, in the order of their names.

    Parameters
    ----------
    model
        A folder with a ``tokenizer.json``.
    """
    from tokenizers import Tokenizer

    file = model / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise ToolError(
            f"{file} is not a tokenizer ({error})",
            "give --model a Hugging Face folder with a fast tokenizer",
            Exit.USAGE,
        ) from error
    encodings = tokenizer.encode_batch(python_topics(), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]
