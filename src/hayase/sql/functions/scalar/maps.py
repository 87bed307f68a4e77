"""Functions of maps; where order shows, it is that of Java's HashMap."""

from __future__ import annotations

from typing import Any

from hayase.sql.functions.java.hash_order import hash_order
from hayase.sql.functions.registry import scalar

Map = dict[str, Any]


@scalar("map_keys", "(MAP<STRING, T>) -> ARRAY<STRING>", "The keys.")
def map_keys(entries: Map) -> list[str]:
    """MAP_KEYS."""
    return hash_order(entries)


@scalar("map_values", "(MAP<STRING, T>) -> ARRAY<T>", "The values.")
def map_values(entries: Map) -> list[Any]:
    """MAP_VALUES."""
    return [entries[key] for key in hash_order(entries)]


@scalar(
    "map_union",
    "(MAP<STRING, T>, MAP<STRING, T>) -> MAP<STRING, T>",
    "All entries; the second map's win.",
    null_aware=True,
)
def map_union(left: Map | None, right: Map | None) -> Map | None:
    """MAP_UNION: null only if both are null."""
    if left is None or right is None:
        return right if left is None else left
    return left | right


_ENTRIES = "The entries as structs of key and value, sorted by key if wanted."


@scalar("entries", "(MAP<STRING, INT>, BOOLEAN) -> ARRAY<STRUCT<K STRING, V INT>>", _ENTRIES)
@scalar("entries", "(MAP<STRING, BIGINT>, BOOLEAN) -> ARRAY<STRUCT<K STRING, V BIGINT>>", _ENTRIES)
@scalar("entries", "(MAP<STRING, DOUBLE>, BOOLEAN) -> ARRAY<STRUCT<K STRING, V DOUBLE>>", _ENTRIES)
@scalar("entries", "(MAP<STRING, BOOLEAN>, BOOLEAN) -> ARRAY<STRUCT<K STRING, V BOOLEAN>>", _ENTRIES)
@scalar("entries", "(MAP<STRING, STRING>, BOOLEAN) -> ARRAY<STRUCT<K STRING, V STRING>>", _ENTRIES)
def entries(entries: Map, by_key: bool) -> list[dict[str, Any]]:
    """ENTRIES."""
    keys = sorted(entries) if by_key else hash_order(entries)
    return [{"K": key, "V": entries[key]} for key in keys]
