"""Column forms of CASE, CAST, fields, items and functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.sql.ast.expressions import (
    BigintLiteral,
    Cast,
    ComparisonOperator,
    DecimalLiteral,
    Expression,
    FieldRef,
    FunctionCall,
    IntegerLiteral,
    SearchedCase,
    SimpleCase,
    Subscript,
    When,
)
from hayase.sql.expressions import column_decimals
from hayase.sql.expressions.column_forms import (
    MAX_BRANCHES,
    NEVER,
    ColumnCompiler,
    Form,
    NoColumnFormError,
    any_of,
    computed_dtype,
    loaded,
    only_where,
)
from hayase.sql.expressions.column_operators import as_double, compared, wrapped
from hayase.sql.types.sql_types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    ArrayType,
    BigintType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    SqlType,
    StringType,
    TimestampType,
    TimeType,
)

_DAY_MS = 86_400_000


def _searched_case(compiler: ColumnCompiler, expression: SearchedCase) -> Form:
    conditions = [compiler.form(when.condition) for when in expression.whens]
    return _case(compiler, expression, conditions, expression.whens, expression.default)


def _simple_case(compiler: ColumnCompiler, expression: SimpleCase) -> Form:
    conditions = [
        compared(compiler, ComparisonOperator.EQUAL, expression.operand, when.condition) for when in expression.whens
    ]
    return _case(compiler, expression, conditions, expression.whens, expression.default)


def _case(
    compiler: ColumnCompiler,
    expression: Expression,
    conditions: Sequence[Form],
    whens: Sequence[When],
    default: Expression | None,
) -> Form:
    """From the last branch to the first: what is not reached is not unsure."""
    type_ = compiler.type_of(expression)
    dtype = computed_dtype(type_)
    if len(whens) > MAX_BRANCHES:
        raise NoColumnFormError
    rest = Form(pl.lit(None)) if default is None else compiler.form(default)
    value, unsure = rest.value.cast(dtype), rest.unsure
    for condition, when in zip(reversed(conditions), reversed(whens), strict=True):
        result = compiler.form(when.result)
        taken = condition.value.cast(pl.Boolean).fill_null(False)
        value = pl.when(taken).then(result.value.cast(dtype)).otherwise(value)
        unsure = any_of(condition.unsure, only_where(taken, result.unsure), only_where(~taken, unsure))
    return Form(value, unsure)


def _cast_to(compiler: ColumnCompiler, expression: Cast) -> Form:
    source, target = compiler.type_of(expression.operand), expression.target
    operand = compiler.form(expression.operand)
    if source is None or source == target:
        return Form(operand.value.cast(computed_dtype(target)), operand.unsure)
    if isinstance(target, DecimalType) and (source in (INTEGER, BIGINT) or isinstance(source, DecimalType)):
        converted = column_decimals.from_number(operand.value, source, target)
        return Form(converted.value, any_of(operand.unsure, converted.unsure))
    if isinstance(expression.operand, DecimalLiteral) and target == DOUBLE:
        return Form(as_double(expression.operand, operand.value, source))
    if isinstance(source, TimestampType) and isinstance(target, DateType):
        days = operand.value // _DAY_MS
        outside = (days != wrapped(days)).fill_null(False)
        return Form(days, any_of(operand.unsure, outside))
    return Form(_cast_value(operand.value, source, target), operand.unsure)


def _cast_value(value: pl.Expr, source: SqlType, target: SqlType) -> pl.Expr:
    match source, target:
        case DecimalType(), DoubleType():
            return column_decimals.to_double(value, source)
        case DecimalType(), (IntegerType() | BigintType()):
            return column_decimals.to_whole_number(value, source, 32 if target == INTEGER else 64)
        case (IntegerType() | BigintType(), DoubleType()):
            return value.cast(pl.Float64)
        case IntegerType(), BigintType():
            return value
        case BigintType(), IntegerType():
            return wrapped(value)
        case DoubleType(), IntegerType():
            return _saturated(value, 32)
        case DoubleType(), BigintType():
            return _saturated(value, 64)
        case (IntegerType() | BigintType(), StringType()):
            return value.cast(pl.String)
        case BooleanType(), StringType():
            return pl.when(value.is_null()).then(None).when(value).then(pl.lit("true")).otherwise(pl.lit("false"))
        case TimestampType(), TimeType():
            return value % _DAY_MS
        case DateType(), TimestampType():
            return value * _DAY_MS
    raise NoColumnFormError


def _saturated(value: pl.Expr, bits: int) -> pl.Expr:
    """A double as a whole number of some bits: NaN is 0, what is too large is the nearest that there is."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    inside = (value > low) & (value < high)
    whole = pl.when(inside).then(value).otherwise(0.0).cast(pl.Int64)
    return (
        pl.when(value.is_null())
        .then(None)
        .when(value.is_nan())
        .then(0)
        .when(value >= high)
        .then(pl.lit(high, dtype=pl.Int64))
        .when(value <= low)
        .then(pl.lit(low, dtype=pl.Int64))
        .otherwise(whole)
    )


def _field(compiler: ColumnCompiler, expression: FieldRef) -> Form:
    base = compiler.form(expression.base)
    type_ = compiler.type_of(expression)
    return Form(loaded(base.value.struct.field(expression.field_name), type_), base.unsure)


def _subscript(compiler: ColumnCompiler, expression: Subscript) -> Form:
    index = expression.index
    if not isinstance(compiler.type_of(expression.base), ArrayType) or not isinstance(
        index, IntegerLiteral | BigintLiteral
    ):
        raise NoColumnFormError
    base = compiler.form(expression.base)
    type_ = compiler.type_of(expression)
    if index.value == 0:
        return Form(pl.lit(None).cast(computed_dtype(type_)), base.unsure)
    position = index.value - 1 if index.value > 0 else index.value
    return Form(loaded(base.value.list.get(position, null_on_oob=True), type_), base.unsure)


def _call(compiler: ColumnCompiler, call: FunctionCall) -> Form:
    bound = compiler.typer.call(call)
    if bound.columns is None or isinstance(bound.return_type, DecimalType):
        raise NoColumnFormError
    arguments: list[Form] = []
    for argument, target in zip(call.arguments, bound.argument_types, strict=True):
        source = compiler.type_of(argument)
        if not isinstance(target, SqlType) or isinstance(target, DecimalType) or source is None:
            raise NoColumnFormError
        form = compiler.form(argument)
        value = form.value if source == target else _cast_value(form.value, source, target)
        arguments.append(Form(value, form.unsure))
    compiler.pure = compiler.pure and bound.pure
    leading: list[Any] = [compiler.settings] if bound.settings else []
    if bound.types is not None:
        leading.append(bound.types)
    result = bound.columns(*leading, *(argument.value for argument in arguments))
    value, unsure = result if isinstance(result, tuple) else (result, NEVER)
    missing = NEVER
    if not bound.null_aware and not bound.lazy:
        missing = any_of(*(argument.value.is_null() for argument in arguments))
    if unsure is not NEVER:
        unsure = unsure.fill_null(False) if missing is NEVER else ~missing & unsure.fill_null(False)
    if missing is not NEVER:
        value = pl.when(missing).then(None).otherwise(value)
    return Form(
        value.cast(computed_dtype(bound.return_type)), any_of(unsure, *(argument.unsure for argument in arguments))
    )


PARTS: dict[type[Expression], Any] = {
    Cast: _cast_to,
    FieldRef: _field,
    FunctionCall: _call,
    SearchedCase: _searched_case,
    SimpleCase: _simple_case,
    Subscript: _subscript,
}
"""The column forms of all that is no operator."""
