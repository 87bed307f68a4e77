"""Expressions over rows: each becomes one generated Python function."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from hayase.sql.ast.expressions import Expression
from hayase.sql.errors import StatementError
from hayase.sql.expressions.emitter import Emitter
from hayase.sql.expressions.handlers import HANDLERS
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.types.sql_types import SqlType

Report = Callable[[Exception], None]
"""Takes the failure of a part of an expression that is null because of it."""

_NO_SETTINGS: Mapping[str, object] = {}


class RowExpression:
    """An expression as a function of a row: a mapping from names of columns to values.

    A call raises if the expression fails; the caller decides what the result is then. Where only an argument of a
    function or an item of a constructor fails, that is null, and `report` gets the error.

    Attributes:
        type: of the result; `None` if it is always null.
        pure: the same row always gives the same result.
        report: may be set at any time; it does not take part in pickling.
    """

    def __init__(self, source: str, bindings: tuple[Any, ...], type_: SqlType | None, pure: bool) -> None:
        self.type = type_
        self.pure = pure
        self.report: Report | None = None
        self._source = source
        self._bindings = bindings
        self._function = self._compiled()

    def __call__(self, row: Mapping[str, object]) -> Any:
        """The value for a row."""
        return self._function(row)

    @property
    def source(self) -> str:
        """The generated code."""
        return self._source

    def __reduce__(self) -> tuple[Any, ...]:
        return RowExpression, (self._source, self._bindings, self.type, self.pure)

    def _compiled(self) -> Callable[[Mapping[str, object]], Any]:
        names: dict[str, Any] = {f"b{position}": value for position, value in enumerate(self._bindings)}
        names["report"] = self._failed
        names["__builtins__"] = {"Exception": Exception, "float": builtins.float}
        exec(_code(self._source), names)
        function: Callable[[Mapping[str, object]], Any] = names["f1"]
        return function

    def _failed(self, error: Exception) -> None:
        if self.report is not None:
            self.report(error)


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
    try:
        source, bindings = emitter.compile(expression)
    except RecursionError as error:
        raise StatementError("NESTED_TOO_DEEPLY", "the expression nests too deeply: make it simpler") from error
    return RowExpression(source, bindings, emitter.typer.type_of(expression), emitter.pure)
