"""Expressions and aggregates, evaluated as a query does."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from hayase.sql.expressions.rows import compile_row
from hayase.sql.functions.registry import default_registry
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.types.sql_types import SqlType

REGISTRY = default_registry()


def evaluate(
    text: str,
    row: Mapping[str, Any] | None = None,
    columns: Mapping[str, SqlType] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """The value of an expression, from a copy that has been pickled, as Spark's workers get it."""
    expression = compile_row(parse_expression(text), columns or {}, REGISTRY, settings or {})
    return pickle.loads(pickle.dumps(expression))(row or {})


def type_text(text: str, columns: Mapping[str, SqlType] | None = None) -> str:
    """The type of an expression, as SQL."""
    return str(compile_row(parse_expression(text), columns or {}, REGISTRY, {}).type)


class Running:
    """An aggregate of one group."""

    def __init__(
        self,
        name: str,
        types: Sequence[SqlType],
        literals: Mapping[int, object] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.bound = REGISTRY.aggregate(name, types, literals or {}, settings or {})
        self.function = self.bound.create()
        self.state = self.function.initial()

    def add(self, *rows: Any) -> Any:
        """The result with rows more; a row is a value, or a tuple of them."""
        for row in rows:
            self.state = self.function.add(self.state, *(row if isinstance(row, tuple) else (row,)))
        return self.function.result(self.state)

    def undo(self, *rows: Any) -> Any:
        """The result with rows less."""
        for row in rows:
            self.state = self.function.undo(self.state, *(row if isinstance(row, tuple) else (row,)))
        return self.function.result(self.state)

    def merge(self, other: Running) -> Any:
        """The result of two sessions."""
        return self.function.result(self.function.merge(self.state, other.state))
