"""How a pull query finds its rows: by keys, by a range of keys, or in all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.scopes import CANNOT
from hayase.sql.analysis.steps import Rows
from hayase.sql.ast.expressions import (
    Between,
    BooleanLiteral,
    ColumnRef,
    Comparison,
    ComparisonOperator,
    Expression,
    InList,
    Like,
    Logical,
    LogicalOperator,
    Not,
)
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.sources import WINDOW_BOUNDS, WINDOWSTART
from hayase.sql.errors import StatementError
from hayase.sql.settings import is_on
from hayase.sql.types.casts import caster
from hayase.sql.types.coercion import is_time
from hayase.sql.types.sql_types import STRING, SqlType, quoted_name
from hayase.sql.types.times import parse_timestamp

TABLE_SCANS = "ksql.query.pull.table.scan.enabled"
RANGE_SCANS = "ksql.query.pull.range.scan.enabled"
FIRST_MS, LAST_MS = 0, 2**62 - 1
_DISJUNCTS_MAX = 1_000
"""Beyond so many alternatives all rows are read."""

Evaluate = Callable[[Expression], tuple[Any, SqlType | None]]
"""The value and the type of an expression without columns."""

_FLIPPED = {
    ComparisonOperator.EQUAL: ComparisonOperator.EQUAL,
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS_OR_EQUAL,
}
_UPPER = (ComparisonOperator.LESS, ComparisonOperator.LESS_OR_EQUAL)


@dataclass(frozen=True)
class KeyLookup:
    """A key, by the values of its columns, and between which times its windows start."""

    key: tuple[tuple[str, Any], ...]
    start_from_ms: int = FIRST_MS
    start_to_ms: int = LAST_MS


@dataclass(frozen=True)
class KeyRange:
    """Keys of one column between two bounds, both included; `None` is no bound."""

    column: str
    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class AccessPath:
    """Where to look; the rows found there still have to pass the whole condition.

    Attributes:
        lookups: these keys, each window once; `None`: not by key.
        range: a range of keys; `None` beside `lookups` of `None`: all rows.
    """

    lookups: tuple[KeyLookup, ...] | None = None
    range: KeyRange | None = None


def access_path(where: Expression | None, rows: Rows, settings: Mapping[str, object], evaluate: Evaluate) -> AccessPath:
    """The way to the rows of a table.

    Args:
        where: the condition, over the columns of the rows.
        rows: of the table.
        settings: which scans are allowed.
        evaluate: for the sides of comparisons without columns.

    Raises:
        StatementError: the condition needs a scan that is switched off, or can never find a key.
    """
    scans = is_on(settings, TABLE_SCANS)
    if where is None:
        if scans:
            return AccessPath()
        raise StatementError("NEEDS_KEY", f"Missing WHERE clause.{_help(rows)}")
    disjuncts = _disjuncts(where)
    if disjuncts is None:
        return AccessPath()
    try:
        return _path(disjuncts, rows, settings, evaluate)
    except _ScanNeededError:
        if scans:
            return AccessPath()
        raise


class _ScanNeededError(StatementError):
    """The condition does not say which keys are wanted."""


def _needs_scan(message: str, expression: Expression | None = None) -> _ScanNeededError:
    return _ScanNeededError("NEEDS_SCAN", message, location=None if expression is None else expression.location)


def _help(rows: Rows) -> str:
    key = ", ".join(quoted_name(name) for name in rows.key)
    windows = ", with bounds of WINDOWSTART or WINDOWEND if you like" if rows.window is not None else ""
    return (
        f" A pull query finds rows by their key ({key}): give it by = or IN{windows}. Table scans can be "
        f"enabled by setting {TABLE_SCANS}=true. See https://cnfl.io/queries for more info.\n"
        "Add EMIT CHANGES if you intended to issue a push query."
    )


def _disjuncts(where: Expression) -> list[list[Expression]] | None:
    """The condition as alternatives of conditions that all have to hold; `None` if there are too many of them."""
    match where:
        case Logical(LogicalOperator.OR, left, right):
            sides = _disjuncts(left), _disjuncts(right)
            found = None if None in sides else [*(sides[0] or ()), *(sides[1] or ())]
        case Logical(LogicalOperator.AND, left, right):
            first, second = _disjuncts(left), _disjuncts(right)
            if first is None or second is None or len(first) * len(second) > _DISJUNCTS_MAX:
                return None
            found = [[*one, *other] for one, other in product(first, second)]
        case InList(operand, items):
            found = [[Comparison(ComparisonOperator.EQUAL, operand, item, location=operand.location)] for item in items]
        case Between(operand, low, high):
            found = [
                [
                    Comparison(ComparisonOperator.GREATER_OR_EQUAL, operand, low, location=operand.location),
                    Comparison(ComparisonOperator.LESS_OR_EQUAL, operand, high, location=operand.location),
                ]
            ]
        case Not(Logical(operator, left, right)):
            other = LogicalOperator.AND if operator is LogicalOperator.OR else LogicalOperator.OR
            return _disjuncts(Logical(other, Not(left), Not(right)))
        case Not(Not(operand)):
            return _disjuncts(operand)
        case _:
            found = [[where]]
    return found if found is None or len(found) <= _DISJUNCTS_MAX else None


@dataclass(frozen=True)
class _Bound:
    """A comparison of a column with a value."""

    column: str
    operator: ComparisonOperator
    value: Any


def _path(
    disjuncts: Sequence[Sequence[Expression]], rows: Rows, settings: Mapping[str, object], evaluate: Evaluate
) -> AccessPath:
    lookups: list[KeyLookup] = []
    ranges: list[KeyRange] = []
    for conjuncts in disjuncts:
        bounds = [bound for each in conjuncts if (bound := _bound(each, rows, evaluate)) is not None]
        found = _of_disjunct(conjuncts, bounds, rows)
        if isinstance(found, KeyRange):
            ranges.append(found)
        else:
            lookups.append(found)
    if not ranges:
        return AccessPath(lookups=_merged(lookups))
    alone = len(disjuncts) == 1 and rows.window is None and len(rows.key) == 1
    if alone and rows.columns[rows.key[0]] == STRING and is_on(settings, RANGE_SCANS):
        return AccessPath(range=ranges[0])
    raise _needs_scan(
        f"Query requires table scan to be enabled. Table scans can be enabled by setting {TABLE_SCANS}=true."
        f"{_help(rows)}"
    )


def _bound(expression: Expression, rows: Rows, evaluate: Evaluate) -> _Bound | None:
    """What a condition says of a column of the key or a bound of the window; `None` if it is about other columns."""
    if isinstance(expression, BooleanLiteral):
        return None
    if isinstance(expression, Like):
        raise _needs_scan(f"Like condition must be between strings{_help(rows)}", expression)
    if not isinstance(expression, Comparison):
        raise _needs_scan(
            f"Unsupported expression in WHERE clause: {expression_text(expression)}.{_help(rows)}", expression
        )
    column, operator, other = _sides(expression, rows)
    if column.name not in (*rows.key, *WINDOW_BOUNDS):
        return None
    if operator not in _FLIPPED:
        raise _needs_scan(
            f"Bound on '{column.name}' must be one of =, <, <=, >, >=: {expression_text(expression)}{_help(rows)}",
            expression,
        )
    value, type_ = evaluate(other)
    if column.name in rows.key and value is None:
        raise StatementError(
            "NULL_KEY",
            f"Primary key columns {CANNOT.lower()} be NULL: {expression_text(expression)}",
            location=expression.location,
        )
    if column.name in WINDOW_BOUNDS and isinstance(value, str):
        return _Bound(column.name, operator, parse_timestamp(value))
    return _Bound(column.name, operator, _as_type(column, rows, (value, type_), other))


def _sides(expression: Comparison, rows: Rows) -> tuple[ColumnRef, ComparisonOperator, Expression]:
    """The column, and what it is compared with."""
    left, right, operator = expression.left, expression.right, expression.operator
    if isinstance(left, ColumnRef) and not column_refs(right):
        return left, operator, right
    if isinstance(right, ColumnRef) and not column_refs(left):
        return right, _FLIPPED.get(operator, operator), left
    if isinstance(left, ColumnRef) or isinstance(right, ColumnRef):
        message = "A comparison must be between a key column and a resolvable expression."
    else:
        message = "A comparison must directly reference a key column."
    raise _needs_scan(f"{message} Got: {expression_text(expression)}{_help(rows)}", expression)


def _as_type(column: ColumnRef, rows: Rows, given: tuple[Any, SqlType | None], written: Expression) -> Any:
    """A value as one of the column; a StatementError where no value of the column equals it."""
    value, type_ = given
    wanted = rows.columns[column.name]
    if value is None or type_ is None or type_ == wanted:
        return value
    try:
        converted = caster(type_, wanted)(value)
    except (StatementError, ValueError, ArithmeticError):
        converted = None
    if isinstance(value, str) and not is_time(wanted):
        converted = None
    if converted is None or (not isinstance(value, str) and converted != value):
        raise StatementError(
            "TYPE_MISMATCH",
            f"{expression_text(written)} {CANNOT.lower()} be converted to the type of the key column: "
            f"{column.name} {wanted} KEY",
            location=written.location,
        )
    return converted


def _of_disjunct(conjuncts: Sequence[Expression], bounds: Sequence[_Bound], rows: Rows) -> KeyLookup | KeyRange:
    of_keys = [bound for bound in bounds if bound.column in rows.key]
    columns = [bound.column for bound in of_keys]
    if not of_keys:
        text = " AND ".join(expression_text(each) for each in conjuncts)
        raise _needs_scan(f"WHERE clause missing key column for disjunct: {text}{_help(rows)}")
    if len(set(columns)) < len(columns):
        raise _needs_scan(
            "A comparison condition on the key column cannot be combined with other comparisons such as an IN "
            f"predicate.{_help(rows)}"
        )
    if len(columns) < len(rows.key):
        names = ", ".join(quoted_name(name) for name in columns)
        expected = ", ".join(f"{quoted_name(name)} {rows.columns[name]} KEY" for name in rows.key)
        raise _needs_scan(
            "Multi-column sources must specify every key in the WHERE clause. "
            f"Specified: [{names}] Expected: [{expected}].{_help(rows)}"
        )
    if all(bound.operator is ComparisonOperator.EQUAL for bound in of_keys):
        values = {bound.column: bound.value for bound in of_keys}
        lookup = KeyLookup(tuple((name, values[name]) for name in rows.key))
        return _with_windows(lookup, bounds, rows)
    bound = of_keys[0]
    if bound.operator in _UPPER:
        return KeyRange(bound.column, high=bound.value)
    return KeyRange(bound.column, low=bound.value)


def _with_windows(lookup: KeyLookup, bounds: Sequence[_Bound], rows: Rows) -> KeyLookup:
    """The times between which windows start, which may be more than those that the condition means."""
    size_ms = None if rows.window is None else rows.window.size_ms
    if size_ms is None:
        return lookup  # of sessions all those of the key are read
    first, last = FIRST_MS, LAST_MS
    for bound in bounds:
        if bound.column in WINDOW_BOUNDS and isinstance(bound.value, int):
            start = bound.value if bound.column == WINDOWSTART else bound.value - size_ms
            if bound.operator not in _UPPER:
                first = max(first, start)
            if bound.operator in _UPPER or bound.operator is ComparisonOperator.EQUAL:
                last = min(last, start)
    return replace(lookup, start_from_ms=first, start_to_ms=last)


def _merged(lookups: Sequence[KeyLookup]) -> tuple[KeyLookup, ...]:
    """Look-ups that find each window once: alternatives of a condition may mean the same windows of a key."""
    of_keys: dict[tuple[tuple[str, Any], ...], list[KeyLookup]] = {}
    for lookup in lookups:
        of_keys.setdefault(lookup.key, []).append(lookup)
    found: list[KeyLookup] = []
    for same_key in of_keys.values():
        same_key.sort(key=lambda lookup: lookup.start_from_ms)
        last = same_key[0]
        for lookup in same_key[1:]:
            if lookup.start_from_ms > last.start_to_ms:
                found.append(last)
                last = lookup
            elif lookup.start_to_ms > last.start_to_ms:
                last = replace(last, start_to_ms=lookup.start_to_ms)
        found.append(last)
    return tuple(found)
