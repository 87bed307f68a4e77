"""Where the rows of a query's table are kept, and how the entries of that store become rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from hayase.core.records import Windowed
from hayase.kernel.node.column_node import KEY, NULL, TS
from hayase.serde.protocol import BARE_FIELD, Serde
from hayase.serde.windowed import SessionWindowedSerde, TimeWindowedSerde
from hayase.sql.analysis.steps import Aggregate, Filter, JoinForeignKey, JoinTables, Project, ReadSource, Step
from hayase.sql.catalog.sources import ROWTIME, WINDOWEND, WINDOWSTART, DataSource
from hayase.sql.formats.format_info import NULLABLE_REPRESENTATION
from hayase.sql.plan.sink import RESULT_STORE
from hayase.sql.types.sql_types import (
    ArrayType,
    BigintType,
    BooleanType,
    BytesType,
    DoubleType,
    IntegerType,
    MapType,
    SqlType,
    StringType,
)
from hayase.state.stores.spec import StoreSpec
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode, SourceNode
from hayase.topology.topology import Topology


@dataclass(frozen=True)
class ViewStep:
    """A step from the values of a store to the rows of a table.

    Attributes:
        function: of key and value: the new value, or whether the value stays.
        filters: it says whether the value stays.
    """

    function: Callable[[Any, Any], Any]
    filters: bool = False

    def __call__(self, key: Any, value: Any) -> Any:
        """The new value; `None` for no row."""
        if not self.filters:
            return self.function(key, value)
        return value if self.function(key, value) else None

    def on_frame(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a frame that are rows behind the step; only for a function with a column form.

        Args:
            frame: the fields of the value, `__key`, `__ts`, and `__null`, which is false.
        """
        assert isinstance(self.function, op.VectorizedFunction)
        made = self.function.columns(frame).frame
        if self.filters:
            return frame.filter(made[BARE_FIELD])
        fields = made.select(self.function.schema.names)
        null = made[NULL] if NULL in made.columns else frame[NULL]
        return frame.select(KEY, TS).with_columns(*fields.get_columns(), null).filter(~pl.col(NULL))


@dataclass(frozen=True)
class KeptTable:
    """The rows of a table in a store of the query that makes it.

    Attributes:
        store: what it is.
        key: name of each column of the key, with its field in keys of several columns.
        is_windowed: keys have windows.
        steps: what makes the row of a value.
        instead_of_null: what a column shows that is null, where the format of the table's topic has no nulls.
        partitioned_by: writes the keys by whose bytes the rows came to their partitions.
    """

    store: StoreSpec
    key: tuple[tuple[str, str], ...]
    is_windowed: bool
    steps: tuple[ViewStep, ...]
    partitioned_by: Serde
    instead_of_null: Mapping[str, Any] = field(default_factory=dict)

    @property
    def steps_on_frames(self) -> tuple[ViewStep, ...] | None:
        """The steps, if all have a column form."""
        return self.steps if all(isinstance(step.function, op.VectorizedFunction) for step in self.steps) else None

    def key_of(self, values: dict[str, Any]) -> Any:
        """The key of a row with these values of its key's columns."""
        if len(self.key) == 1:
            return values[self.key[0][0]]
        return {field: values[name] for name, field in self.key}

    def row_of(self, key: Any, value: Any, timestamp_ms: int | None) -> dict[str, Any] | None:
        """The columns of an entry; `None` if it is no row of the table.

        Args:
            key: of the entry, with its window.
            value: without its timestamp.
            timestamp_ms: of the entry; `None` in session stores, whose rows have the time of the session's end.
        """
        row = value
        for step in self.steps:
            row = step(key, row)
            if row is None:
                return None
        row = dict(row)
        for name, default in self.instead_of_null.items():
            if row[name] is None:
                row[name] = default
        if isinstance(key, Windowed):
            row[WINDOWSTART], row[WINDOWEND] = key.window
            timestamp_ms = key.window[1] if timestamp_ms is None else timestamp_ms
            key = key.key
        row[ROWTIME] = timestamp_ms
        if len(self.key) == 1:
            row[self.key[0][0]] = key
        else:
            row.update({name: key[field] for name, field in self.key})
        return row


def kept_table(topology: Topology, plan: Step, source: DataSource) -> KeptTable | None:
    """Where the rows of a table are.

    Args:
        topology: of the query that makes the table.
        plan: of that query.
        source: the table.

    Returns:
        `None` if the query keeps none: it makes a stream.
    """
    if isinstance(plan, ReadSource):
        fields = tuple((column.name, column.name) for column in source.key)
        return _kept(topology, source.name, fields, source.window is not None, ())
    if not isinstance(plan, Project) or not plan.rows.is_table:
        return None
    fields = tuple(zip((name for name, _ in plan.key), _key_fields(plan), strict=True))
    if RESULT_STORE in topology.stores:
        instead = _without_nulls(source)
        return _kept(topology, RESULT_STORE, fields, plan.rows.window is not None, (), instead)
    return _of_groups(topology, fields, plan)


def _kept(
    topology: Topology,
    store: str,
    key: tuple[tuple[str, str], ...],
    is_windowed: bool,
    steps: tuple[ViewStep, ...],
    instead_of_null: Mapping[str, Any] | None = None,
) -> KeptTable:
    spec = topology.stores[store]
    by = _source_above(topology, store).key_serde
    if by is None or len(key) > 1 or isinstance(by, TimeWindowedSerde | SessionWindowedSerde):
        by = spec.key_serde  # the keys above have another form than those that are looked up
    return KeptTable(spec, key, is_windowed, steps, by, instead_of_null or {})


def _source_above(topology: Topology, store: str) -> SourceNode:
    """A source of the rows in a store: a topic, or a repartition."""
    owner = next(node for node in topology.nodes if isinstance(node, ProcessorNode) and store in node.stores)
    above: Any = owner
    while not isinstance(above, SourceNode):
        above = topology.by_name[above.parents[0]]
    return above


def _without_nulls(source: DataSource) -> dict[str, Any]:
    """The values that PROTOBUF has instead of null, by column: a row shows what a reader of the topic sees."""
    format_ = source.value_format
    if not format_.name.startswith("PROTOBUF") or format_.property(NULLABLE_REPRESENTATION):
        return {}
    return {column.name: _NO_NULLS[type(column.type)] for column in source.value if type(column.type) in _NO_NULLS}


_NO_NULLS: Mapping[type[SqlType], Any] = {
    ArrayType: [],
    BigintType: 0,
    BooleanType: False,
    BytesType: b"",
    DoubleType: 0.0,
    IntegerType: 0,
    MapType: {},
    StringType: "",
}


def _of_groups(topology: Topology, fields: tuple[tuple[str, str], ...], plan: Project) -> KeptTable:
    """The store of an aggregation, with the steps from there to the result: results, HAVING, SELECT."""
    (aggregation,) = (
        node for node in topology.nodes if isinstance(node, ProcessorNode) and isinstance(node.operator, _AGGREGATIONS)
    )
    steps: list[ViewStep] = []
    node = _table_after(topology, aggregation.name)
    while node is not None:
        steps.append(_step_of(node.operator))
        node = _table_after(topology, node.name)
    return _kept(topology, aggregation.stores[0], fields, plan.rows.window is not None, tuple(steps))


_AGGREGATIONS = (op.StreamAggregate, op.StreamWindowedAggregate, op.StreamSessionAggregate, op.TableAggregate)


def _table_after(topology: Topology, name: str) -> ProcessorNode | None:
    for child in topology.children[name]:
        node = topology.by_name[child]
        if isinstance(node, ProcessorNode) and isinstance(node.operator, op.TableMapValues | op.TableFilter):
            return node
    return None


def _step_of(operator: op.Operator) -> ViewStep:
    if isinstance(operator, op.TableMapValues):
        mapper: Any = operator.mapper  # SQL maps by functions of key and value
        return ViewStep(mapper)
    assert isinstance(operator, op.TableFilter)
    predicate: Any = operator.predicate
    return ViewStep(predicate, filters=True)


def _key_fields(step: Step) -> tuple[str, ...]:
    """The names that the columns of a step's key have in records' keys, in the order of `rows.key`."""
    match step:
        case Project():
            fields = dict(zip(step.input.rows.key, _key_fields(step.input), strict=True))
            return tuple(fields[column] for _, column in step.key)
        case ReadSource():
            return tuple(column.name for column in step.source.key)
        case Filter():
            return _key_fields(step.input)
        case Aggregate():
            return tuple(name for name, _ in step.group_by)
        case JoinTables():
            return (step.key_name,)
        case JoinForeignKey():
            return _key_fields(step.left)
    raise AssertionError(step)
