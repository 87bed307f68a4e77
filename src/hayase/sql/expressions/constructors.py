"""Types of the constructors ARRAY, MAP and STRUCT."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.sql.ast.expressions import Expression
from hayase.sql.errors import StatementError
from hayase.sql.expressions.coercion import TypeOf, common_type
from hayase.sql.types.sql_types import ArrayType, MapType, SqlType, StructType

COLLECTIONS = (ArrayType, MapType, StructType)
"""Types that cannot be keys of a MAP."""
_ISSUE = "https://github.com/confluentinc/ksql/issues/4239"


def array_type(items: Sequence[Expression], type_of: TypeOf) -> ArrayType:
    """The type of ARRAY[…]."""
    if not items:
        raise StatementError(
            "EMPTY_CONSTRUCTOR",
            f"Array constructor cannot be empty. Please supply at least one element (see {_ISSUE}).",
        )
    item = common_type(items, type_of)
    if item is None:
        raise StatementError(
            "NULL_CONSTRUCTOR",
            f"Cannot construct an array with all NULL elements (see {_ISSUE}). As a workaround, you may cast a "
            "NULL value to the desired type.",
        )
    return ArrayType(item)


def map_type(entries: Sequence[tuple[Expression, Expression]], type_of: TypeOf) -> MapType:
    """The type of MAP(…)."""
    if not entries:
        raise StatementError(
            "EMPTY_CONSTRUCTOR",
            f"Map constructor cannot be empty. Please supply at least one key value pair (see {_ISSUE}).",
        )
    types: list[SqlType] = []
    for part, side in zip(zip(*entries, strict=True), ("keys", "values"), strict=True):
        type_ = common_type(part, type_of)
        if type_ is None:
            raise StatementError(
                "NULL_CONSTRUCTOR",
                f"Cannot construct a map with all NULL {side} (see {_ISSUE}). As a workaround, you may cast a NULL "
                "value to the desired type.",
            )
        types.append(type_)
    if isinstance(types[0], COLLECTIONS):
        raise StatementError("MAP_KEY_TYPE", f"Keys of a MAP cannot be {types[0]}: use numbers, texts or times")
    return MapType(types[0], types[1])


def struct_type(fields: Sequence[tuple[str, Expression]], type_of: TypeOf) -> StructType:
    """The type of STRUCT(…)."""
    types: list[tuple[str, SqlType]] = []
    for name, field in fields:
        type_ = type_of(field)
        if type_ is None:
            raise StatementError(
                "NULL_CONSTRUCTOR",
                f"Cannot construct a struct whose field {name} is NULL. As a workaround, you may cast a NULL value "
                "to the desired type.",
                location=field.location,
            )
        types.append((name, type_))
    struct = StructType(tuple(types))
    if struct.repeated:
        raise StatementError("DUPLICATE_FIELD", f"Duplicate field names found in STRUCT: {struct.repeated}")
    return struct
