"""Generates the Python code of an expression: what all kinds of expressions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hayase.sql.ast.expressions import (
    BooleanLiteral,
    ColumnRef,
    Expression,
    LambdaVariable,
    NullLiteral,
    TimeUnit,
    children,
)
from hayase.sql.errors import StatementError
from hayase.sql.expressions.code import NULL, Block, Code, Value
from hayase.sql.expressions.coercion import coerced
from hayase.sql.expressions.typing import Typer, Variables, is_literal
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.types.casts import Caster, of_present, same
from hayase.sql.types.sql_types import SqlType

_MAX_DEPTH = 8
"""Blocks inside of each other in one function: Python allows 20, and 100 levels of indentation."""


class Emitter:
    """Writes one function for an expression, and further ones where it nests deeply.

    A handler of a kind of expression adds lines that compute it and says where its value is.

    Attributes:
        typer: gives types.
        code: what has been written.
        pure: whether all functions so far are.
        settings: of the session.
        variables: the parameters of the lambdas around what is written, with their types.
        parameters: the names of these parameters in the code.
    """

    def __init__(
        self,
        columns: Mapping[str, SqlType],
        functions: FunctionRegistry,
        settings: Mapping[str, object],
        handlers: Mapping[type[Expression], Handler],
    ) -> None:
        self._handlers = handlers
        self.typer = Typer(columns, functions)
        self.pure = True
        self.settings = settings
        self.code = Code()
        self._columns: dict[str, str] = {}
        self._item = 0
        self.variables: Variables = ()
        self.parameters: dict[str, str] = {}

    def compile(self, expression: Expression) -> tuple[str, tuple[Any, ...]]:
        """The source, whose function `f1` takes a row, and the objects `b0`, `b1`, … that it refers to."""
        self.typer.type_of(expression)
        self._function(expression, "row")
        return self.code.source, tuple(self.code.bindings)

    def compile_all(self, items: Sequence[tuple[str, Expression]]) -> tuple[str, tuple[Any, ...]]:
        """As `compile`, of a function that returns a dict; an item whose expression fails is null."""
        for _, expression in items:
            self.typer.type_of(expression)
        with self.code.function("row"):
            self._load(set().union(*(_column_names(expression) for _, expression in items)))
            entries = []
            for self._item, (name, expression) in enumerate(items):
                value = self.isolated(expression)
                entries.append(f"{self.code.bind(name)}: {value.name}")
            self.code.line("return {" + ", ".join(entries) + "}")
        return self.code.source, tuple(self.code.bindings)

    def _function(self, expression: Expression, parameters: str) -> str:
        """A function of its own that computes an expression; its name."""
        outer = self._columns
        with self.code.function(parameters) as name:
            self._load(_column_names(expression))
            self.code.line(f"return {self.emit(expression).name}")
        self._columns = outer
        return name

    def _load(self, columns: set[str]) -> None:
        self._columns = {}
        for column in sorted(columns):
            variable = self.code.name("c")
            self.code.line(f"{variable} = row[{self.code.bind(column)}]")
            self._columns[column] = variable

    def emit(self, expression: Expression) -> Value:
        """Computes an expression, in a function of its own where the code is deep already."""
        match expression:
            case NullLiteral():
                return NULL
            case BooleanLiteral(truth):
                return Value("True" if truth else "False", nullable=False)
            case ColumnRef(name):
                return Value(self._columns[name])
            case LambdaVariable(name):
                return Value(self.parameters[name])
            case TimeUnit(name):
                return Value(self.code.bind(name), nullable=False)
        if is_literal(expression):
            return Value(self.code.bind(getattr(expression, "value", None)), nullable=False)
        if self.code.depth > _MAX_DEPTH:
            self.code.fallible()
            arguments = ", ".join(("row", *self.parameters.values()))
            return self.code.assign(f"{self._function(expression, arguments)}({arguments})")
        try:
            return self._handlers[type(expression)](self, expression)
        except StatementError as error:
            error.locate(expression.location)
            raise

    def type_of(self, expression: Expression) -> SqlType | None:
        """The type of an expression where it stands."""
        return self.typer.type_of(expression, self.variables)

    def convert(self, value: Value, convert: Caster) -> Value:
        """The value through a caster, which takes null too."""
        if convert is same or value is NULL:
            return value
        self.code.fallible()
        inner = of_present(convert)
        conversion = f"{self.code.bind(inner or convert)}({value.name})"
        if inner is not None and value.nullable:
            conversion = f"None if {value.name} is None else {conversion}"
        return self.code.assign(conversion, nullable=value.nullable)

    def isolated(self, expression: Expression, convert: Caster = same) -> Value:
        """An argument or item: null if computing it fails, which is reported."""
        with self.code.captured() as block:
            value = self.convert(self.emit(expression), convert)
        return self._guarded(block, value)

    def _guarded(self, block: Block, value: Value) -> Value:
        if not block.fallible:
            self.code.append(block, shift=-1)
            return value
        result = self.code.name()
        self.code.line("try:")
        block.fallible = False
        self.code.append(block)
        self.code.depth += 1
        self.code.line(f"{result} = {value.name}")
        self.code.depth -= 1
        with self.code.indented("except Exception as error:"):
            self.code.line(f"{result} = None")
            self.code.line(f"report(error, {self._item})")
        return Value(result)

    def constant(self, expression: Expression, convert: Caster) -> Value | None:
        """A literal, converted once and for all; `None` if it is none, or cannot be converted."""
        if not is_literal(expression) or convert is same:
            return None
        try:
            return Value(self.code.bind(convert(getattr(expression, "value", None))), nullable=False)
        except (ValueError, ArithmeticError):
            return None

    def coerced_items(self, items: Sequence[Expression], type_: SqlType | None) -> list[str]:
        """The items of a constructor, as the type that they have in common."""
        variables = self.variables
        return [
            self.isolated(coerced(item, lambda part: self.typer.type_of(part, variables), type_)).name for item in items
        ]


Handler = Callable[[Emitter, Any], Value]


def _column_names(expression: Expression) -> set[str]:
    names: set[str] = set()
    pending = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, ColumnRef):
            names.add(part.name)
        pending.extend(children(part))
    return names


def null_checks(*values: Value) -> str:
    """A condition that is true if one of the values is null; empty if none can be."""
    return " or ".join(f"{value.name} is None" for value in values if value.nullable)


def present_checks(*values: Value) -> str:
    """The beginning of a condition that is false if one of the values is null."""
    return "".join(f"{value.name} is not None and " for value in values if value.nullable)
