"""Expressions whose work or result for one row no bound of the row's own size holds.

All others take time and memory in proportion to the row and the text of the expression.
"""

from __future__ import annotations

from collections.abc import Iterator

from hayase.sql.ast.expressions import (
    BigintLiteral,
    ColumnRef,
    Expression,
    FunctionCall,
    IntegerLiteral,
    Lambda,
    Like,
    StringLiteral,
    children,
)

_GROWING = frozenset({"GENERATE_SERIES", "CUBE_EXPLODE", "REGEXP_REPLACE"})
_PADDING = frozenset({"LPAD", "RPAD"})
_PADDED_MAX = 200
_REPLACEMENT_MAX = 64
_COLUMNS_MAX = 100
"""Columns may stand so often in one expression before their repetition counts as growth."""


def is_open_ended(expression: Expression) -> bool:
    """Whether an expression can take long, or much memory, for a small row."""
    columns = 0
    for part in parts_of(expression):
        if isinstance(part, Lambda) or (isinstance(part, FunctionCall) and _can_grow(part)):
            return True
        columns += isinstance(part, ColumnRef)
    return columns > _COLUMNS_MAX


def may_take_seconds(expression: Expression) -> bool:
    """Whether an expression can take some seconds for a row: an open-ended one, or one that seeks a pattern."""
    return is_open_ended(expression) or any(
        isinstance(part, Like) or (isinstance(part, FunctionCall) and part.name.upper().startswith("REGEXP_"))
        for part in parts_of(expression)
    )


def parts_of(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, in no order."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += children(part)


def _can_grow(call: FunctionCall) -> bool:
    name = call.name.upper()
    if name in _GROWING:
        return True
    if name in _PADDING and len(call.arguments) == 3:
        length = call.arguments[1]
        return not (isinstance(length, IntegerLiteral | BigintLiteral) and length.value <= _PADDED_MAX)
    if name == "REPLACE" and len(call.arguments) == 3:
        replacement = call.arguments[2]
        return not (isinstance(replacement, StringLiteral) and len(replacement.value) <= _REPLACEMENT_MAX)
    return False
