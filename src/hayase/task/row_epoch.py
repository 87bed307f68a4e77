"""An epoch of a task in row form: one record at a time through its nodes, depth first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, cast

from hayase.core.errors import HayaseError
from hayase.core.metrics import BYTES_PRODUCED, DROPPED_RECORDS, PUNCTUATE_LATENCY, RECORDS_PRODUCED, Metrics
from hayase.core.records import Change, Record, RecordMetadata, SourceRecord, TaskId
from hayase.kernel.frame.missing_fields import MissingFields, collecting
from hayase.kernel.node.clocks import Clocks
from hayase.kernel.node.punctuation import Punctuations
from hayase.kernel.node.row_node import Child, LivingProcessor, RowContext, RowNode, TableRows
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
from hayase.task.compiled_subtopology import CompiledSink
from hayase.task.input_merge import RecordSource
from hayase.task.outputs import BY_KEY, Outputs
from hayase.task.routing import RowRoute, is_routed
from hayase.task.spilled_frames import SpilledRecordCache
from hayase.task.task_context import TaskContext
from hayase.task.time_to_live import remove_expired

EdgeEmitter = Callable[[CompiledSink, bytes | None, bytes | None, Record, Sequence[int] | None], None]
"""Takes a record for a repartition topic: sink, key bytes, value bytes, the record, partitions if they were chosen."""

_MEASURED_AT_ONCE = 100_000


class Entry(Protocol):
    """A node that records of a source enter."""

    name: str

    def process(self, record: Record) -> None:
        """Handle one record."""
        ...


class SinkRow(RowNode):
    """Serializes what arrives and hands it to the task's outputs, or to the edge."""

    def __init__(self, sink: CompiledSink, ctx: RowContext, epoch: RowEpoch, emit_edge: EdgeEmitter) -> None:
        super().__init__(ctx)
        self._sink = sink
        self._epoch = epoch
        self._context = epoch.context
        self._emit_edge = emit_edge
        self._key_bytes, self._value_bytes = sink.key_serde.serialize, sink.value_serde.serialize
        self._takes_changes = isinstance(sink.value_serde, ChangeSerde)
        self._route: RowRoute | None = None
        if is_routed(sink):
            partitions_of = (lambda _: sink.partitions) if sink.edge else self._context.partitions_of
            self._route = RowRoute(sink, ctx.schemas.get(sink.parents[0]), partitions_of)
        self._times_ms: list[int] = []
        self._written: dict[str, list[int]] = {}  # records and bytes by topic, since they were last counted

    def process(self, record: Record) -> None:
        """Write one record; a serialization error goes to the production handler."""
        sink = self._sink
        if isinstance(record.value, Change) and not self._takes_changes:
            record = record.with_value(record.value.new)
        topic, partitions, count = sink.topic, None, 0
        if self._route is not None:
            topic, partitions, count = self._route(record, self._epoch.metadata)
            if partitions is not None and not partitions:
                self._context.metrics.add(DROPPED_RECORDS, self.name)
                return
        try:
            key_bytes = self._key_bytes(record.key)
            value_bytes = self._value_bytes(record.value)
        except BaseException as error:
            fault = unwritable(error, sink.value_serde, (record.key, record.value))
            self._context.failures.handle("production", self.name, self._epoch.current, fault, topic)
            return
        if sink.edge:
            self._emit_edge(sink, key_bytes, value_bytes, record, partitions)
            return
        output = self._context.outputs.topic(topic)
        if partitions is None:
            output.add(key_bytes, value_bytes, record.timestamp_ms, record.headers)
            if sink.window_bytes:
                output.choose([BY_KEY - sink.window_bytes], count or self._context.partitions_of(topic))
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
            self._context.meter.sent(self.name, self._times_ms)
            self._times_ms = []
        for topic, (records, size) in self._written.items():
            self._context.metrics.add(RECORDS_PRODUCED, topic, records)
            self._context.metrics.add(BYTES_PRODUCED, topic, size)
        self._written = {}


class TaskLife:
    """What a task in row form keeps in this process from epoch to epoch, beside its state.

    Attributes:
        processors: of the user, by node.
        punctuations: those of the last epoch; `None` before the first.
        missing_fields: fields that expressions ask for and values do not have.
    """

    def __init__(self) -> None:
        self.processors: dict[str, LivingProcessor] = {}
        self.punctuations: Punctuations | None = None
        self.missing_fields = MissingFields()

    def close(self) -> None:
        """The task leaves this process, or an attempt failed: close the processors, all of them.

        Raises:
            ProcessingError: `PROCESSOR_FAILED`: the first that failed.
        """
        failed: HayaseError | None = None
        for processor in self.processors.values():
            try:
                processor.close()
            except HayaseError as error:
                failed = failed or error
        if failed is not None:
            raise failed


class RowEpoch:
    """One epoch of a task in row form: `process` for each record in merged order, then `finish`.

    Its nodes see it as their environment (`RowEnvironment`).

    Args:
        life: of the task.
        context: the epoch's.
        emit_edge: takes records for repartition topics.
        after_run: given if the epoch is processed in chunks: called while caches are flushed, from time to time.
    """

    def __init__(
        self, life: TaskLife, context: TaskContext, emit_edge: EdgeEmitter, after_run: Callable[[], None] | None = None
    ) -> None:
        self.context = context
        self.processors = life.processors
        self._subtopology = subtopology = context.subtopology
        self._missing_fields = life.missing_fields
        self._timed = subtopology.timed
        self._clocked = subtopology.clocked
        self.stream_time_ms = context.clocks.get(STREAM_TIME) if self._clocked else -1
        self._live: dict[str, TtlStore] = {}
        self._punctuating_ms: int | None = None
        self._flushing = False
        self._raw: RecordSource = no_record(-1)
        self._row = 0
        self.punctuations = Punctuations(context.clocks, context.wall_clock_ms, self._punctuate, life.punctuations)
        life.punctuations = self.punctuations
        self._spills: list[SpilledRecordCache] = []
        self._contexts: list[RowContext] = []
        self._nodes = self._made_nodes(emit_edge, after_run)
        self._entries = [
            [[self._nodes[name] for name in names] for names in source.prefix.targets]
            if source.prefix is not None
            else [[self._nodes[name] for name in subtopology.children[source.name]]]
            for source in subtopology.sources
        ]

    def release(self) -> None:
        """The epoch is over: let go of what it has read and made.

        Nodes and the epoch refer to each other, and processors that live on to the epoch. So what it still had would
        be kept until the garbage collector looks for cycles, which it seldom does in workers.
        """
        for ctx in self._contexts:
            ctx.connect(())
        self._contexts, self._nodes, self._entries, self._spills, self._live = [], {}, [], [], {}
        self._raw, self._row = no_record(-1), 0
        nothing = Outputs()
        failures = replace(self.context.failures, outputs=nothing, log=None)
        self.context = replace(
            self.context,
            state=None,
            globals={},
            outputs=nothing,
            failures=failures,
            space=None,
            after_chunk=lambda: None,
        )

    def _made_nodes(self, emit_edge: EdgeEmitter, after_run: Callable[[], None] | None) -> dict[str, RowNode]:
        subtopology, space = self._subtopology, self.context.space
        processors = {node.name: node for node in subtopology.processors}
        sinks = {sink.name: sink for sink in subtopology.sinks}
        nodes: dict[str, RowNode] = {}
        contexts: dict[str, RowContext] = {}
        tables: dict[str, TableRows] = {}
        for name in subtopology.order:
            if name not in processors and name not in sinks:
                continue
            below = subtopology.children[name]
            children = [Child(each, processors[each].operator if each in processors else None) for each in below]
            spill = None
            if after_run is not None and space is not None:
                spill = SpilledRecordCache(space, after_run)
                self._spills.append(spill)
            ctx = contexts[name] = RowContext(name, self, children, tables, subtopology.schemas, spill)
            if name in sinks:
                nodes[name] = SinkRow(sinks[name], ctx, self, emit_edge)
                continue
            with collecting(self._missing_fields):
                nodes[name] = ROWS[type(processors[name].operator)](processors[name], ctx)
            rows = nodes[name].table_rows()
            if rows is not None:
                tables[name] = rows
        for name, ctx in contexts.items():
            ctx.connect([nodes[child] for child in subtopology.children[name]])
        self._contexts = [*contexts.values()]
        return nodes

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
        return self.context.metrics

    @property
    def clocks(self) -> Clocks:
        """Clocks of the task."""
        return self.context.clocks

    @property
    def wall_clock_ms(self) -> int:
        """The epoch's wall clock."""
        return self.context.wall_clock_ms

    @property
    def partition(self) -> int:
        """Number of the task's partition."""
        return TaskId.parse(self.context.task).partition

    def byte_store(self, name: str) -> ByteStore:
        """See TaskContext; without the rows that have expired."""
        live = self._live.get(name)
        if live is not None:
            return live
        store, ttl_ms = self.context.byte_store(name), self.context.store_spec(name).ttl_ms
        if ttl_ms is None:
            return store
        live = self._live[name] = TtlStore(store, ttl_ms, lambda: self.stream_time_ms)
        return live

    def store_spec(self, name: str) -> StoreSpec:
        """See TaskContext."""
        return self.context.store_spec(name)

    def metadata(self) -> RecordMetadata | None:
        """Where the current record was read; `None` while flushing, in a punctuation, and before the first record."""
        if self._flushing or self._punctuating_ms is not None:
            return None
        raw = self._raw
        assert isinstance(raw, RecordBatch)
        if raw.partition < 0:  # `no_record`: a processor's `init`
            return None
        topic = self.context.failures.topics.get(raw.topic, raw.topic)
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
        self.context.failures.handle("processing", node, self.current, error)

    @property
    def application_id(self) -> str:
        """Of the application."""
        return self.context.application_id

    @property
    def app_configs(self) -> Mapping[str, object]:
        """Of the application."""
        return self._subtopology.app_configs

    @property
    def task_id(self) -> str:
        """Of the task."""
        return self.context.task

    def is_global(self, name: str) -> bool:
        """Whether that is the store of a global table."""
        return name in self.context.globals

    # the epoch

    def entries(self, source: int) -> Sequence[Sequence[RowNode]]:
        """Where records of a source enter the nodes: its children, or the targets of its prefix."""
        return self._entries[source]

    def at(self, raw: RecordBatch, row: int) -> None:
        """Make a record the current one."""
        self._raw = raw
        self._row = row

    def process(self, nodes: Sequence[Entry], record: Record, raw: RecordBatch, row: int) -> None:
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
            if self.context.wall_clock_moved:
                self.punctuations.wall_clock()
            self.context.due_ms = self.punctuations.next_wall_clock_ms()
        if self._clocked:
            self.context.clocks.set(STREAM_TIME, self.stream_time_ms)
        self._flushing = True
        for name in self._subtopology.order:
            node = self._nodes.get(name)
            if node is not None:
                node.flush()
        self._missing_fields.report(self.metrics)
        if self._live and self.context.state is not None:
            remove_expired(self.context.state, self._live, self.context.after_chunk)
        self.context.clocks.save()
