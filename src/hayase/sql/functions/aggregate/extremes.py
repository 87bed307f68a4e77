"""MIN, MAX, TOPK and TOPKDISTINCT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.equality import distinct
from hayase.sql.functions.registry import aggregate
from hayase.sql.functions.scalar.comparison import order
from hayase.sql.types.sql_types import ArrayType, SqlType, StructType

_MIN = "The least value, nulls not counted."
_MAX = "The greatest value, nulls not counted."
_TYPES = ("INT", "BIGINT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "STRING", "BYTES")


def _same(types: Sequence[SqlType | None]) -> SqlType:
    assert types[0] is not None
    return types[0]


class Extreme:
    """The value that is before all others; null at first."""

    def __init__(self, *, types: Sequence[SqlType]) -> None:
        self.state_type = types[0]

    def initial(self) -> Any:
        """No value."""
        return None

    def add(self, state: Any, value: Any) -> Any:
        """The one of the values so far and a new one."""
        if state is None or value is None:
            return value if state is None else state
        return value if self.before(order(value), order(state)) else state

    def merge(self, left: Any, right: Any) -> Any:
        """That of two sessions."""
        return self.add(left, right)

    def result(self, state: Any) -> Any:
        """The value."""
        return state

    def before(self, value: Any, other: Any) -> bool:
        """Whether `value` takes the place of `other`."""
        return bool(value < other)


class Min(Extreme):
    """MIN."""


class Max(Extreme):
    """MAX."""

    def before(self, value: Any, other: Any) -> bool:
        """The greater one wins."""
        return bool(value > other)


for _type in _TYPES:
    aggregate("MIN", f"({_type}) -> {_type}", _MIN)(Min)
    aggregate("MAX", f"({_type}) -> {_type}", _MAX)(Max)
aggregate("MIN", "(DECIMAL) -> ?", _MIN, returns=_same)(Min)
aggregate("MAX", "(DECIMAL) -> ?", _MAX, returns=_same)(Max)


def _positive(function: str, count: int) -> int:
    if count < 1:
        raise FunctionError("BAD_COUNT", f"{function} of {count} values; give a number from 1 on")
    return count


class TopK:
    """TOPK: the greatest values, in descending order; of equal ones the first stays first."""

    def __init__(self, count: int, *, types: Sequence[SqlType]) -> None:
        self._count = _positive("TOPK", count)
        self.state_type = ArrayType(types[0])

    def initial(self) -> list[Any]:
        """No values."""
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        """One value more, unless it is null."""
        return state if value is None else self.first([*state, value])

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        """The greatest of two sessions."""
        return self.first(left + right)

    def result(self, state: list[Any]) -> list[Any]:
        """The values."""
        return state

    def first(self, values: list[Any]) -> list[Any]:
        """The greatest of some values."""
        return sorted(values, key=order, reverse=True)[: self._count]


class TopKDistinct(TopK):
    """TOPKDISTINCT: the greatest different values, in descending order."""

    def first(self, values: list[Any]) -> list[Any]:
        """The greatest of some values, without repetitions."""
        return super().first(distinct(values))


def top_struct(types: Sequence[SqlType | None]) -> SqlType:
    """The entries of TOPK of several columns: `sort_col`, `col0`, `col1`, …."""
    names = ["sort_col", *(f"col{position}" for position in range(len(types) - 1))]
    return ArrayType(StructType(tuple((name, _same((type_,))) for name, type_ in zip(names, types, strict=True))))


class TopKRows:
    """TOPK of several columns: the rows with the greatest values of the first."""

    def __init__(self, count: int, *, types: Sequence[SqlType]) -> None:
        self._count = _positive("TOPK", count)
        self.state_type = top_struct(types)

    def initial(self) -> list[dict[str, Any]]:
        """No rows."""
        return []

    def add(self, state: list[dict[str, Any]], value: Any, *others: Any) -> list[dict[str, Any]]:
        """One row more, unless what is sorted by is null."""
        if value is None:
            return state
        row = {"sort_col": value, **{f"col{position}": other for position, other in enumerate(others)}}
        return self._first([*state, row])

    def merge(self, left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The greatest of two sessions."""
        return self._first(left + right)

    def result(self, state: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows."""
        return state

    def _first(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: order(row["sort_col"]), reverse=True)[: self._count]


_TOPK = "The k greatest values in descending order, nulls not counted."
_TOPK_ROWS = "The rows with the k greatest values of the first column, as structs with sort_col, col0, col1, …."
_TOPKDISTINCT = "The k greatest different values in descending order, nulls not counted."
for _type in ("INT", "BIGINT", "DOUBLE", "STRING"):
    aggregate("TOPK", f"({_type}, INT!) -> ARRAY<{_type}>", _TOPK)(TopK)
    aggregate("TOPK", f"({_type}, ANY, ANY..., INT!) -> ?", _TOPK_ROWS, returns=top_struct)(TopKRows)
for _type in _TYPES:
    aggregate("TOPKDISTINCT", f"({_type}, INT!) -> ARRAY<{_type}>", _TOPKDISTINCT)(TopKDistinct)


def _array(types: Sequence[SqlType | None]) -> SqlType:
    return ArrayType(_same(types))


aggregate("TOPKDISTINCT", "(DECIMAL, INT!) -> ?", _TOPKDISTINCT, returns=_array)(TopKDistinct)
