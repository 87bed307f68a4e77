"""Values that Avro or Protobuf held, as SQL values, by the types of the columns that they are for.

Fields are found by exactly their names, else by the upper-cased ones. Whole numbers become wider, whole numbers and
truth values may be read as text; all else has to be of the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from hayase.sql.types import sql_types as sql
from hayase.sql.types.java_numbers import fitted

Reader = Callable[[Any], Any]
"""Makes the SQL value of one that is not None; raises ValueError."""

_ABSENT = object()


def reader(type_: sql.SqlType, scalars: Mapping[type[sql.SqlType], Callable[..., Any]] | None = None) -> Reader:
    """What reads values of a type.

    Args:
        type_: of the values.
        scalars: what reads values of types that are not made of others; that of DECIMAL gets precision and scale
            before the value. `None`: SCALARS.
    """
    match type_:
        case sql.ArrayType(item):
            return partial(_array, reader(item, scalars))
        case sql.MapType(key, value):
            return partial(_map, reader(key, scalars), reader(value, scalars))
        case sql.StructType(fields):
            return record_reader(fields, scalars)
    read = (SCALARS if scalars is None else scalars)[type(type_)]
    return partial(read, type_.precision, type_.scale) if isinstance(type_, sql.DecimalType) else read


def record_reader(
    fields: tuple[tuple[str, sql.SqlType], ...], scalars: Mapping[type[sql.SqlType], Callable[..., Any]] | None = None
) -> Reader:
    """What reads records with these fields; those that a record does not have are null."""
    return partial(_record, [(name, reader(type_, scalars)) for name, type_ in fields])


def _record(readers: list[tuple[str, Reader]], value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r:.80} is not a record")
    row: dict[str, Any] = {}
    upper_cased: dict[str, Any] | None = None
    for name, read in readers:
        item = value.get(name, _ABSENT)
        if item is _ABSENT:
            if upper_cased is None:
                upper_cased = {key.upper(): each for key, each in value.items()}
            item = upper_cased.get(name.upper())
        try:
            row[name] = None if item is None else read(item)
        except ValueError as error:
            raise ValueError(f"field {name}: {error}") from error
    return row


def _array(read: Reader, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.80} is not an array")
    return [None if item is None else read(item) for item in value]


def _map(read_key: Reader, read: Reader, value: Any) -> dict[Any, Any]:
    if isinstance(value, list):  # entries
        value = {entry["key"]: entry["value"] for entry in value if _is_entry(entry)}
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r:.80} is not a map")
    return {None if key is None else read_key(key): None if item is None else read(item) for key, item in value.items()}


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, Mapping) or entry.keys() != {"key", "value"}:
        raise ValueError(f"{entry!r:.80} is no entry of a map")
    return True


def _exactly(kind: type[Any], name: str, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r:.80} is not {name}")
    return value


def _whole(bits: int, value: Any) -> int:
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{value!r:.80} is not a whole number of {bits} bits")
    return value


def _text(value: Any) -> str:
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is not str and kind is not int:
        raise ValueError(f"{value!r:.80} is not a text")
    return str(value)


def _decimal(precision: int, scale: int, value: Any) -> Decimal:
    if type(value) is not Decimal:
        raise ValueError(f"{value!r:.80} is not a decimal number")
    return fitted(value, precision, scale)


SCALARS: Mapping[type[sql.SqlType], Callable[..., Any]] = {
    sql.BooleanType: partial(_exactly, bool, "a boolean"),
    sql.IntegerType: partial(_whole, 32),
    sql.BigintType: partial(_whole, 64),
    sql.DoubleType: partial(_exactly, float, "a floating point number"),
    sql.DecimalType: _decimal,
    sql.StringType: _text,
    sql.BytesType: partial(_exactly, bytes, "bytes"),
    sql.DateType: partial(_whole, 32),
    sql.TimeType: partial(_whole, 32),
    sql.TimestampType: partial(_whole, 64),
}
"""What reads values of types that are not made of others; that of DECIMAL gets precision and scale before the value."""
