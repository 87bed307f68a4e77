"""The functions of a user that a statement calls: which they were, and what stands for one that is another now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hayase.sql.errors import FunctionError, StatementError
from hayase.sql.functions.bound import BoundAggregate, BoundScalar, BoundTable
from hayase.sql.functions.declarations import Declaration, FunctionKind
from hayase.sql.functions.function_digests import function_digest
from hayase.sql.functions.matching import ArgumentTarget
from hayase.sql.functions.signatures import parse_signature
from hayase.sql.grammar.parser import parse_type
from hayase.sql.types.sql_types import SqlType

Bound = BoundScalar | BoundTable | BoundAggregate


@dataclass(frozen=True)
class FunctionUse:
    """An overload of a function that a statement calls.

    Attributes:
        name: of the function.
        kind: SCALAR, TABLE or AGGREGATE.
        signature: as declared.
        digest: of its Python.
        results: types of results by those of arguments, where the signature leaves them open.
        states: of an aggregate: types of states by those of arguments.
        can_undo: of an aggregate: it can be used on tables.
        can_merge: of an aggregate: it can be used in session windows.
    """

    name: str
    kind: str
    signature: str
    digest: str
    results: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    can_undo: bool = False
    can_merge: bool = False


class FunctionCalls:
    """The calls of a user's functions that were bound for a statement."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[Declaration, dict[str, Bound]]] = {}

    def note(self, declaration: Declaration, bound: Bound) -> None:
        """One call."""
        _, calls = self._calls.setdefault(id(declaration), (declaration, {}))
        calls[_types_text(bound.argument_types)] = bound

    def uses(self) -> list[FunctionUse]:
        """The functions that were called, by name."""
        found = [_use(declaration, calls) for declaration, calls in self._calls.values()]
        return sorted(found, key=lambda use: (use.name, use.signature))


def _use(declaration: Declaration, calls: Mapping[str, Bound]) -> FunctionUse:
    aggregates = {types: bound for types, bound in calls.items() if isinstance(bound, BoundAggregate)}
    is_open = declaration.signature.result is None
    return FunctionUse(
        name=declaration.name,
        kind=declaration.kind.value,
        signature=declaration.text,
        digest=function_digest(declaration),
        results={types: str(bound.return_type) for types, bound in calls.items()} if is_open else {},
        states={types: str(bound.state_type) for types, bound in aggregates.items()},
        can_undo=any(bound.can_undo for bound in aggregates.values()),
        can_merge=any(bound.can_merge for bound in aggregates.values()),
    )


def stand_in(use: FunctionUse) -> Declaration:
    """A function with the types that another one had, so that a statement means what it did; a call of it fails."""
    signature = parse_signature(use.signature)

    def returns(types: Sequence[SqlType | None]) -> SqlType:
        return _type_for(use, use.results, types)

    kind = FunctionKind(use.kind)
    return Declaration(
        kind=kind,
        name=use.name,
        signature=signature,
        text=use.signature,
        description="A function that is not there any more.",
        target=_absent_aggregate(use) if kind is FunctionKind.AGGREGATE else _Absent(use.name),
        returns=returns if signature.result is None else None,
        pure=False,
    )


class _Absent:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: object, **__: object) -> Any:
        raise FunctionError("ABSENT_FUNCTION", f"{self._name} is not the function that the statement was made with")


def _absent_aggregate(use: FunctionUse) -> type:
    absent = _Absent(use.name)

    def create(self: Any, *_: object, types: Sequence[SqlType | None]) -> None:
        self.state_type = _type_for(use, use.states, types)

    methods: dict[str, Any] = {"__init__": create, "initial": absent, "add": absent, "result": absent}
    methods |= {"undo": absent} if use.can_undo else {}
    methods |= {"merge": absent} if use.can_merge else {}
    return type("AbsentAggregate", (), methods)


def _type_for(use: FunctionUse, known: Mapping[str, str], types: Sequence[SqlType | None]) -> SqlType:
    text = known.get(_types_text(types))
    if text is None:
        raise StatementError("UNKNOWN_FUNCTION", f"{use.name} is not there any more, and was not called in this way")
    return parse_type(text)


def _types_text(types: Sequence[ArgumentTarget]) -> str:
    return ", ".join(str(type_) if isinstance(type_, SqlType) else "null" for type_ in types)
