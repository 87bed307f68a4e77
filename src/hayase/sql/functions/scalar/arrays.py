"""Functions of arrays."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.equality import distinct, identity
from hayase.sql.functions.registry import scalar
from hayase.sql.functions.scalar.comparison import order
from hayase.sql.types.java_numbers import double_text

MAX_SERIES = 1 << 22
_DESCENDING = {"ASC": False, "ASCENDING": False, "DESC": True, "DESCENDING": True}
Array = list[Any]


def _item_count(array: pl.Expr) -> pl.Expr:
    return array.list.len().cast(pl.Int64)


@scalar("array_length", "(ARRAY<T>) -> INT", "The number of elements.", columns=_item_count)
def array_length(array: Array) -> int:
    """ARRAY_LENGTH."""
    return len(array)


@scalar("array_contains", "(ARRAY<T>, T) -> BOOLEAN", "Whether an element is equal to a value.", null_aware=True)
def array_contains(array: Array | None, value: Any) -> bool:
    """ARRAY_CONTAINS: a null array contains nothing, an array may contain null."""
    return array is not None and identity(value) in map(identity, array)


@scalar("array_distinct", "(ARRAY<T>) -> ARRAY<T>", "The elements without repetitions, in order of first occurrence.")
def array_distinct(array: Array) -> Array:
    """ARRAY_DISTINCT."""
    return distinct(array)


@scalar("array_concat", "(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", "The elements of both, nulls too.", null_aware=True)
def array_concat(left: Array | None, right: Array | None) -> Array | None:
    """ARRAY_CONCAT: null only if both are null."""
    if left is None or right is None:
        return right if left is None else left
    return left + right


@scalar("array_union", "(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", "The distinct elements of both.")
def array_union(left: Array, right: Array) -> Array:
    """ARRAY_UNION."""
    return distinct(left + right)


@scalar("array_intersect", "(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", "The distinct elements that both have.")
def array_intersect(left: Array, right: Array) -> Array:
    """ARRAY_INTERSECT, in order of the first."""
    others = set(map(identity, right))
    return distinct(element for element in left if identity(element) in others)


@scalar("array_except", "(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", "The distinct elements of the first that the other lacks.")
def array_except(left: Array, right: Array) -> Array:
    """ARRAY_EXCEPT."""
    others = set(map(identity, right))
    return distinct(element for element in left if identity(element) not in others)


@scalar("array_remove", "(ARRAY<T>, T) -> ARRAY<T>", "The elements that are not equal to a value.", null_aware=True)
def array_remove(array: Array | None, value: Any) -> Array | None:
    """ARRAY_REMOVE: of null too."""
    if array is None:
        return None
    removed = identity(value)
    return [element for element in array if identity(element) != removed]


@scalar("array_max", "(ARRAY<T>) -> T", "The greatest element; nulls do not count.")
def array_max(array: Array) -> Any:
    """ARRAY_MAX: null if there is nothing but nulls."""
    return max(_comparable(array), key=order, default=None)


@scalar("array_min", "(ARRAY<T>) -> T", "The least element; nulls do not count.")
def array_min(array: Array) -> Any:
    """ARRAY_MIN: null if there is nothing but nulls."""
    return min(_comparable(array), key=order, default=None)


@scalar("array_sort", "(ARRAY<T>) -> ARRAY<T>", "The elements in ascending order, nulls last.")
@scalar("array_sort", "(ARRAY<T>, STRING) -> ARRAY<T>", "The elements in order ASC or DESC, nulls last.")
def array_sort(array: Array, direction: str = "ASC") -> Array | None:
    """ARRAY_SORT: nulls last in both directions; null for any other direction."""
    descending = _DESCENDING.get(direction.strip().upper())
    if descending is None:
        return None
    present = sorted(_comparable(array), key=order, reverse=descending)
    return present + [None] * (len(array) - len(present))


def _comparable(array: Array) -> Array:
    """The elements that are not null; arrays, maps and structs have no order."""
    present = [element for element in array if element is not None]
    if present and isinstance(present[0], list | dict):
        raise FunctionError("NOT_COMPARABLE", "arrays, maps and structs have no order; sort numbers, texts or times")
    return present


@scalar("array_join", "(ARRAY<T>) -> STRING", "The texts of the elements with commas between.")
def array_join(array: Array) -> str:
    """ARRAY_JOIN with commas."""
    return ",".join(map(_text, array))


@scalar("array_join", "(ARRAY<T>, STRING) -> STRING", "The texts of the elements with a text between.", null_aware=True)
def array_join_by(array: Array | None, delimiter: str | None) -> str | None:
    """ARRAY_JOIN: without delimiter the texts stand side by side; a null element is `null`."""
    return None if array is None else (delimiter or "").join(map(_text, array))


def _text(element: Any) -> str:
    if element is None:
        return "null"
    kind = type(element)
    if kind is str:
        return str(element)
    if kind is bool:
        return "true" if element else "false"
    if kind is float:
        return double_text(element)
    if kind is int or kind is Decimal:
        return str(element)
    raise FunctionError("NOT_A_PRIMITIVE", f"ARRAY_JOIN of {kind.__name__}: it joins texts, numbers and booleans only")


@scalar(
    "slice", "(ARRAY<T>, INT, INT) -> ARRAY<T>", "The elements from a position to one, both included.", null_aware=True
)
def slice_array(array: Array | None, start: int | None, end: int | None) -> Array | None:
    """SLICE: null as a bound is that end of the array; null if a bound is beyond it."""
    if array is None:
        return None
    first = 0 if start is None else start - 1
    last = len(array) if end is None else end
    return array[first:last] if 0 <= first <= last <= len(array) else None


@scalar("as_map", "(ARRAY<STRING>, ARRAY<T>) -> MAP<STRING, T>", "A map of keys and values, as many as both have.")
def as_map(keys: list[str], values: Array) -> dict[str, Any]:
    """AS_MAP."""
    return dict(zip(keys, values, strict=False))


@scalar("generate_series", "(INT, INT) -> ARRAY<INT>", "All numbers from one to another, up or down.")
@scalar("generate_series", "(BIGINT, BIGINT) -> ARRAY<BIGINT>", "All numbers from one to another, up or down.")
def generate_series(start: int, end: int) -> list[int]:
    """GENERATE_SERIES by 1 or -1."""
    return generate_series_by(start, end, 1 if end >= start else -1)


@scalar("generate_series", "(INT, INT, INT) -> ARRAY<INT>", "The numbers from one to another at most, by a step.")
@scalar("generate_series", "(BIGINT, BIGINT, INT) -> ARRAY<BIGINT>", "The numbers from one to another, by a step.")
def generate_series_by(start: int, end: int, step: int) -> list[int]:
    """GENERATE_SERIES by a step, which must lead from the start to the end."""
    if step == 0 or (end - start) * step < 0:
        raise FunctionError(
            "BAD_STEP", f"GENERATE_SERIES from {start} to {end} by {step}: the step must lead to the end"
        )
    if (end - start) // step >= MAX_SERIES:
        raise FunctionError(
            "TOO_LONG", f"GENERATE_SERIES from {start} to {end} by {step}: at most {MAX_SERIES} numbers are possible"
        )
    return list(range(start, end + (1 if step > 0 else -1), step))
