"""The rules of aggregations: what GROUP BY, SELECT and HAVING may have in them, and how they become steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hayase.sql.analysis.rewrite import column_refs, function_calls, rewrite
from hayase.sql.analysis.scopes import CANNOT
from hayase.sql.analysis.steps import AggregateCall
from hayase.sql.analysis.typing import Typing
from hayase.sql.ast.expressions import (
    BigintLiteral,
    BooleanLiteral,
    ColumnRef,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FunctionCall,
    IntegerLiteral,
    NullLiteral,
    StringLiteral,
)
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.sources import ROWTIME, WINDOW_BOUNDS
from hayase.sql.errors import StatementError, located
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.formats.support import refusal
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.types.sql_types import SqlType

Literal = BigintLiteral | BooleanLiteral | DecimalLiteral | DoubleLiteral | IntegerLiteral | StringLiteral


def aggregate_calls(expression: Expression, functions: FunctionRegistry) -> list[FunctionCall]:
    """The calls of aggregate functions in an expression, outer ones first."""
    return [call for call in function_calls(expression) if functions.is_aggregate(call.name)]


def table_calls(expression: Expression, functions: FunctionRegistry) -> list[FunctionCall]:
    """The calls of table functions in an expression, outer ones first."""
    return [call for call in function_calls(expression) if functions.is_table_function(call.name)]


def check_group_by(group_by: Sequence[Expression], functions: FunctionRegistry) -> None:
    """Grouping expressions are different ones, without aggregates.

    Args:
        group_by: with the source of each column.
        functions: all functions.

    Raises:
        StatementError: they are not.
    """
    before: set[Expression] = set()
    for expression in group_by:
        if expression in before:
            raise StatementError(
                "DUPLICATE_GROUP_BY",
                f"Duplicate GROUP BY expression: {expression_text(expression)}",
                location=expression.location,
            )
        before.add(expression)
        for call in aggregate_calls(expression, functions):
            raise StatementError(
                "INVALID_GROUP_BY",
                f"GROUP BY does not support aggregate functions: {call.name} is an aggregate function.",
                location=call.location,
            )
        for ref in column_refs(expression):
            if ref.name in WINDOW_BOUNDS and ref.source is None:
                raise window_bounds_error(ref)


def window_bounds_error(ref: ColumnRef) -> StatementError:
    """The error of window bounds outside of SELECT."""
    return StatementError(
        "INVALID_WINDOW_BOUNDS",
        f"Window bounds column {ref.name} can only be used in the SELECT clause of windowed aggregations",
        location=ref.location,
    )


@dataclass
class Aggregates:
    """The aggregate calls of a query, each once; expressions are rewritten over the rows that the aggregation gives.

    Attributes:
        group_by: names of the key columns with the grouping expressions.
        columns: of the rows before.
        functions: all functions.
        settings: of the session.
        is_table: whether a table is aggregated.
    """

    group_by: Sequence[tuple[str, Expression]]
    columns: Mapping[str, SqlType]
    functions: FunctionRegistry
    settings: Mapping[str, object]
    is_table: bool

    def __post_init__(self) -> None:
        self._calls: dict[FunctionCall, AggregateCall] = {}
        self._groups = {grouping: name for name, grouping in reversed(self.group_by)}
        self._typing = Typing(self.functions)

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        """The calls, in the order in which they occur."""
        return tuple(self._calls.values())

    def over_groups(self, expression: Expression) -> Expression:
        """An expression over the rows before, as one over the groups.

        Raises:
            StatementError: an aggregate inside an aggregate, or one that the rows do not allow.
        """

        def replacement(part: Expression) -> Expression | None:
            name = self._groups.get(part)
            if name is not None:
                return ColumnRef(name, location=part.location)
            if isinstance(part, FunctionCall):
                self.functions.overloads(part.name)  # raises where there is no such function
                if self.functions.is_aggregate(part.name):
                    return ColumnRef(self._call(part).name, location=part.location)
            return None

        return rewrite(expression, replacement)

    def _call(self, call: FunctionCall) -> AggregateCall:
        if call not in self._calls:
            inner = [name for argument in call.arguments for name in aggregate_calls(argument, self.functions)]
            if inner:
                raise StatementError(
                    "NESTED_AGGREGATES",
                    f"Aggregate functions {CANNOT.lower()} be nested: {expression_text(call)}",
                    location=call.location,
                )
            self._calls[call] = self._bound(call, f"KSQL_AGG_VARIABLE_{len(self._calls)}")
        return self._calls[call]

    def _bound(self, call: FunctionCall, name: str) -> AggregateCall:
        types = [self._typing(argument, self.columns) for argument in call.arguments]
        literals = {
            position: None if isinstance(argument, NullLiteral) else argument.value
            for position, argument in enumerate(call.arguments)
            if isinstance(argument, Literal | NullLiteral)
        }
        with located(call.location):
            function = self.functions.aggregate(call.name, types, literals, self.settings)
        return AggregateCall(name, function, tuple(call.arguments[position] for position in function.positions))

    def check_table(self) -> None:
        """On a table each function must be able to take values out again.

        Raises:
            StatementError: some cannot.
        """
        names = list(dict.fromkeys(call.function.name.upper() for call in self.calls if not call.function.can_undo))
        if not self.is_table or not names:
            return
        text = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
        functions = "function" if len(names) == 1 else "functions"
        raise StatementError(
            "AGGREGATE_ON_TABLE",
            f"The aggregation {functions} {text} cannot be applied to a table source, only to a stream source.",
        )

    def check_states(self, format_: FormatInfo) -> None:
        """The format of the source's values must be able to hold the states of the functions.

        Raises:
            StatementError: it cannot.
        """
        for call in self.calls:
            if refusal(format_.name, "value", [Column(call.name, call.function.state_type)]) is not None:
                raise StatementError(
                    "FORMAT_CANNOT_HOLD_STATE",
                    "One of the functions used in the statement has an intermediate type that the value format can "
                    "not handle. Please remove the function or change the format.",
                )


def check_grouped(select: Sequence[tuple[Expression, Expression]], key_names: set[str]) -> None:
    """Each item is made of grouping expressions, aggregates and constants.

    Args:
        select: each item as it was written, and over the groups.
        key_names: the columns of the groups' key.

    Raises:
        StatementError: an item has other columns in it.
    """
    wrong = [
        expression_text(written)
        for written, over_groups in select
        if any(not _of_group(ref, key_names) for ref in column_refs(over_groups))
    ]
    if wrong:
        raise StatementError(
            "NOT_GROUPED",
            f"Non-aggregate SELECT expression(s) not part of GROUP BY: {', '.join(wrong)}\n"
            "Either add the column(s) to the GROUP BY or remove them from the SELECT.",
        )


def _of_group(ref: ColumnRef, key_names: set[str]) -> bool:
    return ref.name in key_names or ref.name in WINDOW_BOUNDS or ref.name.startswith("KSQL_AGG_VARIABLE_")


def count_text(call: FunctionCall) -> str:
    """A call as the error of a missing GROUP BY shows it: a count of rows counts their times."""
    return expression_text(call if call.arguments else FunctionCall(call.name, (ColumnRef(ROWTIME),)))
