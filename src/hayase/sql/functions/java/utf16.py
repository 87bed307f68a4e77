"""Texts as Java counts them: in units of UTF-16, so that a character beyond U+FFFF is two."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_LAST_OF_ONE_UNIT = "\uffff"


def is_wide(text: str) -> bool:
    """Whether a text has characters of two units."""
    return not text.isascii() and max(text) > _LAST_OF_ONE_UNIT


def to_units(text: str) -> str:
    """A text with each character beyond U+FFFF as two surrogates."""
    if not is_wide(text):
        return text
    data = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(data[at] << 8 | data[at + 1]) for at in range(0, len(data), 2))


def from_units(text: str) -> str:
    """A text from units: surrogates that have lost their other half become question marks, as Java writes them."""
    if text.isascii() or not any("\ud800" <= unit <= "\udfff" for unit in text):
        return text
    joined = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return "".join("?" if "\ud800" <= unit <= "\udfff" else unit for unit in joined)


def in_units(function: Callable[P, R]) -> Callable[P, R]:
    """A function of texts that is given, and gives, units of UTF-16; only wide texts cost more."""

    @functools.wraps(function)
    def of(*arguments: P.args, **options: P.kwargs) -> R:
        for argument in arguments:
            if type(argument) is str and not argument.isascii() and max(argument) > _LAST_OF_ONE_UNIT:
                break
        else:
            return function(*arguments, **options)
        units: list[Any] = [to_units(argument) if type(argument) is str else argument for argument in arguments]
        return cast("R", _joined(function(*units, **options)))

    return of


def _joined(result: Any) -> Any:
    if isinstance(result, str):
        return from_units(result)
    if isinstance(result, list):
        return [_joined(item) for item in result]
    if isinstance(result, dict):
        return {_joined(key): _joined(value) for key, value in result.items()}
    return result
