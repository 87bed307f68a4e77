"""Serdes, fields and types of keys and values, as far as they are known while a topology is built.

Kafka Streams forgets the serde after every mapping and asks for it again where it is needed. Here the types of
expressions are worked out by Polars and those of callables read from their annotations, so that a serde can often
be chosen; and an expression that names a field that is not there is refused at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from polars.datatypes import DataTypeClass

from hayase.core.errors import ConfigError, TopologyError
from hayase.dsl import functions
from hayase.kernel.frame.expressions import seen_columns
from hayase.serde import JsonSerde, Serdes, TimeWindowedSerde
from hayase.serde.protocol import BARE_FIELD, Schema, Serde, Side
from hayase.serde.shapes import shape_of_type
from hayase.topology.defaults import DefaultSerde
from hayase.topology.operators import FieldAggregate, Fields, VectorizedFunction


@dataclass(frozen=True, slots=True)
class Known:
    """The serde and schema of one side, key or value, of a stream or table, as far as they are known.

    Attributes:
        serde: that it was read with or is to be written with; `None` after a mapping.
        inferred: schema of a mapping's result; `None` if it could not be worked out.
    """

    serde: Serde | None = None
    inferred: Schema | None = None

    @property
    def schema(self) -> Schema | None:
        """Fields and types, if known."""
        if self.inferred is not None or self.serde is None:
            return self.inferred
        if isinstance(self.serde, DefaultSerde):  # may still turn out to be another
            return None
        columns = self.serde.columns
        return None if columns is None else columns.schema

    def or_else(self, other: Known) -> Known:
        """This, or the other one if nothing is known."""
        return self if self.serde is not None or self.inferred is not None else other

    def common(self, other: Known) -> Known:
        """The serde and schema that two merged streams have in common."""
        serde = self.serde if self.serde == other.serde or _same(self, other) else None
        return Known(serde, self.inferred if self.schema == other.schema else None)


def _same(this: Known, other: Known) -> bool:
    return type(this.serde) is type(other.serde) and this.schema is not None and this.schema == other.schema


def concrete_serde(known: Known, side: Side, owner: str, fallback: Serde | None = None) -> Serde:
    """The serde for a store: the one the data came with, else the configuration's, else that of the inferred type.

    If there is none of these the fallback, and without one an error once the configuration is known.
    """
    return transport_serde(known, side, owner) or DefaultSerde(side, fallback, owner)


def transport_serde(known: Known, side: Side, owner: str) -> Serde | None:
    """As `concrete_serde`, but `None` if neither serde nor type is known."""
    if known.serde is not None or known.inferred is None:
        return known.serde
    inferred = serde_of_schema(known.inferred)
    return None if inferred is None else DefaultSerde(side, inferred, owner, inferred=True)


def visible_columns(key: Known, value: Known) -> tuple[dict[str, pl.DataType], bool]:
    """The columns an expression over a stream or table can see, and whether these are all."""
    columns: dict[str, pl.DataType] = {"__ts": pl.Int64()}
    complete = _add_value(columns, "", value)
    _add_key(columns, key)
    return columns, complete


def visible_in_join(key: Known, left: Known, right: Known) -> tuple[dict[str, pl.DataType], bool]:
    """The columns a joiner's expression can see, and whether these are all."""
    columns: dict[str, pl.DataType] = {"__ts": pl.Int64()}
    complete = _add_value(columns, "__left.", left)
    complete = _add_value(columns, "__right.", right) and complete
    _add_key(columns, key)
    return columns, complete


def _add_value(columns: dict[str, pl.DataType], prefix: str, value: Known) -> bool:
    schema = value.schema
    if schema is None:
        return False
    columns.update({prefix + name: dtype for name, dtype in schema.fields})
    return True


def _add_key(columns: dict[str, pl.DataType], key: Known) -> None:
    schema = key.schema
    if schema is not None:
        columns["__key"] = schema.fields[0][1] if schema.bare else pl.Struct(dict(schema.fields))


def infer(
    expression: pl.Expr | Fields, columns: tuple[dict[str, pl.DataType], bool], what: str
) -> dict[str, pl.DataType] | None:
    """Names and types of what expressions give; a bare expression's name is `value`. `None` if unknown.

    Raises:
        TopologyError: `UNKNOWN_FIELD`, `INVALID_EXPRESSION`: all columns are known and the expression does not fit
            them.
    """
    known, complete = columns
    fields = expression if isinstance(expression, tuple) else ((BARE_FIELD, expression),)
    used = {name for _, each in fields for name in each.meta.root_names()}
    missing = sorted(used - known.keys())
    if missing:
        wrong = [name for name in missing if not name.startswith("__") or name.startswith(("__left.", "__right."))]
        if complete and wrong:
            raise _unknown_field(wrong[0], known, what)
        return None
    if not complete and not used and any(not each.meta.is_literal() for _, each in fields):
        return None  # selectors and the like: depends on columns we do not know
    if all(each.meta.is_column() for _, each in fields):  # most inputs of aggregates are: no frame for each
        return {name: known[each.meta.output_name()] for name, each in fields}
    frame = pl.DataFrame(schema=seen_columns([each for _, each in fields], known))
    selected = [each.alias(name) for name, each in fields]
    try:
        if any("python_udf()" in str(each) for _, each in fields):  # user code must not run on a frame without rows
            schema = frame.lazy().select(selected).collect_schema()
        else:  # a frame without rows shows what the schema of a plan does not: whether the types fit
            schema = frame.select(selected).schema
    except pl.exceptions.PolarsError as error:
        raise TopologyError(
            "INVALID_EXPRESSION", f"{what}: the expression does not fit its input: {str(error).splitlines()[0]}"
        ) from error
    if any(dtype == pl.Unknown for dtype in schema.values()):
        return None
    return dict(schema)


def _unknown_field(name: str, known: dict[str, pl.DataType], what: str) -> TopologyError:
    prefix = next((side for side in ("__left.", "__right.") if name.startswith(side)), "")
    names = [
        each.removeprefix(prefix) for each in known if each.startswith(prefix) and (prefix or "__" not in each[:2])
    ]
    if not prefix and any(each.startswith(("__left.", "__right.")) for each in known):
        there = [side for side in ("left", "right") if f"__{side}.{name}" in known] or ["left", "right"]
        return TopologyError(
            "UNKNOWN_FIELD",
            f"{what}: a joiner has fields of two sides; instead of {name!r} write "
            + " or ".join(f"{side}({name!r})" for side in there),
        )
    side = {"": "", "__left.": " on the left", "__right.": " on the right"}[prefix]
    return TopologyError(
        "UNKNOWN_FIELD",
        f"{what}: there is no field {name.removeprefix(prefix)!r}{side}; there are: {', '.join(names) or 'none'}",
    )


def value_schema(mapper: pl.Expr | Fields, columns: tuple[dict[str, pl.DataType], bool], what: str) -> Schema | None:
    """Schema of values that expressions make; those of a struct are records of its fields."""
    types = infer(mapper, columns, what)
    if types is None:
        return None
    if isinstance(mapper, tuple):
        return Schema(tuple(types.items()), python_type=dict)
    return _schema_of_column(types[BARE_FIELD])


def key_schema(mapper: pl.Expr, columns: tuple[dict[str, pl.DataType], bool], what: str) -> Schema | None:
    """Schema of keys that an expression makes; a struct is a composite key."""
    types = infer(mapper, columns, what)
    if types is None:
        return None
    return _schema_of_column(types[BARE_FIELD])


def list_item_schema(mapper: pl.Expr, columns: tuple[dict[str, pl.DataType], bool], what: str) -> Schema | None:
    """Schema of the items of lists that an expression makes."""
    types = infer(mapper, columns, what)
    if types is None:
        return None
    dtype = types[BARE_FIELD]
    if not isinstance(dtype, pl.List | pl.Array):
        raise TopologyError("INVALID_EXPRESSION", f"{what}: the expression gives {dtype}, it must give a list")
    return _schema_of_column(_instance(dtype.inner))


def pair_list_schemas(
    mapper: pl.Expr, columns: tuple[dict[str, pl.DataType], bool], what: str
) -> tuple[Schema | None, Schema | None]:
    """Schemas of the keys and values of lists of pairs that an expression makes."""
    item = list_item_schema(mapper, columns, what)
    if item is None:
        return None, None
    types = dict(item.fields)
    if set(types) != {"key", "value"}:
        raise TopologyError(
            "INVALID_EXPRESSION", f"{what}: the expression must give a list of structs with the fields key and value"
        )
    return _schema_of_column(types["key"]), _schema_of_column(types["value"])


def _schema_of_column(dtype: pl.DataType) -> Schema:
    """A struct is a record of fields, all else a bare value."""
    if isinstance(dtype, pl.Struct):
        return Schema(tuple((field.name, _instance(field.dtype)) for field in dtype.fields), python_type=dict)
    return Schema(((BARE_FIELD, dtype),), bare=True)


def check_predicate(predicate: object, columns: tuple[dict[str, pl.DataType], bool], what: str) -> None:
    """Refuse an expression that is known not to give booleans."""
    if isinstance(predicate, pl.Expr):
        types = infer(predicate, columns, what)
        if types is not None and types[BARE_FIELD] not in (pl.Boolean, pl.Null):
            raise TopologyError(
                "INVALID_EXPRESSION",
                f"{what}: a predicate must be Boolean; this expression is {types[BARE_FIELD]}",
            )


def _instance(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype


_BARE_TYPES: dict[object, pl.DataType] = {
    str: pl.String(),
    int: pl.Int64(),
    float: pl.Float64(),
    bool: pl.Boolean(),
    bytes: pl.Binary(),
}


def schema_of_type(python_type: object) -> Schema | None:
    """Schema of values of a Python type: str, int, float, bool, bytes, a dataclass or a msgspec.Struct; else `None`."""
    if python_type is None:
        return None
    if python_type in _BARE_TYPES:
        return Schema(((BARE_FIELD, _BARE_TYPES[python_type]),), bare=True)
    shape = shape_of_type(python_type) if isinstance(python_type, type) else None
    return None if shape is None else shape.schema


def result_schema(function: object) -> Schema | None:
    """Schema of a callable's results: what it says itself, or its return annotation; `None` if it is not known."""
    if isinstance(function, VectorizedFunction):
        return function.schema
    return schema_of_type(functions.return_type(function))


def item_schema(function: object) -> Schema | None:
    """Schema of the items that a callable gives lists of; `None` if it is not known."""
    if isinstance(function, VectorizedFunction):
        return function.schema
    return schema_of_type(functions.item_type(functions.return_type(function)))


def pair_schemas(function: object) -> tuple[Schema | None, Schema | None]:
    """Schemas of the keys and of the values of a callable that gives pairs; `None` if they are not known."""
    if isinstance(function, VectorizedFunction):
        return function.key_schema, function.schema
    key, value = functions.pair_types(functions.return_type(function))
    return schema_of_type(key), schema_of_type(value)


def serde_of_schema(schema: Schema) -> Serde | None:
    """The serde for values of which only the schema is known: Kafka's own for bare values, JSON for records of fields.

    All whole numbers are 64-bit and all fractions doubles, as they are in Python. `None` if there is none, for
    example for dates.
    """
    if schema.bare:
        return _bare_serde(schema.fields[0][1])
    try:
        if schema.python_type in (None, dict):
            return JsonSerde(schema=dict(schema.fields))
        return JsonSerde(schema.python_type)
    except ConfigError:
        return None


def _bare_serde(dtype: pl.DataType) -> Serde | None:
    match dtype:
        case pl.String():
            return Serdes.string()
        case pl.Binary():
            return Serdes.bytes()
        case pl.Boolean():
            return Serdes.boolean()
    if dtype.is_float():
        return Serdes.double()
    return Serdes.long() if dtype.is_integer() else None


def aggregate_schema(fields: Sequence[FieldAggregate], columns: tuple[dict[str, pl.DataType], bool]) -> Schema | None:
    """Fields and types of a built-in aggregate; `None` if the type of an input is not known.

    Raises:
        TopologyError: `INVALID_AGGREGATE`: sums and means are of numbers.
    """
    types: list[tuple[str, pl.DataType]] = []
    complete = True
    for field in fields:
        if field.loop is not None:
            types.append((field.name, pl.Binary()))
            continue
        inferred = None if field.input is None else infer(field.input, columns, f"agg {field.name}")
        if field.function == "count":
            types.append((field.name, pl.Int64()))
        elif inferred is None:
            complete = False
        else:
            types.append((field.name, _aggregate_type(field, inferred[BARE_FIELD])))
    return Schema(tuple(types), python_type=dict) if complete else None


def _aggregate_type(field: FieldAggregate, dtype: pl.DataType) -> pl.DataType:
    if field.function in ("min", "max"):
        return dtype
    if field.function in ("earliest", "latest", "collect_list", "collect_set"):
        return pl.List(dtype) if field.size is not None or field.function.startswith("collect") else dtype
    if not dtype.is_numeric():
        raise TopologyError(
            "INVALID_AGGREGATE",
            f"agg {field.name}: {field.function} is of numbers; the expression is {dtype}",
        )
    if field.function == "sum" and dtype.is_integer():
        return pl.Int64()
    return pl.Float64()


def windowed_key(serde: Serde, size_ms: int) -> Known:
    """What is known about the key of a windowed table whose record keys have this serde."""
    return Known(TimeWindowedSerde(serde, max(size_ms, 1)))
