"""Functions of operators in row form: a callable is called, an expression is evaluated on a frame of one row.

The columns of that row are typed by the edge's schema where it is known, else by the value itself. Without a schema a
dict need not have a field that an expression names (it counts as null), and a field that is null has no type; then the
types that Polars' functions ask for are tried in turn, all of which give what a null of that type gives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import polars as pl

from hayase.core.records import Record, Windowed
from hayase.kernel.frame.expressions import check_expression, struct_type
from hayase.kernel.frame.missing_fields import collector
from hayase.kernel.node.column_node import KEY, TS, WINDOW_END, WINDOW_START
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.serde.pydantic_models import is_model
from hayase.topology.operators import Fields, VectorizedFunction

LEFT = "__left."
RIGHT = "__right."

_SCALARS = (str, int, float, bool, bytes, type(None))
_BUILTIN = (bytes, bytearray)
_TYPES_OF_NULL: tuple[pl.DataType, ...] = (
    pl.String(),
    pl.Boolean(),
    pl.Int64(),
    pl.Float64(),
    pl.Datetime("ms"),
    pl.Date(),
    pl.Binary(),
    pl.List(pl.String()),
)

RecordFunction = Callable[[Record], Any]
"""A function of a record; raises what the user's code or Polars raises."""

Joiner = Callable[[Record, Any], Any]
"""A function of the left record and the right value (`None`: no row)."""


def plain(value: object) -> Any:
    """The value with dataclasses, structs and models, at any depth, as dicts."""
    if isinstance(value, _SCALARS):
        return value
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct | Mapping | list | tuple):
        return msgspec.to_builtins(value, builtin_types=_BUILTIN, enc_hook=_dumped)
    return _dumped(value) if is_model(type(value)) else value


def _dumped(value: Any) -> Any:
    if is_model(type(value)):
        return value.model_dump()
    raise NotImplementedError(f"no field is made of a {type(value).__name__}")  # what msgspec expects


def field_of(value: object, name: str) -> Any:
    """A field of a value of the row form; a bare value has the one field `value`. Null has every field, all null."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return value.get(name)
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct) or is_model(type(value)):
        return getattr(value, name)
    if name == BARE_FIELD:
        return value
    raise ValueError(
        f"there is no field {name!r}: the value is {type(value).__name__}, which expressions see as 'value'"
    )


class RecordSchemas(Protocol):
    """What is known of the records that a function gets."""

    @property
    def key(self) -> Schema | None:
        """Schema of the (record) key, where it is known."""
        ...

    @property
    def value(self) -> Schema | None:
        """Schema of the value, where it is known."""
        ...


class KeyAndValue(NamedTuple):
    """RecordSchemas of which one may be known without the other."""

    key: Schema | None
    value: Schema | None


class OneRow:
    """Evaluates expressions on one record.

    Args:
        node: the node's name, for errors.
        expressions: each with the name of its result.
        edge: schema of the records, where known; of the left side in a joiner.
        right: schema of the right side's values, where known; joiners only.
    """

    def __init__(
        self,
        node: str,
        expressions: Sequence[tuple[str, pl.Expr]],
        edge: RecordSchemas | None,
        right: Schema | None = None,
    ) -> None:
        self._expressions = [check_expression(node, expression).alias(name) for name, expression in expressions]
        roots = {name for _, expression in expressions for name in expression.meta.root_names()}
        self._columns = [(name, *_reader(node, name, edge, right)) for name in sorted(roots - {TS})]

    def evaluate(self, record: Record, right: object = None) -> tuple[object, ...]:
        """The results in order, as Python values: records of fields are dicts."""
        columns = [pl.Series(TS, [record.timestamp_ms], dtype=pl.Int64)]
        untyped: list[str] = []
        for name, read, dtype in self._columns:
            value = plain(read(record, right))
            columns.append(pl.Series(name, [value], dtype=dtype, strict=True))
            if dtype is None and value is None:
                untyped.append(name)
        frame = pl.DataFrame(columns)
        try:
            return frame.select(self._expressions).row(0)
        except pl.exceptions.PolarsError:
            if not untyped:
                raise
            return self._with_typed_nulls(frame, untyped)

    def _with_typed_nulls(self, frame: pl.DataFrame, untyped: list[str]) -> tuple[object, ...]:
        failure: pl.exceptions.PolarsError | None = None
        for dtype in _TYPES_OF_NULL:
            try:
                return frame.with_columns(pl.col(untyped).cast(dtype)).select(self._expressions).row(0)
            except pl.exceptions.PolarsError as error:
                failure = failure or error
        assert failure is not None
        raise failure


_Reader = Callable[[Record, Any], Any]


def _reader(
    node: str, name: str, edge: RecordSchemas | None, right: Schema | None
) -> tuple[_Reader, pl.DataType | None]:
    """How to read a column of the one row, and its type where it is known."""
    key_schema = edge.key if edge is not None else None
    value_schema = edge.value if edge is not None else None
    if name == KEY:
        return _record_key, struct_type(key_schema) if key_schema is not None else None
    if name == WINDOW_START:
        return (lambda record, _: record.key.window.start_ms), pl.Int64()
    if name == WINDOW_END:
        return (lambda record, _: record.key.window.end_ms), pl.Int64()
    if name.startswith(RIGHT):
        field = name.removeprefix(RIGHT)
        if right is None and (read := _noting(node, field)) is not None:
            return (lambda _, value: read(value)), None
        return (lambda _, value: field_of(value, field)), _type_of(right, field)
    field = name.removeprefix(LEFT)
    if value_schema is None and (read := _noting(node, field)) is not None:
        return (lambda record, _: read(record.value)), None
    return (lambda record, _: field_of(record.value, field)), _type_of(value_schema, field)


def _noting(node: str, field: str) -> Callable[[Any], Any] | None:
    """Reads a field of values without a schema, and takes note where it is missing.

    `None` if missing fields are not counted.
    """
    missing = collector()
    if missing is None:
        return None

    def read(value: object) -> Any:
        if isinstance(value, Mapping):
            missing.look(node, field, value)
        return field_of(value, field)

    return read


def _record_key(record: Record, _: object) -> Any:
    key = record.key
    return key.key if isinstance(key, Windowed) else key


def _type_of(schema: Schema | None, field: str) -> pl.DataType | None:
    return dict(schema.fields).get(field) if schema is not None else None


def row_predicate(
    node: str, predicate: Callable[[Any, Any], bool] | pl.Expr, edge: RecordSchemas | None
) -> Callable[[Record], bool]:
    """Whether the predicate holds for a record; null counts as false."""
    if isinstance(predicate, pl.Expr):
        row = OneRow(node, [(BARE_FIELD, predicate)], edge)

        def evaluated(record: Record) -> bool:
            (result,) = row.evaluate(record)
            if not isinstance(result, bool | None):
                raise TypeError(f"the predicate {predicate} gives {result!r}, not a boolean")
            return result is True

        return evaluated
    call = predicate
    return lambda record: bool(call(record.key, record.value))


def row_mapper(
    node: str, mapper: Callable[[Any, Any], Any] | pl.Expr | Fields, edge: RecordSchemas | None
) -> RecordFunction:
    """The new value (or key) of a record: what the callable or the expression gives, a dict for fields."""
    if isinstance(mapper, pl.Expr):
        row = OneRow(node, [(BARE_FIELD, mapper)], edge)
        return lambda record: row.evaluate(record)[0]
    if isinstance(mapper, tuple):
        names = [name for name, _ in mapper]
        fields = OneRow(node, mapper, edge)
        return lambda record: dict(zip(names, fields.evaluate(record), strict=True))
    call = mapper
    if isinstance(call, VectorizedFunction) and call.timed:
        return lambda record: call(record.key, record.value, record.timestamp_ms)
    return lambda record: call(record.key, record.value)


def row_joiner(
    node: str,
    joiner: Callable[[Any, Any, Any], Any] | pl.Expr | Fields,
    edge: RecordSchemas | None,
    right: Schema | None,
) -> Joiner:
    """The joined value of a left record and a right value."""
    if isinstance(joiner, pl.Expr):
        row = OneRow(node, [(BARE_FIELD, joiner)], edge, right)
        return lambda record, value: row.evaluate(record, value)[0]
    if isinstance(joiner, tuple):
        names = [name for name, _ in joiner]
        fields = OneRow(node, joiner, edge, right)
        return lambda record, value: dict(zip(names, fields.evaluate(record, value), strict=True))
    call = joiner
    return lambda record, value: call(record.key, record.value, value)
