"""What column forms of expressions are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import polars as pl

from hayase.sql.ast.expressions import ColumnRef, Expression, NullLiteral
from hayase.sql.expressions.typing import Typer, is_literal
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.types.column_types import MAX_DIGITS, dtype_of
from hayase.sql.types.sql_types import BigintType, DateType, DecimalType, IntegerType, SqlType, TimestampType, TimeType

NEVER = pl.lit(False)
_MAX_TEXT = 60_000
"""Characters of a form as Polars prints it: its planner takes time that grows with the square of that."""
MAX_BRANCHES = 100
"""Branches of CASE, and computed items of IN, that have a column form."""
_EXACT = Context(prec=2 * MAX_DIGITS)
WHOLE_TYPES = (IntegerType, BigintType, DateType, TimeType, TimestampType)
"""Types whose values are integers in columns; they are computed with 64 bits."""


@dataclass(frozen=True, slots=True)
class Form:
    """A value in columns, and where the row form has to decide."""

    value: pl.Expr
    unsure: pl.Expr = NEVER
    is_present: bool = False
    """The value is null only where it is unsure."""


@dataclass(frozen=True, slots=True)
class ColumnExpression:
    """The column form of an expression.

    Attributes:
        value: over the columns, which have the types of `dtype_of`; exact where `unsure` is false.
        unsure: true where the row form has to be asked; never null.
        type: of the result.
        pure: the same rows always give the same result.
    """

    value: pl.Expr
    unsure: pl.Expr
    type: SqlType
    pure: bool


class NoColumnFormError(Exception):
    """The expression is computed row by row."""


class ColumnCompiler:
    """Makes forms; `handlers` has one function for each kind of expression that has a column form."""

    def __init__(
        self,
        columns: Mapping[str, SqlType],
        functions: FunctionRegistry,
        settings: Mapping[str, object],
        handlers: Mapping[type[Expression], Callable[[ColumnCompiler, Any], Form]],
    ) -> None:
        self.typer = Typer(columns, functions)
        self.pure = True
        self.settings = settings
        self._handlers = handlers

    def form(self, expression: Expression) -> Form:
        """The form of an expression.

        Raises:
            NoColumnFormError: it has none.
        """
        if isinstance(expression, NullLiteral):
            return Form(pl.lit(None))
        type_ = self.type_of(expression)
        if isinstance(expression, ColumnRef):
            self._dtype(type_)
            return Form(loaded(pl.col(expression.name), type_))
        if is_literal(expression):
            return Form(literal(getattr(expression, "value", None), type_), is_present=True)
        handler = self._handlers.get(type(expression))
        if handler is None:
            raise NoColumnFormError
        form = handler(self, expression)
        if len(str(form.value)) + len(str(form.unsure)) > _MAX_TEXT:
            raise NoColumnFormError
        return form

    def type_of(self, expression: Expression) -> SqlType | None:
        """The type of an expression."""
        return self.typer.type_of(expression)

    def compiled(self, expression: Expression) -> ColumnExpression:
        """The whole expression."""
        form = self.form(expression)
        type_ = self.type_of(expression)
        dtype = self._dtype(type_)
        assert type_ is not None
        value = _unloaded_decimal(form, type_) if isinstance(type_, DecimalType) else form.value
        return ColumnExpression(value.cast(dtype), form.unsure, type_, self.pure)

    def _dtype(self, type_: SqlType | None) -> pl.DataType:
        dtype = dtype_of(type_)
        if dtype is None:
            raise NoColumnFormError
        return dtype


def loaded(value: pl.Expr, type_: SqlType | None) -> pl.Expr:
    """A value of a column as it is computed with: a DECIMAL is a whole number, scaled by its scale."""
    if isinstance(type_, DecimalType):
        return value.cast(pl.Decimal(MAX_DIGITS, type_.scale)).to_physical()
    return value.cast(pl.Int64) if isinstance(type_, WHOLE_TYPES) else value


def computed_dtype(type_: SqlType | None) -> pl.DataType:
    """The Polars type that values of a type are computed in."""
    if isinstance(type_, WHOLE_TYPES):
        return pl.Int64()
    dtype = dtype_of(type_)
    if dtype is None:
        raise NoColumnFormError
    return pl.Int128() if isinstance(type_, DecimalType) else dtype


def literal(value: Any, type_: SqlType | None) -> pl.Expr:
    """A literal of a type."""
    return pl.lit(_computed(value, type_), dtype=computed_dtype(type_))


def literals(values: Sequence[Any], type_: SqlType | None) -> pl.Expr:
    """Literals of a type as one list, for `is_in`."""
    computed = [_computed(value, type_) for value in values]
    return pl.lit(pl.Series(computed, dtype=computed_dtype(type_))).implode()


def _computed(value: Any, type_: SqlType | None) -> Any:
    return int(value.scaleb(type_.scale, _EXACT)) if isinstance(type_, DecimalType) else value


def _unloaded_decimal(form: Form, type_: DecimalType) -> pl.Expr:
    """A computed DECIMAL as a column; null where the row form decides, for there it may not fit."""
    value = pl.when(form.unsure).then(None).otherwise(form.value).cast(pl.Decimal(MAX_DIGITS, 0))
    # The product of a whole number with 10^-scale has exactly that scale, and nothing is rounded.
    return value * pl.lit(Decimal((0, (1,), -type_.scale)), dtype=pl.Decimal(MAX_DIGITS, type_.scale))


def quotient(dividend: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    """The quotient of doubles, rounded once."""
    # Polars 2.1 multiplies by the reciprocal of a divisor that is one number, which rounds twice; of a column of ones,
    # it does not know that it is.
    ones = (pl.int_range(pl.len()) * 0 + 1).cast(pl.Float64)
    return dividend / (divisor * ones)


def any_of(*conditions: pl.Expr) -> pl.Expr:
    """OR of conditions that are never null."""
    result = NEVER
    for condition in conditions:
        if condition is not NEVER:
            result = condition if result is NEVER else result | condition
    return result


def only_where(condition: pl.Expr, mask: pl.Expr) -> pl.Expr:
    """A mask that counts only where a condition, which is never null, is true."""
    return NEVER if mask is NEVER else condition & mask
