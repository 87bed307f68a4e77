"""Functions that take lambdas: FILTER, TRANSFORM, REDUCE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.hash_order import hash_order
from hayase.sql.functions.registry import scalar

Array = list[Any]
Map = dict[Any, Any]


def _truth(value: object) -> bool:
    if value is None:
        raise FunctionError("NULL_PREDICATE", "the lambda of FILTER gives null; it must give true or false")
    return bool(value)


@scalar("filter", "(ARRAY<T>, (T) => BOOLEAN) -> ARRAY<T>", "The elements for which a lambda is true.")
def filter_array(array: Array, predicate: Callable[[Any], object]) -> Array:
    """FILTER of an array."""
    return [element for element in array if _truth(predicate(element))]


@scalar("filter", "(MAP<K, V>, (K, V) => BOOLEAN) -> MAP<K, V>", "The entries for which a lambda is true.")
def filter_map(entries: Map, predicate: Callable[[Any, Any], object]) -> Map:
    """FILTER of a map; a null value cannot remain, as in ksqlDB."""
    kept = {key: value for key, value in entries.items() if _truth(predicate(key, value))}
    return _without_null_values("FILTER", kept)


@scalar("transform", "(ARRAY<T>, (T) => U) -> ARRAY<U>", "What a lambda makes of each element.")
def transform_array(array: Array, function: Callable[[Any], Any]) -> Array:
    """TRANSFORM of an array."""
    return [function(element) for element in array]


@scalar(
    "transform", "(MAP<K, V>, (K, V) => L, (K, V) => W) -> MAP<L, W>",
    "What two lambdas make of each entry: its new key and its new value.",
)  # fmt: skip
def transform_map(
    entries: Map, key_function: Callable[[Any, Any], Any], value_function: Callable[[Any, Any], Any]
) -> Map:
    """TRANSFORM of a map; keys must be different, and values not null, as in ksqlDB."""
    transformed: Map = {}
    for key, value in entries.items():
        new_key = key_function(key, value)
        if new_key in transformed:
            raise FunctionError("DUPLICATE_KEY", f"TRANSFORM gives the key {new_key!r} twice; keys must be different")
        transformed[new_key] = value_function(key, value)
    return _without_null_values("TRANSFORM", transformed)


def _without_null_values(name: str, entries: Map) -> Map:
    for key, value in entries.items():
        if value is None:
            raise FunctionError(
                "NULL_VALUE", f"{name} gives null for the key {key!r}; values of its map cannot be null"
            )
    return entries


@scalar(
    "reduce", "(ARRAY<T>, S, (S, T) => S) -> S", "A value that a lambda makes of it and each element.", null_aware=True
)
def reduce_array(array: Array | None, state: Any, function: Callable[[Any, Any], Any]) -> Any:
    """REDUCE of an array: the initial value for a null array, null for a null initial value."""
    if state is None or array is None:
        return state
    for element in array:
        state = function(state, element)
    return state


@scalar(
    "reduce",
    "(MAP<K, V>, S, (S, K, V) => S) -> S",
    "A value that a lambda makes of it and each entry.",
    null_aware=True,
)
def reduce_map(entries: Map | None, state: Any, function: Callable[[Any, Any, Any], Any]) -> Any:
    """REDUCE of a map, in the order of Java's HashMap."""
    if state is None or entries is None:
        return state
    for key in hash_order(entries):
        state = function(state, key, entries[key])
    return state
