"""What the steps of one topology share: the builder, functions, settings, serdes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from hayase.dsl.builder import StreamsBuilder
from hayase.dsl.kstream import KStream
from hayase.dsl.ktable import KTable
from hayase.serde import SessionWindowedSerde, TimeWindowedSerde
from hayase.serde.protocol import Schema, Serde
from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.steps import Rows
from hayase.sql.ast.expressions import ColumnRef, Expression
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.sources import WindowedKey
from hayase.sql.errors import StatementError
from hayase.sql.expressions.column_forms import NEVER
from hayase.sql.expressions.columns import ColumnExpression, compile_columns
from hayase.sql.expressions.rows import RowProjection, compile_projection, compile_row
from hayase.sql.expressions.typing import type_of
from hayase.sql.formats.columns import Column, is_packed
from hayase.sql.formats.internal import internal_key_serde, internal_value_serde
from hayase.sql.formats.packing import packed_forms
from hayase.sql.formats.row_columns import column_schema
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.plan.copartitioning import Partitioning
from hayase.sql.plan.guarded import GuardedExpression
from hayase.sql.types.sql_types import SqlType


@dataclass
class PlanContext:
    """What the steps of one topology share.

    Attributes:
        builder: of the topology.
        functions: all functions.
        settings: of the session.
        registry: the schema registry, if there is one.
        partitioned_tables: names of the tables whose rows are partitioned again after they were read.
    """

    builder: StreamsBuilder
    functions: FunctionRegistry
    settings: Mapping[str, object]
    registry: Any = None
    partitioned_tables: frozenset[str] = frozenset()
    _counts: dict[str, int] = field(default_factory=dict)

    def compile(
        self, expression: Expression, columns: Mapping[str, SqlType], what: str, step: str, name: str | None = None
    ) -> GuardedExpression:
        """An expression over rows of the columns.

        Args:
            expression: over these columns.
            columns: of the rows.
            what: Select, Predicate, Group By: the clause, for the error.
            step: for the log.
            name: for the log, instead of the expression's text.

        Raises:
            StatementError: the expression cannot be computed.
        """
        try:
            compiled = compile_row(expression, columns, self.functions, self.settings)
        except StatementError as error:
            raise StatementError(
                error.condition, f"Invalid {what}: {error.message}", location=error.location
            ) from error
        form = _packed_column(expression, columns)
        if form is None and compiled.elsewhere is None:
            form = compile_columns(expression, columns, self.functions, self.settings)
        reads = tuple(dict.fromkeys(ref.name for ref in column_refs(expression) if ref.name in columns))
        packed = packed_forms([Column(each, columns[each]) for each in reads])
        return GuardedExpression(compiled, step, expression_text(expression), form, reads, name, packed)

    def compile_all(
        self, items: Sequence[tuple[str, Expression]], columns: Mapping[str, SqlType], what: str, step: str
    ) -> tuple[RowProjection, list[GuardedExpression]]:
        """Named expressions over rows of the columns, as one function and one by one; raises as `compile`."""
        try:
            projection = compile_projection(items, columns, self.functions, self.settings)
        except StatementError as error:
            raise StatementError(
                error.condition, f"Invalid {what}: {error.message}", location=error.location
            ) from error
        return projection, [self.compile(each, columns, what, step, name) for name, each in items]

    def type_of(self, expression: Expression, columns: Mapping[str, SqlType]) -> SqlType | None:
        """The type of an expression over rows of the columns."""
        return type_of(expression, columns, self.functions)

    def next_name(self, prefix: str) -> str:
        """A name with a number behind it, which no other step of the topology has."""
        number = self._counts.get(prefix, 0)
        self._counts[prefix] = number + 1
        return f"{prefix}-{number}"


def _packed_column(expression: Expression, columns: Mapping[str, SqlType]) -> ColumnExpression | None:
    """The column form of a column whose values are packed, as it is."""
    type_ = columns.get(expression.name) if isinstance(expression, ColumnRef) else None
    if type_ is None or not is_packed(type_):
        return None
    return ColumnExpression(pl.col(expression.name), NEVER, type_, pure=True)  # type: ignore[attr-defined]  # a ColumnRef


@dataclass(frozen=True)
class Stage:
    """What a step became: a stream or a table of rows.

    Attributes:
        rows: of the step.
        key_fields: names in the record's key where that has several columns, in the order of `rows.key`.
        key_serde: of the records' keys where they are partitioned again or stored; windowed keys included.
        stream: if the rows are a stream.
        table: if they are a table.
        partitioning: what decides which task has a row; `None`: unknown.
    """

    rows: Rows
    key_fields: tuple[str, ...]
    key_serde: Serde[Any]
    stream: KStream[Any, Any] | None = None
    table: KTable[Any, Any] | None = None
    partitioning: Partitioning | None = None

    @property
    def of_stream(self) -> KStream[Any, Any]:
        """The stream of a step that gives one."""
        assert self.stream is not None
        return self.stream

    @property
    def of_table(self) -> KTable[Any, Any]:
        """The table of a step that gives one."""
        assert self.table is not None
        return self.table

    @property
    def schema(self) -> Schema | None:
        """The rows in columns; `None` if a column has no column form."""
        return rows_schema(self.rows)

    @property
    def value_serde(self) -> Serde[dict[str, Any]]:
        """The serde of the rows in stores and between tasks."""
        return rows_serde(self.rows)


def rows_schema(rows: Rows) -> Schema | None:
    """The column form of rows."""
    return column_schema([Column(name, type_) for name, type_ in rows.columns.items()])


def rows_serde(rows: Rows) -> Serde[dict[str, Any]]:
    """The serde of rows in stores and between tasks."""
    return internal_value_serde([Column(name, type_) for name, type_ in rows.columns.items()])


def internal_key(columns: Sequence[Column], window: WindowedKey | None = None) -> Serde[Any]:
    """The serde of keys in stores and between tasks."""
    return windowed_serde(internal_key_serde(columns), window)


def windowed_serde(serde: Serde[Any], window: WindowedKey | None) -> Serde[Any]:
    """The serde of keys with their windows, where they have some."""
    if window is None:
        return serde
    if window.size_ms is None:
        return SessionWindowedSerde(serde)
    return TimeWindowedSerde(serde, window.size_ms)
