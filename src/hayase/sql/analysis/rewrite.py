"""Rebuilding expressions with some parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hayase.sql.ast.expressions import (
    Arithmetic,
    ArrayConstructor,
    Between,
    Cast,
    ColumnRef,
    Comparison,
    Expression,
    FieldRef,
    FunctionCall,
    InList,
    IsNull,
    Lambda,
    Like,
    Logical,
    MapConstructor,
    Negative,
    Not,
    SearchedCase,
    SimpleCase,
    StructConstructor,
    Subscript,
    When,
    children,
)

Replacement = Callable[[Expression], Expression | None]
"""Gives what stands in place of an expression; `None`: its parts are looked at."""


def rewrite(expression: Expression, replacement: Replacement) -> Expression:
    """The expression with the topmost parts replaced that `replacement` gives something for."""
    found = replacement(expression)
    if found is not None:
        return found

    def inner(part: Expression) -> Expression:
        return rewrite(part, replacement)

    match expression:
        case Arithmetic() | Comparison() | Logical():
            return replace(expression, left=inner(expression.left), right=inner(expression.right))
        case Negative() | Not() | IsNull() | Cast():
            return replace(expression, operand=inner(expression.operand))
        case FieldRef():
            return replace(expression, base=inner(expression.base))
        case Subscript():
            return replace(expression, base=inner(expression.base), index=inner(expression.index))
        case FunctionCall():
            return replace(expression, arguments=tuple(map(inner, expression.arguments)))
        case Lambda():
            return replace(expression, body=inner(expression.body))
    return _rewrite_rest(expression, inner)


def _rewrite_rest(expression: Expression, inner: Callable[[Expression], Expression]) -> Expression:
    match expression:
        case Between():
            low, high = inner(expression.low), inner(expression.high)
            return replace(expression, operand=inner(expression.operand), low=low, high=high)
        case InList():
            return replace(expression, operand=inner(expression.operand), items=tuple(map(inner, expression.items)))
        case Like():
            return replace(expression, operand=inner(expression.operand), pattern=inner(expression.pattern))
        case SearchedCase():
            return replace(expression, whens=_whens(expression.whens, inner), default=_default(expression, inner))
        case SimpleCase():
            operand, whens = inner(expression.operand), _whens(expression.whens, inner)
            return replace(expression, operand=operand, whens=whens, default=_default(expression, inner))
        case ArrayConstructor():
            return replace(expression, items=tuple(map(inner, expression.items)))
        case MapConstructor():
            entries = tuple((inner(key), inner(value)) for key, value in expression.entries)
            return replace(expression, entries=entries)
        case StructConstructor():
            return replace(expression, fields=tuple((name, inner(value)) for name, value in expression.fields))
    return expression


def _whens(whens: tuple[When, ...], inner: Callable[[Expression], Expression]) -> tuple[When, ...]:
    return tuple(When(inner(when.condition), inner(when.result)) for when in whens)


def _default(expression: SearchedCase | SimpleCase, inner: Callable[[Expression], Expression]) -> Expression | None:
    return None if expression.default is None else inner(expression.default)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, in order of the text."""
    yield expression
    for part in children(expression):
        yield from walk(part)


def column_refs(expression: Expression) -> list[ColumnRef]:
    """The columns that an expression uses, in order of the text."""
    return [part for part in walk(expression) if isinstance(part, ColumnRef)]


def function_calls(expression: Expression) -> list[FunctionCall]:
    """The calls in an expression, outer ones first."""
    return [part for part in walk(expression) if isinstance(part, FunctionCall)]
