"""Transforms and predicates of one's own: Python functions and Polars expressions, in a file of `plugin.path`.

A configuration names them as it names classes, by the name of the file and of the function or class. It never holds
code: else each client that may send a configuration to the worker could run any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import polars as pl

from hayase.connect.contracts import Predicate, Transformation
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema
from hayase.connect.transforms.base import class_of, copied_basics
from hayase.connect.transforms.polars_types import connect_schema, connect_value, polars_fields
from hayase.core.records import Record
from hayase.kernel.frame.expressions import result_type
from hayase.kernel.frame.row_functions import KeyAndValue, OneRow, row_predicate
from hayase.kernel.node.column_node import TS
from hayase.serde.protocol import Schema

_SCHEMAS_MAX = 256


def transform(function: Callable[[ConnectRecord], ConnectRecord | None]) -> type[Transformation]:
    """Make a transform of a function that gives the record to go on with, or `None` to drop it; it has no keys.

    Example:
        >>> @transform
        ... def shout(record):
        ...     return record.new_record(value=record.value.upper())
        >>> from hayase.connect.model import SourceRecord
        >>> shout().apply(SourceRecord(source_partition={}, source_offset={}, topic="t", value="hi")).value
        'HI'
    """

    def apply(self: Transformation, record: ConnectRecord) -> ConnectRecord | None:
        return function(record)

    return type(function.__name__, (Transformation,), _members_of(function) | {"apply": apply})


def predicate(function: Callable[[ConnectRecord], bool]) -> type[Predicate]:
    """Make a predicate of a function; it has no keys.

    Example:
        >>> @predicate
        ... def is_large(record):
        ...     return record.value["amount"] > 5000
        >>> from hayase.connect.model import SourceRecord
        >>> is_large().test(SourceRecord(source_partition={}, source_offset={}, topic="t", value={"amount": 9}))
        False
    """

    def test(self: Predicate, record: ConnectRecord) -> bool:
        return bool(function(record))

    return type(function.__name__, (Predicate,), _members_of(function) | {"test": test})


def _members_of(function: Callable[..., object]) -> dict[str, object]:
    """What a class has of the function that it is made of, so that it is found as a plug-in and described."""
    return {
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__ or function.__name__,
    }


class FieldsTransform(Transformation):
    """A transform whose fields are Polars expressions over the fields of the value; it has no keys.

    Expressions are those of the DSL: they name fields of the value, `__key` is the key, `__ts` the timestamp in
    milliseconds. Each gives a field of the value, a new one or in place of the one with that name; the others stay. A
    tombstone passes as it is. With a schema, that of the new fields is of the type that Polars gives, and optional.

    Attributes:
        fields: expressions by the name of the field.

    Example:
        >>> class WithTotal(FieldsTransform):
        ...     fields = {"total": pl.col("price") * pl.col("quantity")}
        >>> from hayase.connect.model import SourceRecord
        >>> order = {"price": 5, "quantity": 3}
        >>> WithTotal().apply(SourceRecord(source_partition={}, source_offset={}, topic="t", value=order)).value
        {'price': 5, 'quantity': 3, 'total': 15}
    """

    fields: ClassVar[Mapping[str, pl.Expr]]

    def configure(self, props: Mapping[str, object]) -> None:
        """Nothing to configure."""

    def __init__(self) -> None:
        self._plain: OneRow | None = None
        # By identity, as in SchemaCache.
        self._typed: dict[int, tuple[ConnectSchema, ConnectSchema, OneRow]] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """See `Transformation.apply`; raises `DataError`."""
        if record.value is None:
            return record
        value, schema = _fields_of(record), record.value_schema
        if schema is None:
            if self._plain is None:
                self._plain = OneRow(type(self).__name__, tuple(self.fields.items()), None)
            results = self._evaluated(self._plain, record)
            return record.new_record(value={**value, **dict(zip(self.fields, results, strict=True))})
        new_schema, row = self._for(schema)
        results = self._evaluated(row, record)
        made = {name: connect_value(each) for name, each in zip(self.fields, results, strict=True)}
        return record.new_record(value_schema=new_schema, value={**value, **made})

    def _evaluated(self, row: OneRow, record: ConnectRecord) -> tuple[object, ...]:
        try:
            return row.evaluate(_row(record))
        except (pl.exceptions.PolarsError, TypeError) as error:
            raise _unfit(type(self), error) from error

    def _for(self, schema: ConnectSchema) -> tuple[ConnectSchema, OneRow]:
        found = self._typed.get(id(schema))
        if found is None:
            name, types = type(self).__name__, polars_fields(schema)
            seen = {**types, TS: pl.Int64()}
            new = {
                field: connect_schema(field, result_type(name, each, seen)).as_optional()
                for field, each in self.fields.items()
            }
            kept = {field.name: field.schema for field in schema.fields}
            row = OneRow(name, tuple(self.fields.items()), KeyAndValue(None, Schema(tuple(types.items()))))
            if len(self._typed) >= _SCHEMAS_MAX:
                self._typed.clear()
            found = self._typed[id(schema)] = (schema, copied_basics(schema, {**kept, **new}), row)
        return found[1:]


class ExpressionPredicate(Predicate):
    """A predicate that is a Polars expression over the fields of the value; null counts as false. It has no keys.

    Attributes:
        condition: the expression, with the names that `FieldsTransform` has.

    Example:
        >>> class IsLarge(ExpressionPredicate):
        ...     condition = pl.col("amount") > 5000
        >>> from hayase.connect.model import SourceRecord
        >>> IsLarge().test(SourceRecord(source_partition={}, source_offset={}, topic="t", value={"amount": 6000}))
        True
    """

    condition: ClassVar[pl.Expr]

    def configure(self, props: Mapping[str, object]) -> None:
        """Nothing to configure."""

    def __init__(self) -> None:
        self._typed: dict[int, tuple[ConnectSchema | None, Callable[[Record], bool]]] = {}

    def test(self, record: ConnectRecord) -> bool:
        """See `Predicate.test`; a tombstone has no field, so all of them are null. Raises `DataError`."""
        if record.value is not None:
            _fields_of(record)
        schema = record.value_schema
        found = self._typed.get(id(schema))
        if found is None:
            types = None if schema is None else Schema(tuple(polars_fields(schema).items()))
            if len(self._typed) >= _SCHEMAS_MAX:
                self._typed.clear()
            holds = row_predicate(type(self).__name__, self.condition, KeyAndValue(None, types))
            found = self._typed[id(schema)] = (schema, holds)
        try:
            return found[1](_row(record))
        except (pl.exceptions.PolarsError, TypeError) as error:
            raise _unfit(type(self), error) from error


def _row(record: ConnectRecord) -> Record:
    return Record(record.key, record.value, record.timestamp_ms or 0)


def _fields_of(record: ConnectRecord) -> dict[str, object]:
    if isinstance(record.value, dict):
        return record.value
    raise DataError(
        "INVALID_VALUE",
        f"expressions need fields, and the value is {class_of(record.value)}; HoistField makes a field of it",
        topic=record.topic,
    )


def _unfit(cls: type[object], error: Exception) -> DataError:
    return DataError("INVALID_VALUE", f"an expression of {cls.__name__} cannot take the value: {error}")
