"""The logical plan of a query: steps from the sources to the rows that are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hayase.sql.ast.expressions import Expression, FunctionCall
from hayase.sql.ast.queries import JoinKind, Window, Within
from hayase.sql.catalog.sources import DataSource, WindowedKey
from hayase.sql.formats.columns import Column
from hayase.sql.functions.bound import BoundAggregate
from hayase.sql.types.sql_types import SqlType


@dataclass(frozen=True)
class Rows:
    """The rows that a step gives.

    Attributes:
        columns: types of all columns by name, those of the key included.
        key: names of the columns that the record's key is made of.
        is_table: rows replace the row of their key.
        window: how keys are windowed, if they are.
    """

    columns: Mapping[str, SqlType]
    key: tuple[str, ...]
    is_table: bool
    window: WindowedKey | None = None

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the key."""
        return tuple(Column(name, self.columns[name]) for name in self.key)


@dataclass(frozen=True)
class Step:
    """Base of the steps of a plan."""

    rows: Rows

    @property
    def inputs(self) -> tuple[Step, ...]:
        """The steps before this one."""
        return ()


@dataclass(frozen=True)
class ReadSource(Step):
    """The rows of a source; `names` are those that its columns have in the plan."""

    source: DataSource
    names: Mapping[str, str]


@dataclass(frozen=True)
class _OneInput(Step):
    input: Step

    @property
    def inputs(self) -> tuple[Step, ...]:
        """The step before this one."""
        return (self.input,)


@dataclass(frozen=True)
class Filter(_OneInput):
    """The rows for which a predicate holds; `clause` is WHERE or HAVING."""

    predicate: Expression
    clause: str


@dataclass(frozen=True)
class PartitionBy(_OneInput):
    """The rows under a new key: an expression for each column of it; none: without a key."""

    expressions: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class FlatMap(_OneInput):
    """A row for each result of table functions, which are zipped."""

    calls: tuple[tuple[str, FunctionCall], ...]


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate function.

    Attributes:
        name: of the column of its results.
        function: the function and its literal arguments.
        arguments: the other arguments, over the rows before.
    """

    name: str
    function: BoundAggregate
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Aggregate(_OneInput):
    """Groups and their aggregates.

    Attributes:
        group_by: an expression for each column of the key, under its name.
        aggregates: the calls.
        window: of the aggregation.
        final: results only when windows close.
    """

    group_by: tuple[tuple[str, Expression], ...]
    aggregates: tuple[AggregateCall, ...]
    window: Window | None
    final: bool


@dataclass(frozen=True)
class Project(_OneInput):
    """The columns of the result: first those of the key, each a column of the rows before, then the values.

    Attributes:
        key: names of key columns with the column that each is.
        values: names of value columns with their expressions.
    """

    key: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class _Join(Step):
    """Base of the joins.

    Attributes:
        left: the rows before.
        right: the rows of the source that is joined.
        kind: of the join.
        left_key: expression over left rows.
        right_key: expression over right rows.
        key_name: the column of the result's key.
    """

    left: Step
    right: Step
    kind: JoinKind
    left_key: Expression
    right_key: Expression
    key_name: str

    @property
    def inputs(self) -> tuple[Step, ...]:
        """The two sides."""
        return (self.left, self.right)


@dataclass(frozen=True)
class JoinStreams(_Join):
    """A join of two streams within a window of time."""

    within: Within


@dataclass(frozen=True)
class JoinStreamTable(_Join):
    """A join of a stream with a table."""


@dataclass(frozen=True)
class JoinTables(_Join):
    """A join of two tables by their keys."""


@dataclass(frozen=True)
class JoinForeignKey(_Join):
    """A join of a table with the rows of another one that an expression names."""


def sources_of(step: Step) -> Iterator[ReadSource]:
    """The sources that a plan reads, from left to right."""
    if isinstance(step, ReadSource):
        yield step
    for before in step.inputs:
        yield from sources_of(before)
