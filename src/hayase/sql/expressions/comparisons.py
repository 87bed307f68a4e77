"""Comparisons: which types can be compared, and what they become for it."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from hayase.sql.ast.expressions import (
    BigintLiteral,
    ColumnRef,
    Comparison,
    ComparisonOperator,
    Expression,
    StringLiteral,
    children,
)
from hayase.sql.ast.text import expression_text
from hayase.sql.errors import StatementError
from hayase.sql.types.casts import Caster, caster, same
from hayase.sql.types.coercion import is_number, is_time
from hayase.sql.types.sql_types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    ArrayType,
    BooleanType,
    DoubleType,
    MapType,
    SqlType,
    StructType,
)
from hayase.sql.types.times import parse_timestamp

_NAMES = {
    ComparisonOperator.EQUAL: "EQUAL",
    ComparisonOperator.NOT_EQUAL: "NOT_EQUAL",
    ComparisonOperator.LESS: "LESS_THAN",
    ComparisonOperator.LESS_OR_EQUAL: "LESS_THAN_OR_EQUAL",
    ComparisonOperator.GREATER: "GREATER_THAN",
    ComparisonOperator.GREATER_OR_EQUAL: "GREATER_THAN_OR_EQUAL",
    ComparisonOperator.IS_DISTINCT_FROM: "IS_DISTINCT_FROM",
    ComparisonOperator.IS_NOT_DISTINCT_FROM: "IS_NOT_DISTINCT_FROM",
}
_ORDERINGS = {
    ComparisonOperator.LESS,
    ComparisonOperator.LESS_OR_EQUAL,
    ComparisonOperator.GREATER,
    ComparisonOperator.GREATER_OR_EQUAL,
}
DISTINCTIONS = {ComparisonOperator.IS_DISTINCT_FROM, ComparisonOperator.IS_NOT_DISTINCT_FROM}
_TIME_COLUMNS = ("ROWTIME", "WINDOWSTART", "WINDOWEND")


def conversions(
    operator: ComparisonOperator,
    left: Expression,
    left_type: SqlType | None,
    right: Expression,
    right_type: SqlType | None,
) -> tuple[Caster, Caster]:
    """What both sides become before they are compared; a `StatementError` if they cannot be."""
    if left_type is None or right_type is None:
        if operator in DISTINCTIONS:
            return same, same
        raise StatementError(
            "COMPARISON_WITH_NULL",
            f"Comparison with NULL not supported: {left_type or 'NULL'} {operator.value} {right_type or 'NULL'}. "
            "Use IS NULL or IS NOT NULL instead.",
            location=left.location,
        )
    found = _conversions(operator, left_type, right_type)
    if found is None:
        raise StatementError(
            "INCOMPARABLE_TYPES",
            f"Cannot compare {expression_text(left)} ({left_type}) to {expression_text(right)} ({right_type}) with "
            f"{_NAMES[operator]}.\nStatement: {expression_text(Comparison(operator, left, right))}",
            location=left.location,
        )
    return found


def _conversions(operator: ComparisonOperator, left: SqlType, right: SqlType) -> tuple[Caster, Caster] | None:
    if is_number(left) and is_number(right):
        if DOUBLE in (left, right):
            return _as_double(left), _as_double(right)
        return same, same
    for kind in (BooleanType, ArrayType, MapType, StructType):
        if isinstance(left, kind) and isinstance(right, kind):
            return None if operator in _ORDERINGS else (same, same)
    if left == right:
        return same, same
    return _among_times(left, right)


def _as_double(type_: SqlType) -> Caster:
    """Whole numbers too: among doubles, 2^53 + 1 equals 2^53, as in Java."""
    return same if isinstance(type_, DoubleType) else caster(type_, DOUBLE)


def _among_times(left: SqlType, right: SqlType) -> tuple[Caster, Caster] | None:
    if left == STRING and is_time(right):
        return caster(STRING, right), same
    if right == STRING and is_time(left):
        return same, caster(STRING, left)
    if (left, right) == (DATE, TIMESTAMP):
        return caster(DATE, TIMESTAMP), same
    if (left, right) == (TIMESTAMP, DATE):
        return same, caster(DATE, TIMESTAMP)
    if (left, right) == (STRING, BYTES):
        return _decoded, same
    if (left, right) == (BYTES, STRING):
        return same, _decoded
    return None


def _decoded(text: Any) -> bytes | None:
    """Base64, which is how BYTES are written as text."""
    return None if text is None else b64decode(text, validate=True)


def with_times_of_texts(
    left: Expression, left_type: SqlType | None, right: Expression, right_type: SqlType | None
) -> tuple[Expression, Expression]:
    """Both sides, with a literal of text beside ROWTIME, WINDOWSTART or WINDOWEND as the milliseconds that it means."""
    if left_type == BIGINT and isinstance(right, StringLiteral) and _has_time_column(left):
        return left, _milliseconds(right)
    if right_type == BIGINT and isinstance(left, StringLiteral) and _has_time_column(right):
        return _milliseconds(left), right
    return left, right


def _has_time_column(expression: Expression) -> bool:
    """Whether a column of the record's time or the bounds of its window takes part, in a join with a prefix too."""
    if isinstance(expression, ColumnRef):
        return expression.name in _TIME_COLUMNS or expression.name.endswith(tuple(f"_{name}" for name in _TIME_COLUMNS))
    return any(map(_has_time_column, children(expression)))


def _milliseconds(text: StringLiteral) -> BigintLiteral:
    try:
        return BigintLiteral(parse_timestamp(text.value), location=text.location)
    except ValueError as error:
        raise StatementError("INVALID_TIMESTAMP", str(error), location=text.location) from error
