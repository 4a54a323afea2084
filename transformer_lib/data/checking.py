"""What functions on text and ids refuse, by name; numbers are `transformer_lib.arguments`'."""

import operator
from collections.abc import Iterable
from typing import Any


def id_list(name: str, ids: Any) -> list[int]:
    """The ids as a list of ints: a list, a range, a vector of integers are all welcome."""
    try:
        found = [operator.index(i) for i in ids]
    except (TypeError, ValueError, RuntimeError):  # of a tensor that holds no single integers
        raise TypeError(f"{name} must be a sequence of integers; got {_shown(ids)}") from None
    for i in found:
        if not 0 <= i < 2**63:
            raise ValueError(f"{name} must hold integers from 0 to 2⁶³ − 1; got {i}")
    return found


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """The two parts of `value`, if two is what it has."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} must be a pair (source, target); got {_shown(value)}")
    return value[0], value[1]


def items(name: str, values: Any, what: str, least: int = 1) -> list[Any]:
    """`values` as a list of at least `least`; one string or a mapping is no list of anything."""
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be several {what}s, such as a list; got {_shown(values)}")
    try:
        found = list(values)
    except TypeError:  # a tensor of no dimensions says that it can be iterated over
        raise TypeError(f"{name} must be several {what}s; got {_shown(values)}") from None
    if len(found) < least:
        raise ValueError(f"{name} must hold at least one {what}; got none")
    return found


def check_text(name: str, text: Any) -> None:
    """Raise unless `text` is a string that can be written as UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str; got {_shown(text)}")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise ValueError(f"{name} must be valid Unicode; got {_shown(text)}") from error


def texts(name: str, values: Any, least: int = 0) -> list[str]:
    """`values` as a list of at least `least` strings."""
    found = items(name, values, "string", least)
    for i, text in enumerate(found):
        check_text(f"number {i} of {name}", text)
    return found


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) < 60 else text[:57] + '…'}"
