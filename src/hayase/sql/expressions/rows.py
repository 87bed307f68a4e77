"""Expressions over rows: each becomes one generated Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from hayase.sql.ast.expressions import Expression
from hayase.sql.expressions.emitter import Emitter
from hayase.sql.expressions.handlers import HANDLERS
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.grammar.limits import nesting_errors
from hayase.sql.types.sql_types import SqlType

_NO_SETTINGS: Mapping[str, object] = {}


class RowExpression:
    """An expression as a function of a row: a mapping from names of columns to values.

    A call raises if the expression fails; the caller decides what the result is then. Where only an argument of a
    function or an item of a constructor fails, that is null, and `report` gets the error.

    Attributes:
        type: of the result; `None` if it is always null.
        pure: the same row always gives the same result.
        source: the generated code.
        report: may be set at any time; it does not take part in pickling.
    """

    def __init__(self, source: str, bindings: tuple[Any, ...], type_: SqlType | None, pure: bool) -> None:
        self.type = type_
        self.pure = pure
        self.source = source
        self.report: Callable[[Exception], None] | None = None
        self._bindings = bindings
        self._function = _function(source, bindings, self._failed)

    def __call__(self, row: Mapping[str, object]) -> Any:
        """The value for a row."""
        return self._function(row)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowExpression, (self.source, self._bindings, self.type, self.pure)

    def _failed(self, error: Exception, _: int) -> None:
        if self.report is not None:
            self.report(error)


class RowProjection:
    """Several expressions as one function of a row, which gives a dict of their values.

    An expression that fails is null, and `report` gets its name and the error.

    Attributes:
        types: name and type of each expression.
        pure: the same row always gives the same results.
        source: the generated code.
        report: may be set at any time; it does not take part in pickling.
    """

    def __init__(
        self, source: str, bindings: tuple[Any, ...], types: tuple[tuple[str, SqlType | None], ...], pure: bool
    ) -> None:
        self.types = types
        self.pure = pure
        self.source = source
        self.report: Callable[[str, Exception], None] | None = None
        self._bindings = bindings
        self._function = _function(source, bindings, self._failed)

    def __call__(self, row: Mapping[str, object]) -> dict[str, Any]:
        """The values for a row."""
        values: dict[str, Any] = self._function(row)
        return values

    def __reduce__(self) -> tuple[Any, ...]:
        return RowProjection, (self.source, self._bindings, self.types, self.pure)

    def _failed(self, error: Exception, item: int) -> None:
        if self.report is not None:
            self.report(self.types[item][0], error)


def _function(
    source: str, bindings: tuple[Any, ...], report: Callable[[Exception, int], None]
) -> Callable[[Mapping[str, object]], Any]:
    names: dict[str, Any] = {f"b{position}": value for position, value in enumerate(bindings)}
    names["report"] = report
    names["__builtins__"] = {"Exception": Exception, "float": float}
    exec(_code(source), names)
    function: Callable[[Mapping[str, object]], Any] = names["f1"]
    return function


@lru_cache(maxsize=1024)
def _code(source: str) -> CodeType:
    return compile(source, "<SQL expression>", "exec")


def compile_row(
    expression: Expression,
    columns: Mapping[str, SqlType],
    functions: FunctionRegistry,
    settings: Mapping[str, object] = _NO_SETTINGS,
) -> RowExpression:
    """Compiles an expression over columns.

    Args:
        expression: the expression; its columns have no source.
        columns: all columns of the rows with their types.
        functions: which functions there are.
        settings: of the session, for the functions that take them.

    Raises:
        StatementError: as `type_of`, and for literals in IN and casts that have no meaning.
    """
    emitter = Emitter(columns, functions, settings, HANDLERS)
    with nesting_errors():
        source, bindings = emitter.compile(expression)
        return RowExpression(source, bindings, emitter.typer.type_of(expression), emitter.pure)


def compile_projection(
    items: Sequence[tuple[str, Expression]],
    columns: Mapping[str, SqlType],
    functions: FunctionRegistry,
    settings: Mapping[str, object] = _NO_SETTINGS,
) -> RowProjection:
    """Compiles named expressions over the same columns into one function; raises as `compile_row`."""
    emitter = Emitter(columns, functions, settings, HANDLERS)
    with nesting_errors():
        source, bindings = emitter.compile_all(items)
        types = tuple((name, emitter.typer.type_of(expression)) for name, expression in items)
        return RowProjection(source, bindings, types, emitter.pure)
