"""Types of expressions in the clauses of a query, and what has no type there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.text import expression_text
from hayase.sql.errors import StatementError
from hayase.sql.expressions.typing import type_of
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.types.sql_types import BOOLEAN, SqlType


@dataclass(frozen=True)
class Typing:
    """Types of expressions with one registry of functions."""

    functions: FunctionRegistry

    def __call__(self, expression: Expression, columns: Mapping[str, SqlType]) -> SqlType | None:
        """The type; `None` for NULL."""
        return type_of(expression, columns, self.functions)

    def known(self, expression: Expression, columns: Mapping[str, SqlType]) -> SqlType:
        """The type of an expression that must have one.

        Raises:
            StatementError: it is NULL.
        """
        type_ = self(expression, columns)
        if type_ is None:
            raise StatementError(
                "UNKNOWN_TYPE",
                "Can't infer a type of null. Please explicitly cast it to a required type, e.g. CAST(null AS VARCHAR).",
                location=expression.location,
            )
        return type_

    def check_predicate(self, predicate: Expression, columns: Mapping[str, SqlType], clause: str) -> None:
        """A predicate has to be BOOLEAN.

        Raises:
            StatementError: it is not, or has no type.
        """
        try:
            type_ = self(predicate, columns)
        except StatementError as error:
            raise StatementError(
                error.condition, f"Error in {clause} expression: {error.message}", location=error.location
            ) from error
        if type_ != BOOLEAN:
            raise StatementError(
                "TYPE_MISMATCH",
                f"Type error in {clause} expression: Should evaluate to boolean but is {expression_text(predicate)} "
                f"({type_}) instead.",
                location=predicate.location,
            )
