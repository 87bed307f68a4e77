"""Expressions over columns: a Polars expression beside a mask of the rows that it leaves to the row form.

The row form is the meaning. A column form is exact where its mask is false; where it is true, a value is missing for
the result, as of a division by zero, and the row form says what the result is, or why there is none. Kinds of
expressions, types and functions that have no column form make the whole expression have none.
"""

from __future__ import annotations

from collections.abc import Mapping

from hayase.sql.ast.expressions import Expression
from hayase.sql.expressions.column_forms import ColumnCompiler, ColumnExpression, NoColumnFormError
from hayase.sql.expressions.column_operators import OPERATORS
from hayase.sql.expressions.column_parts import PARTS
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.types.sql_types import SqlType

__all__ = ["ColumnExpression", "compile_columns"]

_NO_SETTINGS: Mapping[str, object] = {}


def compile_columns(
    expression: Expression,
    columns: Mapping[str, SqlType],
    functions: FunctionRegistry,
    settings: Mapping[str, object] = _NO_SETTINGS,
) -> ColumnExpression | None:
    """The column form of an expression, which has compiled as rows; `None` if it has none.

    Example:
        >>> import polars as pl
        >>> from hayase.sql.ast.expressions import ColumnRef, IntegerLiteral, Arithmetic, ArithmeticOperator
        >>> from hayase.sql.types.sql_types import INTEGER
        >>> halved = Arithmetic(ArithmeticOperator.DIVIDE, IntegerLiteral(7), ColumnRef("A"))
        >>> form = compile_columns(halved, {"A": INTEGER}, FunctionRegistry())
        >>> pl.DataFrame({"A": [-2, 0]}).select(form.value.alias("q"), form.unsure.alias("unsure")).rows()
        [(-3, False), (-7, True)]
    """
    compiler = ColumnCompiler(columns, functions, settings, {**OPERATORS, **PARTS})
    try:
        return compiler.compiled(expression)
    except NoColumnFormError:
        return None
