"""Real text that every Python brings: the language reference's topics that ``help()`` shows."""

from __future__ import annotations

from pathlib import Path

from patchstack.errors import Exit, ToolError


def encoded_topics(model: Path) -> list[list[int]]:
    """Return the topics as token ids of the model's tokenizer, in the order of their names.

    Parameters
    ----------
    model
        A folder with a ``tokenizer.json``.
    """
    from pydoc_data.topics import topics

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
    in_order = [topics[name] for name in sorted(topics)]
    encodings = tokenizer.encode_batch(in_order, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]
