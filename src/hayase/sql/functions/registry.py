"""The registry of functions: which there are, and which overload a call means.

```python
from hayase.sql.functions.registry import scalar, table, aggregate, default_registry


@scalar("LPAD", "(STRING, INT, STRING) -> STRING", "Pads a text on the left to a length.")
def lpad(text, length, padding): ...


default_registry().scalar("lpad", [STRING, INTEGER, STRING])
```
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from hayase.sql.errors import StatementError
from hayase.sql.functions.bound import BoundAggregate, BoundScalar, BoundTable, bind_aggregate, bind_scalar, bind_table
from hayase.sql.functions.declarations import (
    Declaration,
    FunctionKind,
    aggregate,
    declared_in,
    scalar,
    table,
    udaf,
    udf,
    udtf,
)
from hayase.sql.functions.python_source import PythonCall
from hayase.sql.functions.resolution import resolve
from hayase.sql.functions.signatures import Argument

__all__ = [
    "BoundAggregate",
    "BoundScalar",
    "BoundTable",
    "Declaration",
    "FunctionKind",
    "FunctionRegistry",
    "aggregate",
    "default_registry",
    "scalar",
    "table",
    "udaf",
    "udf",
    "udtf",
]

Note = Callable[[Declaration, BoundScalar | BoundTable | BoundAggregate], None]
"""Is called with each call of a function of the user that is bound."""
RowCall = Callable[[bytes, Mapping[str, object]], tuple[Any, Sequence[Exception]]]
"""Computes a pickled expression for a row: its value, and what failed in it."""
_FAMILIES = tuple(f"hayase.sql.functions.{family}" for family in ("scalar", "table", "aggregate"))


class FunctionRegistry:
    """Functions by name, in any case; each name has one kind and one or more overloads.

    Attributes:
        python_calls: makes the calls of functions whose Python stands in a statement; `None`: they are called here.
        row_calls: computes expressions that may take long or much memory; `None`: they are computed here.
    """

    def __init__(self, declarations: Iterable[Declaration] = ()) -> None:
        self._overloads: dict[str, list[Declaration]] = {}
        self.python_calls: PythonCall | None = None
        self.row_calls: RowCall | None = None
        self._note: Note | None = None
        self._without_note: FunctionRegistry | None = None
        for declaration in declarations:
            self.add(declaration)

    def add(self, declaration: Declaration) -> None:
        """Adds an overload; a `ValueError` if the name is taken by another kind."""
        overloads = self._overloads.setdefault(declaration.name.upper(), [])
        if overloads and overloads[0].kind is not declaration.kind:
            raise ValueError(f"function {declaration.name} is {overloads[0].kind.value}: it has one kind only")
        overloads.append(declaration)

    def replaced(self, name: str, *overloads: Declaration) -> FunctionRegistry:
        """A registry in which a name is these functions, or none; this registry stays as it is."""
        registry = self.of_session._copy()
        registry._overloads.pop(name.upper(), None)
        if overloads:
            registry._overloads[name.upper()] = list(overloads)
        return registry

    def of_statement(self, note: Note) -> FunctionRegistry:
        """A registry with the same functions, for one statement whose query runs elsewhere.

        Args:
            note: called with each call of a function that is not Hayase's.
        """
        registry = self._copy()
        registry.row_calls = None
        registry._note = note
        registry._without_note = self
        return registry

    @property
    def of_session(self) -> FunctionRegistry:
        """What `of_statement` was made of, or this registry."""
        return self if self._without_note is None else self._without_note

    def calling_by(self, python_calls: PythonCall, row_calls: RowCall) -> FunctionRegistry:
        """A registry with the same functions that has these; they count for statements to come."""
        registry = self._copy()
        registry.python_calls = python_calls
        registry.row_calls = row_calls
        return registry

    def _copy(self) -> FunctionRegistry:
        registry = FunctionRegistry()
        registry._overloads = {**self._overloads}
        registry.python_calls = self.python_calls
        registry.row_calls = self.row_calls
        return registry

    def own(self) -> list[Declaration]:
        """The functions that are not Hayase's."""
        return [each for overloads in self._overloads.values() for each in overloads if not _is_of_hayase(each)]

    def load_module(self, name: str) -> None:
        """Imports a module and adds what it declares."""
        importlib.import_module(name)
        for declaration in declared_in(name):
            self.add(declaration)

    def load_package(self, name: str) -> None:
        """Imports all modules of a package and adds what they declare."""
        package = importlib.import_module(name)
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
            self.load_module(f"{name}.{module.name}")

    def names(self, kind: FunctionKind | None = None) -> list[str]:
        """All names in capitals, of one kind or of all."""
        return sorted(name for name, overloads in self._overloads.items() if kind is None or overloads[0].kind is kind)

    def overloads(self, name: str) -> Sequence[Declaration]:
        """The overloads of a name, in the order in which they were added; a `StatementError` if there is none."""
        overloads = self._overloads.get(name.upper())
        if not overloads:
            near = difflib.get_close_matches(name.upper(), self.names(), n=1)
            own = "functions of your own are known where --functions names their file or module"
            hint = f"Did you mean {near[0]}?" if near else f"LIST FUNCTIONS shows all; {own}"
            raise StatementError("UNKNOWN_FUNCTION", f"Can't find any functions with the name '{name}'. {hint}")
        return tuple(overloads)

    def kind(self, name: str) -> FunctionKind | None:
        """What a name is; `None` if there is no such function."""
        overloads = self._overloads.get(name.upper())
        return overloads[0].kind if overloads else None

    def is_aggregate(self, name: str) -> bool:
        """Whether it is an aggregate function."""
        return self.kind(name) is FunctionKind.AGGREGATE

    def is_table_function(self, name: str) -> bool:
        """Whether it is a table function."""
        return self.kind(name) is FunctionKind.TABLE

    def scalar(self, name: str, arguments: Sequence[Argument]) -> BoundScalar:
        """The overload of a scalar function for these arguments."""
        declaration, found = resolve(name, self._of_kind(name, FunctionKind.SCALAR), arguments, widen=True)
        bound = bind_scalar(declaration, found)
        self._noted(declaration, bound)
        return bound

    def table(self, name: str, arguments: Sequence[Argument]) -> BoundTable:
        """The overload of a table function for these arguments."""
        declaration, found = resolve(name, self._of_kind(name, FunctionKind.TABLE), arguments, widen=True)
        bound = bind_table(declaration, found)
        self._noted(declaration, bound)
        return bound

    def aggregate(
        self,
        name: str,
        arguments: Sequence[Argument],
        literals: Mapping[int, object] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> BoundAggregate:
        """The overload of an aggregate function for these arguments.

        Args:
            name: of the function.
            arguments: the types of all arguments, those of literals too; nothing is widened.
            literals: the values of the arguments that are literals, by their position from 0.
            settings: of the session, for aggregates that take them.
        """
        declaration, found = resolve(name, self._of_kind(name, FunctionKind.AGGREGATE), arguments, widen=False)
        bound = bind_aggregate(declaration, found, literals or {}, settings or {})
        self._noted(declaration, bound)
        return bound

    def _noted(self, declaration: Declaration, bound: BoundScalar | BoundTable | BoundAggregate) -> None:
        if self._note is not None and not _is_of_hayase(declaration):
            self._note(declaration, bound)

    def _of_kind(self, name: str, kind: FunctionKind) -> Sequence[Declaration]:
        overloads = self.overloads(name)
        if overloads[0].kind is not kind:
            raise StatementError(
                "WRONG_FUNCTION_KIND",
                f"Function '{name}' is {overloads[0].kind.value}; {kind.value} functions can stand here",
            )
        return overloads


@cache
def _families() -> tuple[Declaration, ...]:
    registry = FunctionRegistry()
    for family in _FAMILIES:
        registry.load_package(family)
    return tuple(overload for name in registry.names() for overload in registry.overloads(name))


@cache
def _ids_of_families() -> frozenset[int]:
    return frozenset(map(id, _families()))


def _is_of_hayase(declaration: Declaration) -> bool:
    return id(declaration) in _ids_of_families()


def default_registry() -> FunctionRegistry:
    """A registry of its own with all functions that Hayase has."""
    return FunctionRegistry(_families())
