"""Expressions over rows: each becomes one generated Python function."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from types import CodeType
from typing import Any

from hayase.sql.ast.expressions import ColumnRef, Expression
from hayase.sql.expressions.emitter import Emitter
from hayase.sql.expressions.handlers import HANDLERS
from hayase.sql.expressions.open_ended import is_open_ended, parts_of
from hayase.sql.functions.registry import FunctionRegistry, RowCall
from hayase.sql.grammar.limits import nesting_errors
from hayase.sql.types.sql_types import SqlType

_NO_SETTINGS: Mapping[str, object] = {}


class ElsewhereComputed:
    """An expression that is computed in another process, because it may take long or much memory.

    Args:
        calls: compute it.
        reads: the columns that it uses.
        program: the expression.
    """

    def __init__(self, calls: RowCall, reads: Sequence[str], program: RowExpression) -> None:
        self._calls = calls
        self._reads = tuple(reads)
        self._program = program

    @cached_property
    def _shipped(self) -> bytes:
        return pickle.dumps(self._program)

    def __call__(self, row: Mapping[str, object]) -> tuple[Any, Sequence[Exception]]:
        """The value for a row, and what failed in it."""
        return self._calls(self._shipped, {name: row[name] for name in self._reads})


class RowExpression:
    """An expression as a function of a row: a mapping from names of columns to values.

    A call raises if the expression fails; the caller decides what the result is then. Where only an argument of a
    function or an item of a constructor fails, that is null, and `report` gets the error.

    Attributes:
        type: of the result; `None` if it is always null.
        pure: the same row always gives the same result.
        source: the generated code.
        report: may be set at any time; it does not take part in pickling.
        elsewhere: computes it in another process; `None`, and wherever it is pickled to: it is computed here.
    """

    elsewhere: ElsewhereComputed | None = None

    def __init__(self, source: str, bindings: tuple[Any, ...], type_: SqlType | None, pure: bool) -> None:
        self.type = type_
        self.pure = pure
        self.source = source
        self.report: Callable[[Exception], None] | None = None
        self._bindings = bindings
        self._function = _function(source, bindings, self._failed)

    def __call__(self, row: Mapping[str, object]) -> Any:
        """The value for a row."""
        if self.elsewhere is None:
            return self._function(row)
        value, failures = self.elsewhere(row)
        for error in failures:
            self._failed(error, 0)
        return value

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
        elsewhere: the items that are computed in another process, by name; none where it is pickled to.
    """

    elsewhere: Mapping[str, RowExpression] = {}
    _here: RowProjection | None = None
    """The other items, where there are such."""

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
        if self._here is not None:
            return self._computed_in_both(self._here, row)
        values: dict[str, Any] = self._function(row)
        return values

    def split(self, here: RowProjection, elsewhere: Mapping[str, RowExpression]) -> None:
        """Have some items computed in another process."""
        self._here, self.elsewhere = here, elsewhere
        here.report = self._reported
        for name, expression in elsewhere.items():
            expression.report = partial(self._reported, name)

    def _computed_in_both(self, here: RowProjection, row: Mapping[str, object]) -> dict[str, Any]:
        values = here(row)
        for name, expression in self.elsewhere.items():
            try:
                values[name] = expression(row)
            except Exception as error:  # also where the process took too long, or has ended
                values[name] = None
                self._reported(name, error)
        return {name: values[name] for name, _ in self.types}

    def _reported(self, name: str, error: Exception) -> None:
        if self.report is not None:
            self.report(name, error)

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
        compiled = RowExpression(source, bindings, emitter.typer.type_of(expression), emitter.pure)
    if functions.row_calls is not None and is_open_ended(expression):
        reads = {part.name for part in parts_of(expression) if isinstance(part, ColumnRef) and part.name in columns}
        compiled.elsewhere = ElsewhereComputed(functions.row_calls, sorted(reads), compiled)
    return compiled


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
        compiled = RowProjection(source, bindings, types, emitter.pure)
    if functions.row_calls is not None and (open_ended := [item for item in items if is_open_ended(item[1])]):
        names = {name for name, _ in open_ended}
        here = compile_projection([item for item in items if item[0] not in names], columns, functions, settings)
        compiled.split(here, {name: compile_row(each, columns, functions, settings) for name, each in open_ended})
    return compiled
