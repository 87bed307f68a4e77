"""Expressions in column form: checked against the schema when the topology is compiled, then run on whole frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from hayase.core.errors import TopologyError
from hayase.kernel.frame.expression_rules import check_expression
from hayase.kernel.frame.row_functions import struct_type
from hayase.kernel.node.column_node import HEADERS, KEY, NULL, TS, WINDOW_END, WINDOW_START, order_columns
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.topology.operators import Fields

_RESULT = "__result"

Types = Mapping[str, pl.DataType]
"""Columns that an expression may name, with their types."""


def visible(edge: EdgeSchema) -> dict[str, pl.DataType]:
    """What expressions on an edge's records may name."""
    types = dict(edge.value.fields)
    types[KEY] = struct_type(edge.key)
    types[TS] = pl.Int64()
    if edge.windowed:
        types[WINDOW_START] = types[WINDOW_END] = pl.Int64()
    return types


def result_type(node: str, expression: pl.Expr, types: Types) -> pl.DataType:
    """The type of an expression's result.

    Raises:
        TopologyError: `UNKNOWN_FIELD`, or `INVALID_EXPRESSION`: it does not fit the types, or looks at other records.
    """
    check_expression(node, expression)
    try:
        schema = pl.LazyFrame(schema=dict(types)).select(expression.alias(_RESULT)).collect_schema()
    except pl.exceptions.ColumnNotFoundError as error:
        missing = sorted(set(expression.meta.root_names()) - set(types))
        raise TopologyError(
            "UNKNOWN_FIELD",
            f"{expression} names {', '.join(missing) or 'a field'}, which is not there; there are {_listed(types)}",
            node=node,
        ) from error
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise TopologyError(
            "INVALID_EXPRESSION", f"{expression} cannot work on {_listed(types)}: {reason}", node=node
        ) from error
    return schema[_RESULT]


def _listed(types: Types) -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in types.items())


def predicate_of(node: str, expression: pl.Expr, types: Types) -> pl.Expr:
    """The predicate as an expression that is never null.

    Raises:
        TopologyError: see `result_type`; `INVALID_EXPRESSION` as well if it is no boolean.
    """
    dtype = result_type(node, expression, types)
    if dtype not in (pl.Boolean(), pl.Null()):
        raise TopologyError(
            "INVALID_EXPRESSION", f"{expression} gives {dtype}, a predicate must give a boolean", node=node
        )
    return expression.cast(pl.Boolean).fill_null(value=False)


@dataclass(frozen=True, slots=True)
class CompiledValue:
    """A value (or key) made of expressions.

    Attributes:
        schema: of the results. An expression that gives a struct makes a record of fields.
        expressions: named as the schema's fields, or the one expression whose result is taken apart.
        struct: the one expression gives a struct.
    """

    schema: Schema
    expressions: Sequence[pl.Expr]
    struct: bool = False

    def on(self, frame: pl.DataFrame, carried: Sequence[str]) -> pl.DataFrame:
        """The carried columns of the frame with the new fields and `__null`.

        A result that is null is a null value if it is bare or a struct; a record of named fields is never null.
        """
        out = frame.select(*carried, *self.expressions)
        if self.struct:
            return out.with_columns(pl.col(_RESULT).is_null().alias(NULL)).unnest(_RESULT)
        null = pl.col(BARE_FIELD).is_null() if self.schema.bare else pl.lit(value=False)
        return out.with_columns(null.alias(NULL))


def compile_value(node: str, mapper: pl.Expr | Fields, types: Types) -> CompiledValue:
    """A mapper's expressions, checked; raises TopologyError (see `result_type`)."""
    if isinstance(mapper, tuple):
        fields = tuple((name, result_type(node, expression, types)) for name, expression in mapper)
        expressions = [expression.alias(name) for name, expression in mapper]
        return CompiledValue(Schema(fields, python_type=dict), expressions)
    dtype = result_type(node, mapper, types)
    schema = schema_of_type(dtype)
    if schema.bare:
        return CompiledValue(schema, [mapper.alias(BARE_FIELD)])
    return CompiledValue(schema, [mapper.alias(_RESULT)], struct=True)


def schema_of_type(dtype: pl.DataType) -> Schema:
    """The schema of values held in one column: a record of fields for a struct, else a bare value."""
    if isinstance(dtype, pl.Struct):
        return Schema(tuple((field.name, instance(field.dtype)) for field in dtype.fields), python_type=dict)
    return Schema(((BARE_FIELD, dtype),), bare=True)


def instance(dtype: Any) -> pl.DataType:
    """The type, made if it is given as a class."""
    instance_of_type: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return instance_of_type


def carried(frame: pl.DataFrame, *, key: bool = True, windows: bool = True) -> list[str]:
    """The columns that a stream record keeps when its value changes."""
    names = [KEY] if key else []
    names.append(TS)
    if windows and WINDOW_START in frame.columns:
        names += [WINDOW_START, WINDOW_END]
    if HEADERS in frame.columns:
        names.append(HEADERS)
    return names + order_columns(frame)
