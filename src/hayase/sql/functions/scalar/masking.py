"""MASK and its relatives: characters replaced by the class that they belong to."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import partial

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.utf16 import in_units
from hayase.sql.functions.registry import scalar

Part = Callable[[str, int, tuple[str | None, ...]], str]

_MASKS = "Xxn-"
_EXPLAINED = (
    " Capitals become X, small letters x, digits n, others -;"
    " four more arguments give other characters for them, null leaves them."
)


def masked(text: str, masks: tuple[str | None, ...]) -> str:
    """A text with masks for capitals, small letters, digits and others; null leaves a class as it is."""
    upper, lower, digit, other = (mask[:1] if mask else None for mask in masks)
    replaced: list[str] = []
    for character in text:
        category = unicodedata.category(character)
        mask = {"Lu": upper, "Ll": lower, "Nd": digit}.get(category, other)
        replaced.append(character if mask is None else mask)
    return "".join(replaced)


@scalar("mask", "(STRING) -> STRING", "The text with all characters masked." + _EXPLAINED)
@in_units
def mask(text: str) -> str:
    """MASK."""
    return masked(text, tuple(_MASKS))


@scalar(
    "mask", "(STRING, STRING, STRING, STRING, STRING) -> STRING", "The text with all characters masked." + _EXPLAINED,
    null_aware=True,
)  # fmt: skip
@in_units
def mask_by(text: str | None, upper: str | None, lower: str | None, digit: str | None, other: str | None) -> str | None:
    """MASK with other masks."""
    return None if text is None else masked(text, (upper, lower, digit, other))


def _left(text: str, count: int, masks: tuple[str | None, ...]) -> str:
    return masked(text[:count], masks) + text[count:]


def _right(text: str, count: int, masks: tuple[str | None, ...]) -> str:
    at = max(len(text) - count, 0)
    return text[:at] + masked(text[at:], masks)


def _keep_left(text: str, count: int, masks: tuple[str | None, ...]) -> str:
    return text[:count] + masked(text[count:], masks)


def _keep_right(text: str, count: int, masks: tuple[str | None, ...]) -> str:
    at = max(len(text) - count, 0)
    return masked(text[:at], masks) + text[at:]


@in_units
def mask_part(part: Part, text: str, count: int) -> str:
    """A part of a text masked."""
    return part(text, _checked(count), tuple(_MASKS))


@in_units
def mask_part_by(part: Part, text: str | None, count: int | None, *masks: str | None) -> str | None:
    """A part of a text masked with other masks."""
    return None if text is None or count is None else part(text, _checked(count), masks)


def _checked(count: int) -> int:
    if count < 0:
        raise FunctionError("NEGATIVE_COUNT", f"{count} characters cannot be masked or kept; give a number from 0 on")
    return count


for _name, _which, _part in (
    ("mask_left", "the first characters", _left),
    ("mask_right", "the last characters", _right),
    ("mask_keep_left", "all but the first characters", _keep_left),
    ("mask_keep_right", "all but the last characters", _keep_right),
):
    _text = f"The text with {_which} masked.{_EXPLAINED}"
    scalar(_name, "(STRING, INT) -> STRING", _text)(partial(mask_part, _part))
    scalar(_name, "(STRING, INT, STRING, STRING, STRING, STRING) -> STRING", _text, null_aware=True)(
        partial(mask_part_by, _part)
    )
