"""COLLECT_LIST and COLLECT_SET."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hayase.sql.functions.aggregate.limits import limit_of
from hayase.sql.functions.java.equality import distinct, identity
from hayase.sql.functions.registry import aggregate
from hayase.sql.types.sql_types import ArrayType, SqlType


@aggregate("COLLECT_LIST", "(T) -> ARRAY<T>", "All values in order of arrival, nulls too, up to the limit.")
class CollectList:
    """COLLECT_LIST: what comes beyond `ksql.functions.collect_list.limit` is left out."""

    def __init__(self, *, types: Sequence[SqlType], settings: Mapping[str, object]) -> None:
        self.state_type = ArrayType(types[0])
        self._limit = limit_of("collect_list", settings)

    def initial(self) -> list[Any]:
        """No values."""
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        """One value more, up to the limit."""
        return [*state, value] if len(state) < self._limit else state

    def undo(self, state: list[Any], value: Any) -> list[Any]:
        """The list without the last occurrence of a value."""
        removed = identity(value)
        for position in range(len(state) - 1, -1, -1):
            if identity(state[position]) == removed:
                return state[:position] + state[position + 1 :]
        return state

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        """The values of two sessions, up to the limit."""
        return (left + right)[: self._limit]

    def result(self, state: list[Any]) -> list[Any]:
        """The values."""
        return state


@aggregate(
    "COLLECT_SET", "(T) -> ARRAY<T>", "The different values in order of first arrival, null too, up to the limit."
)
class CollectSet:
    """COLLECT_SET: what comes beyond `ksql.functions.collect_set.limit` is left out."""

    def __init__(self, *, types: Sequence[SqlType], settings: Mapping[str, object]) -> None:
        self.state_type = ArrayType(types[0])
        self._limit = limit_of("collect_set", settings)

    def initial(self) -> list[Any]:
        """No values."""
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        """One value more, if it is new and within the limit."""
        if len(state) >= self._limit or identity(value) in map(identity, state):
            return state
        return [*state, value]

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        """The values of two sessions, up to the limit."""
        return distinct(left + right)[: self._limit]

    def result(self, state: list[Any]) -> list[Any]:
        """The values."""
        return state
