"""What functions of `map` and `flat_map` give: pairs of a key and a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hayase.core.call_site import place_of_function
from hayase.serde.faults import shown


def pair_of(result: object, function: object, what: str) -> tuple[Any, Any]:
    """The key and the value that a function gave.

    Raises:
        TypeError: it gave something else: a dict of two fields would be taken apart into its names.
    """
    if isinstance(result, tuple | list) and len(result) == 2:
        return result[0], result[1]
    raise TypeError(f"{_named(function, what)} gave {shown(result)}; it must give a pair, as in `return key, value`")


def pairs_of(results: object, function: object, what: str) -> list[tuple[Any, Any]]:
    """The keys and values that a function gave as a list, or as any other iterable.

    Raises:
        TypeError: it gave something else.
    """
    return [pair_of(result, function, f"an item of {what}") for result in items_of(results, function, what)]


def items_of(results: object, function: object, what: str) -> list[Any]:
    """What a function gave as a list, or as any other iterable.

    Raises:
        TypeError: it gave something else.
    """
    if isinstance(results, Iterable) and not isinstance(results, str | bytes):
        return list(results)
    raise TypeError(f"{_named(function, what)} gave {shown(results)}; it must give a list, an empty one for nothing")


def _named(function: object, what: str) -> str:
    place = place_of_function(function)
    return f"the function of {what}" + ("" if place is None else f" ({place})")
