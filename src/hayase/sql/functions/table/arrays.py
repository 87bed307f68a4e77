"""EXPLODE and CUBE_EXPLODE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hayase.sql.errors import FunctionError
from hayase.sql.functions.registry import table
from hayase.sql.types.sql_types import ArrayType, SqlType

MAX_CUBE_ELEMENTS = 20


def _item(types: Sequence[SqlType | None]) -> SqlType:
    array = types[0]
    assert isinstance(array, ArrayType)
    return array.item


@table("explode", "(ARRAY<DECIMAL> input) -> ?", "One row for each element of an array.", returns=_item)
@table("explode", "(ARRAY<T> list) -> T", "One row for each element of an array.")
def explode(array: list[Any]) -> list[Any]:
    """EXPLODE; null has no rows."""
    return array


@table("cube_explode", "(ARRAY<T> columns) -> ARRAY<T>", "One row for each choice of elements, the others being null.")
def cube_explode(array: list[Any]) -> list[list[Any]]:
    """CUBE_EXPLODE: an element that is null has only one choice."""
    present = [position for position, element in enumerate(array) if element is not None]
    if len(present) > MAX_CUBE_ELEMENTS:
        raise FunctionError(
            "TOO_MANY_ELEMENTS", f"CUBE_EXPLODE of {len(present)} elements; at most {MAX_CUBE_ELEMENTS} are possible"
        )
    rows: list[list[Any]] = []
    for chosen in range(1 << len(present)):
        row: list[Any] = [None] * len(array)
        for place, position in enumerate(reversed(present)):
            if chosen >> place & 1:
                row[position] = array[position]
        rows.append(row)
    return rows
