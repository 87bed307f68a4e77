"""The nodes of a task in row form: one record at a time through them, depth first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from hayase.core.errors import HayaseError
from hayase.core.metrics import BYTES_PRODUCED, DROPPED_RECORDS, PUNCTUATE_LATENCY, RECORDS_PRODUCED, Metrics
from hayase.core.records import Change, Record, RecordMetadata, SourceRecord, TaskId
from hayase.kernel.frame.missing_fields import MissingFields, collecting
from hayase.kernel.node.clocks import Clocks
from hayase.kernel.node.punctuation import Punctuations
from hayase.kernel.node.row_node import RowContext, RowNode, TableRows
from hayase.kernel.registry import ROWS
from hayase.log.protocol import RecordBatch
from hayase.processor.api import Punctuator
from hayase.serde.changes import ChangeSerde
from hayase.serde.faults import is_fault, unwritable
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.ttl_store import TtlStore
from hayase.task.clocks import STREAM_TIME
from hayase.task.column_inputs import Origin, no_record
from hayase.task.compiled_subtopology import CompiledSink, CompiledSubtopology
from hayase.task.input_merge import RecordSource
from hayase.task.routing import RowRoute, is_routed
from hayase.task.spilled_frames import SpilledRecordCache
from hayase.task.task_context import TaskContext
from hayase.task.time_to_live import remove_expired

EdgeEmitter = Callable[[CompiledSink, bytes | None, bytes | None, Record, Sequence[int] | None], None]
"""Takes a record for a repartition topic: sink, key bytes, value bytes, the record, partitions if they were chosen."""

_MEASURED_AT_ONCE = 100_000


class SinkRow(RowNode):
    """Serializes what arrives and hands it to the task's outputs, or to the edge."""

    def __init__(self, sink: CompiledSink) -> None:
        super().__init__(sink.name)
        self._sink = sink
        self._routed = is_routed(sink)
        self._takes_changes = isinstance(sink.value_serde, ChangeSerde)
        self._route: RowRoute | None = None
        self._times_ms: list[int] = []
        self._written: dict[str, list[int]] = {}  # records and bytes by topic, since they were last counted
        self.context: TaskContext
        self.emit_edge: EdgeEmitter

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        self._route = None

    def process(self, record: Record) -> None:
        """Write one record; a serialization error goes to the production handler."""
        sink = self._sink
        if isinstance(record.value, Change) and not self._takes_changes:
            record = record.with_value(record.value.new)
        topic, partitions, count = sink.topic, None, 0
        if self._routed:
            topic, partitions, count = self._chosen(record)
            if partitions is not None and not partitions:
                self.context.metrics.add(DROPPED_RECORDS, self.name)
                return
        try:
            key_bytes = sink.key_serde.serialize(record.key)
            value_bytes = sink.value_serde.serialize(record.value)
        except BaseException as error:
            env = self.ctx.env
            assert isinstance(env, RowNodes)
            fault = unwritable(error, sink.value_serde, (record.key, record.value))
            self.context.failures.handle("production", self.name, env.current, fault, topic)
            return
        if sink.edge:
            self.emit_edge(sink, key_bytes, value_bytes, record, partitions)
            return
        output = self.context.outputs.topic(topic)
        if partitions is None:
            output.add(key_bytes, value_bytes, record.timestamp_ms, record.headers)
        else:
            for partition in partitions:
                output.add(key_bytes, value_bytes, record.timestamp_ms, record.headers)
                output.choose([partition], count)
        copies = 1 if partitions is None else len(partitions)
        written = self._written.get(topic)
        if written is None:
            written = self._written[topic] = [0, 0]
        written[0] += copies
        written[1] += copies * (len(key_bytes or b"") + len(value_bytes or b""))
        self._times_ms.append(record.timestamp_ms)
        if len(self._times_ms) == _MEASURED_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """End of the epoch: count what was written, and how long it took to get here; in a long epoch also before."""
        if self._times_ms:
            self.context.meter.sent(self.name, self._times_ms)
            self._times_ms = []
        for topic, (records, size) in self._written.items():
            self.context.metrics.add(RECORDS_PRODUCED, topic, records)
            self.context.metrics.add(BYTES_PRODUCED, topic, size)
        self._written = {}

    def _chosen(self, record: Record) -> tuple[str, list[int] | None, int]:
        if self._route is None:
            edge = self.ctx.schemas.get(self._sink.parents[0])
            sink = self._sink
            partitions_of = (lambda _: sink.partitions) if sink.edge else self.context.partitions_of
            self._route = RowRoute(sink, edge, partitions_of)
        return self._route(record, self.ctx.env.metadata())


class RowNodes:
    """The nodes of a sub-topology, made for one task.

    `open`, then `process` for each record in merged order, then `finish`, every epoch.

    Nodes are made once; an error leaves the instance unusable, except for `leave`, which is the end of it.
    """

    def __init__(self, subtopology: CompiledSubtopology) -> None:
        self._subtopology = subtopology
        self._nodes: dict[str, RowNode] = {}
        for node in subtopology.processors:
            self._nodes[node.name] = ROWS[type(node.operator)](node)
        self._sinks = [SinkRow(sink) for sink in subtopology.sinks]
        self._nodes.update({sink.name: sink for sink in self._sinks})
        self._entries = [
            [[self._nodes[name] for name in names] for names in source.prefix.targets]
            if source.prefix is not None
            else [[self._nodes[name] for name in subtopology.children[source.name]]]
            for source in subtopology.sources
        ]
        self._timed = subtopology.timed
        self._clocked = subtopology.clocked
        self._live: dict[str, TtlStore] = {}
        self._missing_fields = MissingFields()
        self._punctuating_ms: int | None = None
        self._opened = False
        self._context: TaskContext
        self.stream_time_ms = -1
        self.punctuations: Punctuations
        self._flushing = False
        self._spills: list[SpilledRecordCache] = []
        self._raw: RecordSource = no_record(-1)
        self._row = 0

    @property
    def current(self) -> SourceRecord:
        """The current record as it was read.

        While flushing the one that made what is sent; of a punctuation one that says so.
        """
        source, row = self.origin()
        return source.record(row)

    # what nodes see (hayase.kernel.node.row_node.RowEnvironment)

    @property
    def metrics(self) -> Metrics:
        """Counters of the epoch."""
        return self._context.metrics

    @property
    def clocks(self) -> Clocks:
        """Clocks of the task."""
        return self._context.clocks

    @property
    def wall_clock_ms(self) -> int:
        """The epoch's wall clock."""
        return self._context.wall_clock_ms

    @property
    def partition(self) -> int:
        """Number of the task's partition."""
        return TaskId.parse(self._context.task).partition

    def byte_store(self, name: str) -> ByteStore:
        """See TaskContext; without the rows that have expired."""
        live = self._live.get(name)
        if live is not None:
            return live
        store, ttl_ms = self._context.byte_store(name), self._context.store_spec(name).ttl_ms
        if ttl_ms is None:
            return store
        live = self._live[name] = TtlStore(store, ttl_ms, lambda: self.stream_time_ms)
        return live

    def store_spec(self, name: str) -> StoreSpec:
        """See TaskContext."""
        return self._context.store_spec(name)

    def metadata(self) -> RecordMetadata | None:
        """Where the current record was read; `None` while flushing, in a punctuation, and before the first record."""
        if self._flushing or self._punctuating_ms is not None:
            return None
        raw = self._raw
        assert isinstance(raw, RecordBatch)
        if raw.partition < 0:  # `no_record`: a processor's `init`
            return None
        topic = self._context.failures.topics.get(raw.topic, raw.topic)
        return RecordMetadata(topic, raw.partition, int(raw.offsets[self._row]))

    def origin(self) -> Origin:
        """See RowEnvironment."""
        if self._punctuating_ms is not None:
            return no_record(self._punctuating_ms), 0
        return self._raw, self._row

    def back_to(self, origin: object) -> None:
        """See RowEnvironment."""
        self._raw, self._row = cast("Origin", origin)

    def processing_failed(self, node: str, error: Exception) -> None:
        """Ask the processing handler about the current record."""
        self._context.failures.handle("processing", node, self.current, error)

    @property
    def application_id(self) -> str:
        """Of the application."""
        return self._context.application_id

    @property
    def app_configs(self) -> Mapping[str, object]:
        """Of the application."""
        return self._subtopology.app_configs

    @property
    def task_id(self) -> str:
        """Of the task."""
        return self._context.task

    def is_global(self, name: str) -> bool:
        """Whether that is the store of a global table."""
        return name in self._context.globals

    # the epoch

    def open(self, context: TaskContext, emit_edge: EdgeEmitter, after_run: Callable[[], None] | None = None) -> None:
        """Start of an epoch.

        Args:
            context: the epoch's.
            emit_edge: takes records for repartition topics.
            after_run: given if the epoch is processed in chunks: called while caches are flushed, from time to time.
        """
        self._context = context
        self._flushing = False
        self._spills = []
        self._live = {}
        if self._clocked:
            self.stream_time_ms = context.clocks.get(STREAM_TIME)
        if self._timed and self._opened:
            self.punctuations.begin(context.clocks, context.wall_clock_ms)
        elif self._timed:
            self.punctuations = Punctuations(context.clocks, context.wall_clock_ms, self._punctuate)
        self._opened = True
        tables: dict[str, TableRows] = {}
        for name in self._subtopology.order:
            node = self._nodes.get(name)
            if node is None:
                continue
            children = [self._nodes[child] for child in self._subtopology.children[name]]
            spill = None
            if after_run is not None and context.space is not None:
                spill = SpilledRecordCache(context.space, after_run)
                self._spills.append(spill)
            with collecting(self._missing_fields):
                node.open(RowContext(name, self, children, tables, self._subtopology.schemas, spill))
            rows = node.table_rows()
            if rows is not None:
                tables[name] = rows
        for sink in self._sinks:
            sink.context = context
            sink.emit_edge = emit_edge

    def leave(self) -> None:
        """The task leaves this process, or an attempt failed: what is the user's is closed, all of it.

        Raises:
            ProcessingError: `PROCESSOR_FAILED`: the first that failed.
        """
        failed: HayaseError | None = None
        for node in self._nodes.values():
            try:
                node.leave()
            except HayaseError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def entries(self, source: int) -> Sequence[Sequence[RowNode]]:
        """Where records of a source enter the nodes: its children, or the targets of its prefix."""
        return self._entries[source]

    def at(self, raw: RecordBatch, row: int) -> None:
        """Make a record the current one."""
        self._raw = raw
        self._row = row

    def process(self, nodes: Sequence[RowNode], record: Record, raw: RecordBatch, row: int) -> None:
        """Run one record, read as a row of `raw`, through the nodes that it enters."""
        self._raw = raw
        self._row = row
        if self._clocked and record.timestamp_ms > self.stream_time_ms:
            self.stream_time_ms = record.timestamp_ms
        for child in nodes:
            try:
                child.process(record)
            except Exception as error:  # user code may raise anything; the handler decides
                if not is_fault(error):
                    raise
                self.processing_failed(child.name, error)
        if self._timed:
            self.punctuations.stream_time(self.stream_time_ms)

    def hold_back(self) -> None:
        """End of a chunk: move what caches hold back out of memory."""
        for cache in self._spills:
            cache.spill()

    def _punctuate(self, node: str, punctuator: Punctuator, time_ms: int) -> None:
        self._punctuating_ms = time_ms
        begun = time.perf_counter()
        try:
            punctuator(time_ms)
        except Exception as error:  # user code may raise anything; the handler decides
            if not is_fault(error):
                raise
            self.processing_failed(node, error)
        finally:
            self._punctuating_ms = None
            self.metrics.measure_one(PUNCTUATE_LATENCY, "", (time.perf_counter() - begun) * 1000)

    def finish(self) -> None:
        """End of the epoch.

        Call what is due, flush caches in the order the nodes were added, make room, save the clocks.
        """
        if self._timed:
            if self._context.wall_clock_moved:
                self.punctuations.wall_clock()
            self._context.due_ms = self.punctuations.next_wall_clock_ms()
        if self._clocked:
            self._context.clocks.set(STREAM_TIME, self.stream_time_ms)
        self._flushing = True
        for name in self._subtopology.order:
            node = self._nodes.get(name)
            if node is not None:
                node.flush()
        self._missing_fields.report(self.metrics)
        if self._live and self._context.state is not None:
            remove_expired(self._context.state, self._live, self._context.after_chunk)
        self._context.clocks.save()
