"""Runs nodes in both forms over the same input and compares what they send, store, drop and refuse.

A `Case` is a chain of nodes with its sources and stores; `run_rows` and `run_columns` run it over epochs of `Input`s
that are in merged order, and give a `Result` each; `assert_forms_agree` runs both, cut into the same epochs. Stores are
dicts, the processing handler drops records and remembers them. (tests/unit/kernel/harness.py)

Example:
    case = Case(nodes=(ProcessorNode("f", ("s",), Filter(pl.col("n") > 2)),), sources={"s": Source(string, numbers)})
    assert_forms_agree(case, [Input("s", "a", {"n": 1}, 5)], cuts=[])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import polars as pl

from hayase.core.errors import UnknownStoreError
from hayase.core.metrics import Metrics
from hayase.core.records import Change, Headers, Record, RecordMetadata
from hayase.kernel.frame.expressions import struct_type
from hayase.kernel.frame.python_values import frame_of, keys_of, record_keys, record_values, values_of
from hayase.kernel.node.column_node import HEADERS, KEY, NULL, OLD, OLD_NULL, TS, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import Child, RowContext, RowNode, TableRows
from hayase.kernel.registry import COLUMNS, ROWS
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreSpec
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode


@dataclass(frozen=True)
class Source:
    """Serdes of a source; both must have a column form for `run_columns`."""

    key: Serde[Any]
    value: Serde[Any]

    @property
    def edge(self) -> EdgeSchema:
        key, value = self.key.columns, self.value.columns
        assert key is not None
        assert value is not None
        return EdgeSchema(key.schema, value.schema)


@dataclass(frozen=True)
class Input:
    """One record of the merged input."""

    source: str
    key: Any
    value: Any
    timestamp_ms: int
    headers: Headers = ()


@dataclass(frozen=True)
class Case:
    """Nodes to run.

    Attributes:
        nodes: in the order they were added; their parents are sources or earlier nodes.
        stores: specs; `caching` of each counts only if `caching` below is true too.
        global_rows: contents of global tables' stores: by store, value and timestamp by key.
    """

    nodes: tuple[ProcessorNode, ...]
    sources: Mapping[str, Source]
    stores: Mapping[str, StoreSpec] = field(default_factory=dict)
    caching: bool = False
    global_rows: Mapping[str, Mapping[Any, tuple[Any, int]]] = field(default_factory=dict)


@dataclass
class Result:
    """What a run did.

    Attributes:
        sent: what each node passed on, over all epochs.
        stores: contents by bytes.
        counters: all metrics.
        failures: `(node, input)` of each record that user code failed on; inputs counted over all epochs.
    """

    sent: dict[str, list[Record[Any, Any]]]
    stores: dict[str, dict[bytes, bytes]]
    counters: list[tuple[str, str, int]]
    failures: list[tuple[str, int]]


class DictStore:
    """A ByteStore."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.rows.get(key) for key in keys]

    def put(self, key: bytes, value: bytes | None) -> None:
        assert isinstance(key, bytes)
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    def range(
        self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        keys = [k for k in self.rows if (start is None or k >= start) and (end is None or k < end)]
        return iter([(key, self.rows[key]) for key in sorted(keys, reverse=reverse)])

    def ranges(self, bounds: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        return [list(self.range(start, end)) for start, end in bounds]

    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        for key, _ in list(self.range(start, end)):
            del self.rows[key]


class DictClocks:
    """Clocks of a task."""

    def __init__(self) -> None:
        self.times: dict[str, int] = {}

    def get(self, name: str) -> int:
        return self.times.get(name, -1)

    def set(self, name: str, time_ms: int) -> None:
        self.times[name] = time_ms


class Environment:
    """RowEnvironment, and what a ColumnContext takes from a task."""

    def __init__(self, case: Case) -> None:
        self.metrics = Metrics()
        self.app_configs: Mapping[str, Any] = {}
        self.clocks = DictClocks()
        self.wall_clock_ms = 0
        self.stores = {name: DictStore() for name in case.stores}
        self.failures: list[tuple[str, int]] = []
        self.at_end: dict[int, pl.DataFrame] = {}
        self.current = 0
        self.first = 0
        self._specs = {
            name: StoreSpec(
                spec.name, spec.kind, spec.key_serde, spec.value_serde, spec.retention_ms, spec.window_size_ms,
                caching=spec.caching and case.caching,
            )
            for name, spec in case.stores.items()
        }  # fmt: skip
        for name, rows in case.global_rows.items():
            spec = case.stores[name]
            for key, (value, timestamp_ms) in rows.items():
                data = timestamp_ms.to_bytes(8, "big", signed=True) + spec.value_serde.to_bytes(value)
                self.stores[name].put(spec.key_serde.to_bytes(key), data)

    def byte_store(self, name: str) -> DictStore:
        return self.stores[name]

    def store_spec(self, name: str) -> StoreSpec:
        return self._specs[name]

    def metadata(self) -> RecordMetadata | None:
        return None

    def origin(self) -> object:
        return self.current

    def back_to(self, origin: object) -> None:
        self.current = cast("int", origin)

    def processing_failed(self, node: str, error: Exception) -> None:
        self.failures.append((node, self.current))

    def result(self, sent: dict[str, list[Record[Any, Any]]]) -> Result:
        stores = {name: store.rows for name, store in self.stores.items()}
        return Result(sent, stores, self.metrics.rows(), sorted(self.failures))


class Tap(RowNode):
    """Keeps what its parent sends."""

    def __init__(self, ctx: RowContext, records: list[Record[Any, Any]]) -> None:
        super().__init__(ctx)
        self.records = records

    def process(self, record: Record[Any, Any]) -> None:
        self.records.append(record)


def run_rows(case: Case, epochs: Sequence[Sequence[Input]], *, typed: bool = True) -> Result:
    """Row form.

    Args:
        case: what to run.
        epochs: the input.
        typed: tell the nodes the schemas, as far as they are known.
    """
    schemas: dict[str, EdgeSchema] = {}
    if typed:
        schemas = {name: source.edge for name, source in case.sources.items()}
        schemas.update({node.name: node.output for node in compile_case(case)})
    sent: dict[str, list[Record[Any, Any]]] = {node.name: [] for node in case.nodes}
    env = Environment(case)

    def children(name: str) -> list[Child]:
        found = [Child(node.name, node.operator) for node in case.nodes for parent in node.parents if parent == name]
        return [*found, Child("tap", None)] if name in sent else found

    for inputs in epochs:
        tables: dict[str, TableRows] = {}
        nodes: dict[str, RowNode] = {}
        contexts = {name: RowContext(name, env, children(name), tables, schemas) for name in (*case.sources, *sent)}
        for node in case.nodes:
            made = nodes[node.name] = ROWS[type(node.operator)](node, contexts[node.name])
            rows = made.table_rows()
            if rows is not None:
                tables[node.name] = rows
        for name, ctx in contexts.items():
            below = [nodes[child.name] for child in ctx.children if child.name != "tap"]
            ctx.connect([*below, Tap(ctx, sent[name])] if name in sent else below)
        for row, each in enumerate(inputs):
            env.current = env.first + row
            serde = case.sources[each.source].value
            value = serde.deserialize(serde.serialize(each.value))
            contexts[each.source].forward(Record(each.key, value, each.timestamp_ms, each.headers))
        for made in nodes.values():
            made.flush()
        env.first += len(inputs)
    return env.result(sent)


class NodeContext:
    """ColumnContext of one node."""

    def __init__(
        self,
        name: str,
        position: int,
        env: Environment,
        count: int,
        tables: Mapping[str, Any],
        sent: Mapping[str, pl.DataFrame],
        made: dict[str, Any],
    ) -> None:
        self._made = made
        self._sent = sent
        self.metrics = env.metrics
        self.clocks = env.clocks
        self.wall_clock_ms = 0
        self.input_count = count
        self.spill = None
        self.partition = 0
        self.position = position
        self._name = name
        self._env = env
        self._tables = tables

    def byte_store(self, name: str) -> DictStore:
        return self._env.byte_store(name)

    def store_spec(self, name: str) -> StoreSpec:
        return self._env.store_spec(name)

    def sent(self, name: str) -> pl.DataFrame:
        return self._sent[name]

    def table(self, name: str) -> Any:
        if name not in self._tables:
            raise UnknownStoreError("UNKNOWN_TABLE", name)
        return self._tables[name]

    def headers_of(self, frame: pl.DataFrame) -> Sequence[Headers]:
        raise AssertionError("nothing here keeps records")

    def keep_headers(self, headers: Sequence[Headers]) -> int:
        raise AssertionError("nothing here keeps records")

    def processing_failed(self, order: tuple[int, ...], error: Exception) -> None:
        while order[0] >= self.input_count:
            order = self._env.at_end[order[1]].row(order[2])
        self._env.failures.append((self._name, self._env.first + order[0]))

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def sends_at_end(self, origins: pl.DataFrame) -> None:
        self._env.at_end[self.position] = origins


def compile_case(case: Case) -> list[ColumnNode]:
    """The column nodes, compiled once per case."""
    if id(case) not in _compiled:
        _compiled.clear()
        _compiled[id(case)] = (case, _compile(case))
    return _compiled[id(case)][1]


_compiled: dict[int, tuple[Case, list[ColumnNode]]] = {}


def _compile(case: Case) -> list[ColumnNode]:
    """The column nodes, in order; fails if one has no column form."""
    schemas = {name: source.edge for name, source in case.sources.items()}
    read = {node.operator.table for node in case.nodes if isinstance(node.operator, op.StreamTableJoin)}
    for node in reversed(case.nodes):
        view = isinstance(node.operator, op.TableFilter | op.TableMapValues)
        if node.name in read and view and node.operator.store is None:  # type: ignore[attr-defined]
            read.add(node.operator.parent)  # type: ignore[attr-defined]
    compiled = []
    for node in case.nodes:
        tables = {name: schema for name, schema in schemas.items() if schema.table}
        ctx = CompileContext(case.stores, tables, frozenset(read), case.caching, case.nodes)
        made = COLUMNS[type(node.operator)](node, [schemas[parent] for parent in node.parents], ctx)
        assert made is not None, f"{node.name} has no column form"
        schemas[node.name] = made.output
        compiled.append(made)
    return compiled


def source_frame(source: Source, name: str, inputs: Sequence[Input]) -> pl.DataFrame:
    """The frame that a source sends."""
    edge = source.edge
    assert edge.key is not None
    assert edge.value is not None
    own = [(row, each) for row, each in enumerate(inputs) if each.source == name]
    frame, null = frame_of([each.value for _, each in own], edge.value)
    order = pl.Series("__o0", [row for row, _ in own], dtype=pl.Int64)
    times = pl.Series(TS, [each.timestamp_ms for _, each in own], dtype=pl.Int64)
    frame = frame.with_columns(keys_of([each.key for _, each in own], edge.key), null.alias(NULL), times, order)
    if any(each.headers for each in inputs):
        frame = frame.with_columns(order.alias(HEADERS))
    assert frame.schema[KEY] == struct_type(edge.key)
    return frame


def run_columns(case: Case, epochs: Sequence[Sequence[Input]]) -> Result:
    """Column form."""
    compiled = compile_case(case)
    env = Environment(case)
    sent: dict[str, list[Record[Any, Any]]] = {node.name: [] for node in compiled}
    for inputs in epochs:
        frames = {name: source_frame(source, name, inputs) for name, source in case.sources.items()}
        tables: dict[str, Any] = {}
        by_name: dict[str, Any] = {}
        for position, (node, made) in enumerate(zip(case.nodes, compiled, strict=True)):
            ctx = NodeContext(node.name, len(case.sources) + position, env, len(inputs), tables, frames, by_name)
            frames[node.name] = made.run([frames[parent] for parent in node.parents], ctx)
            table = made.table_columns()
            if table is not None:
                tables[node.name] = table
            check_frame(frames[node.name], made.output)
            sent[node.name] += records_of(frames[node.name], made.output, inputs)
        env.first += len(inputs)
    return env.result(sent)


def check_frame(frame: pl.DataFrame, edge: EdgeSchema) -> None:
    """That a frame is what its edge promises."""
    assert edge.value is not None
    assert edge.key is not None
    for name, dtype in edge.value.fields:
        assert frame.schema[name] == dtype, f"{name} is {frame.schema[name]}, not {dtype}"
        assert frame.filter(NULL)[name].null_count() == frame.filter(NULL).height, f"{name} is set in a null row"
    assert frame.schema[KEY] == struct_type(edge.key)
    order = [name for name in frame.columns if name.startswith("__o") and not name.startswith("__old")]
    assert frame.select(order).equals(frame.select(order).sort(order)), "rows out of order"
    assert (OLD_NULL in frame.columns) == edge.old_values
    fields = {name for name in frame.columns if not name.startswith("__")}
    assert fields == set(edge.value.names)


def records_of(frame: pl.DataFrame, edge: EdgeSchema, inputs: Sequence[Input]) -> list[Record[Any, Any]]:
    """The records that a frame stands for."""
    assert edge.value is not None
    keys, values = record_keys(frame, edge), record_values(frame, edge)
    if edge.table:
        olds: list[Any] = [None] * frame.height
        if edge.old_values:
            old = frame.select(pl.col(OLD + name).alias(name) for name in edge.value.names)
            olds = values_of(old, edge.value, frame[OLD_NULL])
        values = [Change(new, old) for new, old in zip(values, olds, strict=True)]
    headers: list[Headers] = [()] * frame.height
    if HEADERS in frame.columns:
        headers = [() if row is None else inputs[row].headers for row in frame[HEADERS].to_list()]
    rows = zip(keys, values, frame[TS].to_list(), headers, strict=True)
    return [Record(*row) for row in rows]


def cut(inputs: Sequence[Input], cuts: Sequence[int]) -> list[list[Input]]:
    """The input in epochs that end at these positions."""
    bounds = [0, *sorted({min(max(at, 0), len(inputs)) for at in cuts}), len(inputs)]
    return [list(inputs[start:end]) for start, end in pairwise(bounds)]


def assert_forms_agree(case: Case, inputs: Sequence[Input], cuts: Sequence[int]) -> Result:
    """Both forms send the same in the same order over every edge, and leave the same behind. The result of the rows."""
    epochs = cut(inputs, cuts)
    rows, columns = run_rows(case, epochs), run_columns(case, epochs)
    splits = {node.name for node in case.nodes if isinstance(node.operator, op.Split)}
    for node in compile_case(case):
        if node.name in splits:  # sends each record to one child only: see its branches
            continue
        expected = rows.sent[node.name]
        if node.output.table and not node.output.old_values:
            expected = [each.with_value(Change(each.value.new)) for each in expected]
        assert columns.sent[node.name] == expected, f"what {node.name} sends"
    assert columns.stores == rows.stores
    assert columns.counters == rows.counters
    assert columns.failures == rows.failures
    return rows
