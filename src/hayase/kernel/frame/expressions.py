"""Expressions: what one must be to mean the same for a record and for a batch, and its column form.

It is checked against the schema when the topology is compiled, then runs on whole frames.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from hayase.core.errors import TopologyError
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


def seen_columns(expressions: Sequence[pl.Expr], types: Types) -> dict[str, pl.DataType]:
    """The columns that expressions name; all if one of them selects columns by a pattern or type."""
    if any(each.meta.has_multiple_outputs() for each in expressions):
        return dict(types)
    names = dict.fromkeys(name for each in expressions for name in each.meta.root_names())
    return {name: types[name] for name in names if name in types}


def result_type(node: str, expression: pl.Expr, types: Types) -> pl.DataType:
    """The type of an expression's result.

    Raises:
        TopologyError: `UNKNOWN_FIELD`, or `INVALID_EXPRESSION`: it does not fit the types, or looks at other records.
    """
    check_expression(node, expression)
    try:
        schema = (
            pl.LazyFrame(schema=seen_columns([expression], types)).select(expression.alias(_RESULT)).collect_schema()
        )
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


def struct_type(schema: Schema) -> pl.DataType:
    """The type of one column that holds values of the schema: the field's if it is bare, else a struct."""
    if schema.bare:
        return schema.fields[0][1]
    return pl.Struct([pl.Field(name, dtype) for name, dtype in schema.fields])


def check_expression(node: str, expression: pl.Expr) -> pl.Expr:
    """The expression, if its result for a record depends on that record alone.

    Raises:
        TopologyError: `INVALID_EXPRESSION`: it looks at other records (`sum`, `shift`, `over`, …), changes their number
            (`explode`, `filter`), or selects fields by pattern or type.
    """
    if expression.meta.has_multiple_outputs():
        raise TopologyError(
            "INVALID_EXPRESSION",
            f"{expression} selects fields by pattern or type; name each field by pl.col('…')",
            node=node,
        )
    for part in _parts(expression):
        if not _per_record(part):
            raise TopologyError(
                "INVALID_EXPRESSION",
                f"{expression} does not work record by record, because of {part}: an expression sees one record. "
                "Use group_by and an aggregate to combine records; give formats and categories explicitly",
                node=node,
            )
    return expression


def _parts(expression: pl.Expr) -> Iterable[pl.Expr]:
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(part.meta.pop())


def _per_record(part: pl.Expr) -> bool:
    try:
        meta = part.meta
        return meta.is_row_separable() and (meta.is_length_preserving() or meta.is_scalar())
    except pl.exceptions.PolarsError:  # the answer depends on the types of the fields (Python functions, list.eval)
        return True


_CALLS_PYTHON = frozenset(
    {"AnonymousFunction", "FoldHorizontal", "ReduceHorizontal", "CumFoldHorizontal", "CumReduceHorizontal"}
)
_FOREIGN = frozenset({"FfiPlugin", "Plugin", "PythonUdf", "PythonFunction"})
_RANDOM = frozenset({"Random", "Sample"})


def is_pure_expression(expression: pl.Expr) -> bool:
    """Whether the same record always gives the same result: no Python function, plugin or randomness anywhere in it.

    Example:
        >>> is_pure_expression(pl.col("amount") * 2), is_pure_expression(pl.col("amount").map_elements(abs))
        (True, False)
    """
    try:
        tree = msgspec.json.decode(expression.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, msgspec.DecodeError):  # Polars cannot write down a Python function
        return False
    return not any(_is_impure(name, below) for name, below in _named(tree))


def _named(tree: object) -> Iterable[tuple[str, object]]:
    """The names in a serialized expression, each with what is below it."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from part.items()
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(each for each in part if isinstance(each, dict | list))


def _is_impure(name: str, below: object) -> bool:
    if name in _CALLS_PYTHON or name in _FOREIGN or name in _RANDOM:
        return True
    # A random order without a seed; a function that another function calls.
    return (name == "seed" and below is None) or name == "callback"


def canonical_text(expression: pl.Expr) -> str:
    """A pure expression as text that is the same in every process in which it is built.

    The values of `is_in` are sorted: given as a Python set they come in another order in each process.
    """
    tree = msgspec.json.decode(expression.meta.serialize(format="json"))
    for name, below in _named(tree):
        if name == "Function" and isinstance(below, dict) and "IsIn" in str(below.get("function")):
            below["input"] = [_sorted_literal(part) for part in below["input"]]
    return msgspec.json.encode(tree).decode()


def _sorted_literal(part: object) -> object:
    if not (isinstance(part, dict) and "Literal" in part):
        return part
    literal = pl.Expr.deserialize(io.BytesIO(msgspec.json.encode(part)), format="json")
    values = pl.select(literal).to_series()
    if isinstance(values.dtype, pl.List | pl.Array):
        values = values.explode()
    return [str(values.dtype), sorted(map(repr, values.to_list()))]
