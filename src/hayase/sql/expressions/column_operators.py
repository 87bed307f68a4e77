"""Column forms of operators: arithmetic, comparisons, logic, IN and LIKE."""

from __future__ import annotations

from typing import Any

import polars as pl

from hayase.sql.ast.expressions import (
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
    DecimalLiteral,
    Expression,
    InList,
    IsNull,
    Like,
    Logical,
    LogicalOperator,
    Negative,
    Not,
    NullLiteral,
    StringLiteral,
)
from hayase.sql.expressions import column_decimals
from hayase.sql.expressions.coercion import coerced
from hayase.sql.expressions.column_forms import (
    MAX_BRANCHES,
    ColumnCompiler,
    Form,
    NoColumnFormError,
    any_of,
    literal,
    literals,
    only_where,
    quotient,
)
from hayase.sql.expressions.comparisons import DISTINCTIONS, conversions, with_times_of_texts
from hayase.sql.expressions.constants import in_order
from hayase.sql.expressions.patterns import like_regex
from hayase.sql.expressions.typing import is_literal
from hayase.sql.types.casts import Caster, same
from hayase.sql.types.sql_types import (
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

_INT_HALF = 1 << 31
_MIRRORED = {
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS_OR_EQUAL,
}


def _arithmetic(compiler: ColumnCompiler, expression: Arithmetic) -> Form:
    left, right = compiler.form(expression.left), compiler.form(expression.right)
    type_ = compiler.type_of(expression)
    unsure = [left.unsure, right.unsure, *(form.value.is_null() for form in (left, right) if not form.is_present)]
    operator = expression.operator
    types = compiler.type_of(expression.left), compiler.type_of(expression.right)
    if type_ == STRING:
        return Form(left.value + right.value, any_of(*unsure), is_present=True)
    if type_ == DOUBLE:
        one, other = (
            as_double(expression, form.value, one_type)
            for expression, form, one_type in zip(
                (expression.left, expression.right), (left, right), types, strict=True
            )
        )
        return Form(_of_doubles(operator, one, other), any_of(*unsure), is_present=True)
    if isinstance(type_, DecimalType):
        assert types[0] is not None and types[1] is not None
        result = column_decimals.arithmetic(operator, type_, left, types[0], right, types[1])
        return Form(result.value, any_of(*unsure, result.unsure))
    if operator in (ArithmeticOperator.DIVIDE, ArithmeticOperator.MODULUS):
        unsure.append((right.value == 0).fill_null(False))
    value = _of_whole_numbers(operator, left.value, right.value)
    return Form(wrapped(value) if type_ == INTEGER else value, any_of(*unsure), is_present=True)


def as_double(expression: Expression, value: pl.Expr, type_: SqlType | None) -> pl.Expr:
    """A number as DOUBLE."""
    if isinstance(expression, DecimalLiteral):
        return pl.lit(float(expression.value), dtype=pl.Float64)
    return column_decimals.to_double(value, type_) if isinstance(type_, DecimalType) else value.cast(pl.Float64)


def _of_doubles(operator: ArithmeticOperator, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    match operator:
        case ArithmeticOperator.ADD:
            return left + right
        case ArithmeticOperator.SUBTRACT:
            return left - right
        case ArithmeticOperator.MULTIPLY:
            return left * right
        case ArithmeticOperator.DIVIDE:
            return quotient(left, right)
    raise NoColumnFormError  # Polars' remainder of doubles has the sign of the divisor, and correcting it rounds.


def _of_whole_numbers(operator: ArithmeticOperator, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """With 64 bits, which wrap in Polars as in Java."""
    match operator:
        case ArithmeticOperator.ADD:
            return left + right
        case ArithmeticOperator.SUBTRACT:
            return left - right
        case ArithmeticOperator.MULTIPLY:
            return left * right
    # Polars rounds down, Java towards zero. Division by -1 may overflow, and by 0 there is no result: both get another
    # divisor.
    special = right.is_in([0, -1])
    divisor = pl.when(special).then(1).otherwise(right)
    quotient, rest = left // divisor, left % divisor
    inexact = (rest != 0) & ((left < 0) != (divisor < 0))
    if operator is ArithmeticOperator.DIVIDE:
        return pl.when(special).then(0 - left).otherwise(quotient + inexact.cast(pl.Int64))
    return pl.when(special).then(0).otherwise(pl.when(inexact).then(rest - divisor).otherwise(rest))


def wrapped(value: pl.Expr) -> pl.Expr:
    """Whole numbers of 64 bits as INTEGER, which goes on at the other end."""
    return (value + _INT_HALF) % (2 * _INT_HALF) - _INT_HALF


def _negative(compiler: ColumnCompiler, expression: Negative) -> Form:
    operand = compiler.form(expression.operand)
    type_ = compiler.type_of(expression)
    unsure = any_of(operand.unsure, operand.value.is_null())
    if type_ == DOUBLE:
        return Form(-operand.value, unsure)
    value = 0 - operand.value
    return Form(wrapped(value) if type_ == INTEGER else value, unsure)


def _comparison(compiler: ColumnCompiler, expression: Comparison) -> Form:
    left, right = expression.left, expression.right
    left, right = with_times_of_texts(left, compiler.type_of(left), right, compiler.type_of(right))
    return compared(compiler, expression.operator, left, right)


def compared(compiler: ColumnCompiler, operator: ComparisonOperator, left: Expression, right: Expression) -> Form:
    """Compares two expressions; null beside anything is false, except in the two with DISTINCT."""
    types = compiler.type_of(left), compiler.type_of(right)
    converts = conversions(operator, left, types[0], right, types[1])
    if any(isinstance(type_, ArrayType | MapType | StructType) for type_ in types):
        raise NoColumnFormError
    sides = [
        _converted(compiler, side, type_, convert, other)
        for side, type_, convert, other in zip((left, right), types, converts, reversed(types), strict=True)
    ]
    values = sides[0].value, sides[1].value
    nan = any_of(*(value.is_nan().fill_null(False) for value in values)) if DOUBLE in types else None
    return Form(_compared_values(operator, *values, nan), any_of(*(side.unsure for side in sides)))


def _converted(
    compiler: ColumnCompiler, side: Expression, type_: SqlType | None, convert: Caster, other: SqlType | None
) -> Form:
    """One side as it is compared."""
    if is_literal(side) and convert is not same:
        try:
            return Form(literal(convert(getattr(side, "value", None)), other))
        except (ValueError, ArithmeticError) as error:
            raise NoColumnFormError from error
    form = compiler.form(side)
    if other == DOUBLE and type_ != DOUBLE:
        # NULL too, so that both sides can be asked for NaN.
        return Form(as_double(side, form.value, type_), form.unsure)
    if DOUBLE in (type_, other):
        return form
    if type_ is not None and other is not None and DecimalType in (type(type_), type(other)):
        return Form(column_decimals.comparable(form.value, type_, other), form.unsure)
    if convert is not same:
        raise NoColumnFormError
    return form


def _compared_values(operator: ComparisonOperator, left: pl.Expr, right: pl.Expr, nan: pl.Expr | None) -> pl.Expr:
    """Polars takes NaN for equal to itself and for the largest number; here it is unequal to all."""
    if not left.meta.root_names():
        # Polars 2.1 gives one row only where a constant on the left is compared with nulls from a `when`.
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    differs = False
    match operator:
        case ComparisonOperator.EQUAL:
            value = left == right
        case ComparisonOperator.NOT_EQUAL:
            value, differs = left != right, True
        case ComparisonOperator.LESS:
            value = left < right
        case ComparisonOperator.LESS_OR_EQUAL:
            value = left <= right
        case ComparisonOperator.GREATER:
            value = left > right
        case ComparisonOperator.GREATER_OR_EQUAL:
            value = left >= right
        case ComparisonOperator.IS_DISTINCT_FROM:
            value, differs = left.ne_missing(right), True
        case ComparisonOperator.IS_NOT_DISTINCT_FROM:
            value = left.eq_missing(right)
    if nan is not None and differs and operator not in DISTINCTIONS:
        value = value | (nan & left.is_not_null() & right.is_not_null())
    elif nan is not None:
        value = value | nan if differs else value & ~nan
    return value.fill_null(False)


def _between(compiler: ColumnCompiler, expression: Between) -> Form:
    sides = []
    for bound, operator in (
        (expression.low, ComparisonOperator.GREATER_OR_EQUAL),
        (expression.high, ComparisonOperator.LESS_OR_EQUAL),
    ):
        operand = expression.operand
        operand, bound = with_times_of_texts(operand, compiler.type_of(operand), bound, compiler.type_of(bound))
        sides.append(compared(compiler, operator, operand, bound))
    above, below = sides
    return Form(above.value & below.value, any_of(above.unsure, only_where(above.value, below.unsure)))


def _logical(compiler: ColumnCompiler, expression: Logical) -> Form:
    left, right = (_truth(compiler.form(operand)) for operand in (expression.left, expression.right))
    decided = left.value if expression.operator is LogicalOperator.OR else ~left.value
    unsure = any_of(left.unsure, only_where(~decided.fill_null(False), right.unsure))
    if expression.operator is LogicalOperator.AND:
        return Form(left.value & right.value, unsure)
    return Form(left.value | right.value, unsure)


def _truth(form: Form) -> Form:
    return Form(form.value.cast(pl.Boolean), form.unsure)


def _negation(compiler: ColumnCompiler, expression: Not) -> Form:
    operand = _truth(compiler.form(expression.operand))
    return Form(~operand.value, operand.unsure)


def _is_null(compiler: ColumnCompiler, expression: IsNull) -> Form:
    operand = compiler.form(expression.operand)
    value = operand.value.is_not_null() if expression.negated else operand.value.is_null()
    return Form(value, operand.unsure)


def _in_list(compiler: ColumnCompiler, expression: InList) -> Form:
    listed = (expression.operand, *expression.items)
    type_ = compiler.typer.common_type(listed, ())
    operand, *items = (coerced(one, compiler.type_of, type_) for one in listed)
    if isinstance(operand, NullLiteral):
        return Form(pl.lit(False))
    value = compiler.form(operand)
    found = pl.lit(False)
    unsure = [value.unsure]
    present = value.value.is_not_null()
    parts = list(in_order(items, compiler.type_of))
    if len(parts) > MAX_BRANCHES:
        raise NoColumnFormError
    for constants, item in parts:
        if item is None:
            found = found | value.value.is_in(literals(constants, type_)).fill_null(False)
            continue
        same_value = compared(compiler, ComparisonOperator.EQUAL, operand, item)
        unsure.append(only_where(present & ~found, compiler.form(item).unsure))
        found = found | same_value.value
    return Form(found, any_of(*unsure))


def _like(compiler: ColumnCompiler, expression: Like) -> Form:
    if not isinstance(expression.pattern, StringLiteral):
        raise NoColumnFormError
    operand = compiler.form(expression.operand)
    regex = like_regex(expression.pattern.value, expression.escape)
    return Form(operand.value.cast(pl.String).str.contains(rf"(?s)\A(?:{regex})\z"), operand.unsure)


OPERATORS: dict[type[Expression], Any] = {
    Arithmetic: _arithmetic,
    Between: _between,
    Comparison: _comparison,
    InList: _in_list,
    IsNull: _is_null,
    Like: _like,
    Logical: _logical,
    Negative: _negative,
    Not: _negation,
}
"""The column forms of operators."""
