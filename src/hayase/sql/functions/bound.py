"""Functions bound to the arguments of a call: what is called, with what types, and what comes out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from hayase.sql.errors import FunctionError, StatementError
from hayase.sql.functions.declarations import Declaration
from hayase.sql.functions.matching import ArgumentTarget, Match
from hayase.sql.functions.results import CheckedAggregate, CheckedFunction, CheckedTableFunction
from hayase.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class BoundScalar:
    """A scalar function for a call.

    Attributes:
        function: takes the settings first if `settings`, and gets `types` behind them if they are there.
        argument_types: what each argument becomes before the call: a type, the types of a lambda, a time unit, or
            `None` for a NULL of open type.
        return_type: `None` if only NULLs decide it.
        types: those that the function takes as its first argument; `None` if it does not.
        pure, null_aware, settings, lazy, literals, columns: as in `Declaration`.
    """

    name: str
    function: Callable[..., Any]
    return_type: SqlType | None
    argument_types: tuple[ArgumentTarget, ...]
    pure: bool
    null_aware: bool
    settings: bool
    types: tuple[SqlType | None, ...] | None
    lazy: bool
    literals: tuple[int, ...]
    columns: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class BoundTable:
    """A table function for a call: `function` returns a list of items of `return_type`, or `None`."""

    name: str
    function: Callable[..., Any]
    return_type: SqlType | None
    argument_types: tuple[ArgumentTarget, ...]
    pure: bool
    null_aware: bool
    types: tuple[SqlType | None, ...] | None


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """An aggregate function for a call.

    The class has `state_type` (a type, or a method from the types of the value arguments to it), `initial()`,
    `add(state, *values)`, `result(state)`; `undo(state, *values)` where it can be used on tables;
    `merge(left, right)` for sessions. Its constructor takes the literal arguments in order, and by keyword `types`
    (those of the value arguments) and `settings`, if it has such parameters.

    Attributes:
        positions: which of the arguments are values, from 0; the others are literals.
        argument_types: the types of the value arguments.
        literals: the literal arguments.
        checked: see `Declaration`.
    """

    name: str
    target: Callable[..., Any]
    return_type: SqlType | None
    state_type: SqlType
    positions: tuple[int, ...]
    argument_types: tuple[SqlType | None, ...]
    literals: tuple[object, ...]
    settings: Mapping[str, Any] = field(hash=False, compare=False)
    checked: bool = False

    def create(self) -> Any:
        """An instance of the aggregate."""
        accepted = _parameters(self.target)
        options: dict[str, Any] = {}
        if "types" in accepted:
            options["types"] = self.argument_types
        if "settings" in accepted:
            options["settings"] = self.settings
        made = self.target(*self.literals, **options)
        if not self.checked or self.return_type is None:
            return made
        return CheckedAggregate(made, self.return_type, self.state_type, self.name)

    @property
    def can_undo(self) -> bool:
        """Whether it can be used on tables."""
        return hasattr(self.target, "undo")

    @property
    def can_merge(self) -> bool:
        """Whether it can be used in session windows."""
        return hasattr(self.target, "merge")


@lru_cache(maxsize=1024)
def _parameters(target: Callable[..., Any]) -> frozenset[str]:
    """The names of a constructor's parameters; a statement may have thousands of calls of the same aggregates."""
    return frozenset(inspect.signature(target).parameters)


def bind_scalar(declaration: Declaration, found: Match) -> BoundScalar:
    """The scalar function of a resolved call."""
    result = _result(declaration, found)
    function = declaration.target
    if declaration.checked and result is not None:
        function = CheckedFunction(function, result, declaration.name)
    return BoundScalar(
        name=declaration.name,
        function=function,
        return_type=result,
        argument_types=found.targets,
        pure=declaration.pure,
        null_aware=declaration.null_aware,
        settings=declaration.settings,
        types=_value_types(found.targets) if declaration.types else None,
        lazy=declaration.lazy,
        literals=declaration.literals
        + tuple(position for position, parameter in enumerate(found.parameters) if parameter.literal),
        columns=declaration.columns,
    )


def bind_table(declaration: Declaration, found: Match) -> BoundTable:
    """The table function of a resolved call."""
    result = _result(declaration, found)
    function = declaration.target
    if declaration.checked and result is not None:
        function = CheckedTableFunction(function, result, declaration.name)
    return BoundTable(
        declaration.name,
        function,
        result,
        found.targets,
        declaration.pure,
        declaration.null_aware,
        _value_types(found.targets) if declaration.types else None,
    )


def bind_aggregate(
    declaration: Declaration, found: Match, literals: Mapping[int, object], settings: Mapping[str, Any]
) -> BoundAggregate:
    """The aggregate function of a resolved call; a `StatementError` if an argument that must be a literal is none."""
    for position, parameter in enumerate(found.parameters):
        if parameter.literal and position not in literals:
            raise StatementError(
                "LITERAL_EXPECTED",
                f"Parameter {position + 1} passed to function {declaration.name} must be a literal constant",
            )
    positions = tuple(position for position, parameter in enumerate(found.parameters) if not parameter.literal)
    types = _value_types([found.targets[position] for position in positions])
    result = found.result if declaration.returns is None else declaration.returns(types)
    bound = BoundAggregate(
        name=declaration.name,
        target=declaration.target,
        return_type=result,
        state_type=result,  # type: ignore[arg-type]
        positions=positions,
        argument_types=types,
        literals=tuple(literals[at] for at, parameter in enumerate(found.parameters) if parameter.literal),
        settings=settings,
    )
    try:
        state_type = bound.create().state_type
    except FunctionError as error:  # of a literal argument
        raise StatementError(error.condition, error.message) from error
    if callable(state_type):
        state_type = state_type(bound.argument_types)
    return replace(bound, state_type=state_type, checked=declaration.checked)


def _value_types(targets: list[ArgumentTarget] | tuple[ArgumentTarget, ...]) -> tuple[SqlType | None, ...]:
    return tuple(target if isinstance(target, SqlType) else None for target in targets)


def _result(declaration: Declaration, found: Match) -> SqlType | None:
    if declaration.returns is None:
        return found.result
    return declaration.returns(_value_types(found.targets))
