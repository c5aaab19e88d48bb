"""JSON that somebody else wrote: read strictly, and made into dataclasses of the right types.

Text keeps no character that could change how what stands around it is shown, and numbers are
finite and of a size that something measured could have.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from evidence.record import text_of
from patchstack.errors import Exit, ToolError

#: The size of any number in a file.
LARGEST_NUMBER = 10**18
#: A text that is longer is cut.
LONGEST_TEXT = 20_000
_UNSHOWN = ("Cc", "Cf", "Cs", "Co", "Cn")

T = TypeVar("T")


def load_json(file: Path, what: str) -> Any:
    """Read a file of JSON, without NaN and infinities.

    Parameters
    ----------
    file
        Where it is.
    what
        What it should be, for the refusal.

    Raises
    ------
    ToolError
        If it cannot be read or is no JSON.
    """
    try:
        return json.loads(text_of(file), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise refused(file, what, error) from error


def refused(file: Path, what: str, error: Exception) -> ToolError:
    """Return the refusal of a file."""
    why = error.strerror if isinstance(error, OSError) else str(error)[:200]
    return ToolError(f"{file} is not {what}: {clean(why or '')}", "give another file", Exit.USAGE)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"it has {text} in it")


def load(kind: type[T], file: Path, what: str) -> T:
    """Read a file as a dataclass.

    Raises
    ------
    ToolError
        If it is not one.
    """
    found = load_json(file, what)
    try:
        return build(kind, found)
    except (ValueError, RecursionError) as error:
        raise refused(file, what, error) from error


def build(kind: Any, value: Any, where: str = "it") -> Any:
    """Return a value as a type asks for it, with every text in it clean.

    Parameters
    ----------
    kind
        A dataclass, ``str``, ``int``, ``float``, ``bool``, ``tuple[X, ...]``, ``dict[str, X]``,
        a union of those with None, or ``Any``.
    value
        From JSON, or a dataclass whose fields were never checked.
    where
        What the value is called in a refusal.

    Raises
    ------
    ValueError
        If it is of another type.
    """
    if is_dataclass(kind):
        return _record(kind, value, where)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        (inner,) = (part for part in parts if part is not NoneType)
        return None if value is None else build(inner, value, where)
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(build(parts[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    if kind is Any:
        return _anything(value, where)
    if origin is dict and isinstance(value, Mapping):
        return {clean(str(key)): build(parts[1], item, where) for key, item in value.items()}
    return _plain(kind, value, where)


def _record(kind: Any, value: Any, where: str) -> Any:
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is no object")
    hints = get_type_hints(kind)
    found = {}
    for field in fields(kind):
        if field.name in value:
            place = field.name if where == "it" else f"{where}.{field.name}"
            found[field.name] = build(hints[field.name], value[field.name], place)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where} has no {field.name}")
    return kind(**found)


def _anything(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        return build(dict[str, Any], value, where)
    if isinstance(value, (list, tuple)):
        return build(tuple[Any, ...], value, where)
    return value if value is None else _plain(type(value), value, where)


def _plain(kind: Any, value: Any, where: str) -> Any:
    if kind is str and isinstance(value, str):
        return clean(value)
    if kind is bool and isinstance(value, bool):
        return value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and (kind is float or (kind is int and isinstance(value, int))):
        if not abs(value) <= LARGEST_NUMBER:  # which NaN is not either
            raise ValueError(f"{where} is no number that was measured")
        return value
    raise ValueError(f"{where} is no {getattr(kind, '__name__', 'list')}")


def clean(text: str) -> str:
    """Return a text without what is not shown; each such character leaves a mark."""
    kept = text[:LONGEST_TEXT]
    return "".join(
        " " if sign in "\n\t\r" else "\ufffd" if unicodedata.category(sign) in _UNSHOWN else sign
        for sign in kept
    )
