"""Whether unpickled objects have all fields of this release's classes: those of an earlier release may lack some."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

_PACKAGE = "hayase"


def check_whole(program: object) -> None:
    """Check that each of our dataclasses in a program has all of its fields.

    Pickles of dataclasses with slots hold values without names, so an object of an earlier release is made without a
    word, lacks what is new, and fails wherever that is used first.

    Raises:
        AttributeError: one lacks a field.
    """
    seen: set[int] = set()
    left = [program]
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))  # the program holds them all, so no id is used twice
            left += _parts(each)


def _parts(each: object) -> Iterator[object]:
    if isinstance(each, Mapping):
        yield from each.keys()
        yield from each.values()
    elif isinstance(each, list | tuple | AbstractSet):
        yield from each
    elif not isinstance(each, type) and type(each).__module__.partition(".")[0] == _PACKAGE:
        if dataclasses.is_dataclass(each):
            yield from _fields(each)
        yield from getattr(each, "__dict__", {}).values()


def _fields(each: object) -> Iterator[object]:
    for field in dataclasses.fields(each):  # type: ignore[arg-type] # the caller has looked
        try:
            yield getattr(each, field.name)
        except AttributeError as error:
            raise AttributeError(
                f"{type(each).__name__} has no {field.name}: another release of Hayase has made it"
            ) from error
