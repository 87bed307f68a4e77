"""Items of IN: which are constants, and are looked up at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hayase.sql.ast.expressions import Cast, Expression, NullLiteral
from hayase.sql.expressions.coercion import TypeOf
from hayase.sql.expressions.typing import is_literal
from hayase.sql.types.casts import caster

_COMPUTED = object()


def in_order(items: Sequence[Expression], type_of: TypeOf) -> Iterator[tuple[list[Any], Expression | None]]:
    """The items in their order, without those that are NULL: constants that follow each other, or one computed item.

    The order matters: an item that fails counts only if none before it is found.
    """
    constants: list[Any] = []
    for item in items:
        if isinstance(item, NullLiteral):
            continue
        constant = _constant(item, type_of)
        if constant is not _COMPUTED:
            constants.append(constant)
            continue
        if constants:
            yield constants, None
            constants = []
        yield [], item
    if constants:
        yield constants, None


def _constant(item: Expression, type_of: TypeOf) -> Any:
    """The value of a literal, or of the cast of one that does not fail."""
    if is_literal(item):
        return getattr(item, "value", None)
    if isinstance(item, Cast) and is_literal(item.operand):
        try:
            return caster(type_of(item.operand), item.target)(getattr(item.operand, "value", None))
        except (ValueError, ArithmeticError):
            return _COMPUTED
    return _COMPUTED
