"""A sub-topology or a global table as compiled: its form, its serdes, its column nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hayase.kernel.frame.order import MergeOrder
from hayase.kernel.node.column_node import ColumnNode
from hayase.kernel.node.edge import EdgeSchema
from hayase.processor.handlers import ExceptionHandler
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import ColumnCodec, Serde
from hayase.state.stores.spec import StoreSpec
from hayase.task.plan import Form
from hayase.task.schema_fields import SchemaFields
from hayase.topology.nodes import Partitioner, ProcessorNode, TopicExtractor
from hayase.topology.operators import ForeignKeyResolve, ForeignKeySubscribe, UserCode


@dataclass(frozen=True, slots=True)
class PrefixNode:
    """A node of a prefix, on one way from the source to it.

    Attributes:
        columns: its column form; `None` if it passes everything on.
        output: what it sends.
        children: in the order they were added; of those that run in rows, the names.
    """

    name: str
    columns: ColumnNode | None
    output: EdgeSchema
    children: tuple[PrefixNode | str, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The expression nodes right below a source that run in columns although the sub-topology runs in rows.

    See `task.run_prefix`.

    Attributes:
        schema: what the source sends.
        children: of the source, as in PrefixNode.
        targets: nodes that run in rows, neighbours among the children of one node together.
    """

    schema: EdgeSchema
    children: tuple[PrefixNode | str, ...]
    targets: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """A source of a sub-topology.

    Attributes:
        edge: the repartition topic it receives, `None` for topics of the log.
        frames: the edge carries typed columns (both ends run in columns) instead of serialized keys and values.
        schema: what it sends in columns; `None` if it cannot.
        fields: the value fields that anything downstream looks at, where they are decoded to columns; `None`: all.
        prefix: the nodes that run in columns in a sub-topology that runs in rows.
        fields_of_schema: looks for those that values do not have.
    """

    name: str
    key_serde: Serde
    value_serde: Serde
    extractor: TimestampExtractor
    edge: str | None = None
    frames: bool = False
    schema: EdgeSchema | None = None
    fields: frozenset[str] | None = None
    prefix: Prefix | None = None
    fields_of_schema: SchemaFields = field(default_factory=SchemaFields, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CompiledSink:
    """A sink of a sub-topology.

    Attributes:
        topic: empty if the extractor chooses it for each record.
        edge: whether `topic` is a repartition topic, a shuffle to other tasks.
        partitions: of the repartition topic; 0 for topics of the log, and where the counts are not known.
        target_subtopology: the sub-topology that reads the repartition topic.
        frames: see CompiledSource.
        fields: the value fields that the receiver of typed columns looks at; `None`: all.
        key_codec, value_codec: column forms of the serdes, for a sub-topology that runs in columns.
        window_bytes: so many bytes at the end of a key do not count where the key decides on the partition.
    """

    name: str
    parents: tuple[str, ...]
    topic: str
    key_serde: Serde
    value_serde: Serde
    edge: bool = False
    partitions: int = 0
    target_subtopology: str | None = None
    frames: bool = False
    fields: frozenset[str] | None = None
    key_codec: ColumnCodec | None = None
    value_codec: ColumnCodec | None = None
    extractor: TopicExtractor | None = None
    partitioner: Partitioner | None = None
    window_bytes: int = 0


@dataclass(frozen=True)
class CompiledSubtopology:
    """All that the plan, and a task of the sub-topology, need to know of it.

    Attributes:
        id: number of the sub-topology, or `global0`, `global1`, … of global tables.
        level: see `levels_of`.
        reason: why this form, for `describe` and error messages.
        order: names of all nodes in the order they were added.
        children: of each node, in the order they were added.
        stores: specs of the sub-topology's own stores and of the global stores it reads.
        columns: the compiled nodes, if the sub-topology runs in columns.
        schemas: what nodes send, as far as it is known, also where the sub-topology runs in rows.
        merges: how the frames of several sinks of one topic, or of several parents of a sink, are merged, by topic.
        stateful: has stores or clocks.
        pure: outputs are a function of the input ranges alone (expressions only), so nothing needs journalling.
        journalled: its bundles publish a delta in every epoch: what they send is made once, whatever its code does when
            an epoch is replayed.
        definition: digest of a sub-topology that sends rows and is not journalled, since every attempt makes them
            again; empty for others.
        reads_global: names of global stores it looks up.
        global_store: of a global table.
        app_configs: see `ProcessingContext.app_configs`.
        clocks: nodes → what their clocks are called in the state, where that is not the node's name.
        deleted_stores: stores of earlier plans, whose rows are deleted; its bundles then have a journal in any case.
        small: how epochs of few records run; `None`: as all others.
    """

    id: str
    level: int
    reason: str
    sources: tuple[CompiledSource, ...]
    processors: tuple[ProcessorNode, ...]
    sinks: tuple[CompiledSink, ...]
    order: tuple[str, ...]
    children: Mapping[str, tuple[str, ...]]
    stores: Mapping[str, StoreSpec]
    columns: Mapping[str, ColumnNode] | None
    schemas: Mapping[str, EdgeSchema]
    merges: Mapping[str, MergeOrder]
    stateful: bool
    pure: bool
    journalled: bool
    definition: str = ""
    reads_global: tuple[str, ...] = ()
    global_store: str | None = None
    app_configs: Mapping[str, object] = field(default_factory=dict)
    clocks: Mapping[str, str] = field(default_factory=dict)
    deleted_stores: tuple[str, ...] = ()
    small: SmallEpochs | None = None

    def for_records(self, records: int) -> CompiledSubtopology:
        """The form for a task that reads so many records in an epoch: what they do is the same."""
        return self if self.small is None or records > self.small.records_max else self.small.in_rows

    @property
    def form(self) -> Form:
        """How its tasks run."""
        return "rows" if self.columns is None else "columns"

    @property
    def prefix(self) -> tuple[str, ...]:
        """Names of the nodes that run in columns although the sub-topology runs in rows."""
        names = (node.name for source in self.sources if source.prefix for node in _nodes(source.prefix.children))
        return tuple(dict.fromkeys(names))

    @property
    def shown_form(self) -> str:
        """The form and its reason, for people."""
        detail = f", prefix in columns: {', '.join(self.prefix)}" if self.prefix else ""
        if self.small is not None:
            detail = f", in rows epochs of up to {self.small.records_max} records"
        return f"{self.form}{detail} ({self.reason})"

    @cached_property
    def answers(self) -> frozenset[int]:
        """Positions of the sources with the answers of foreign-key joins."""
        answered = {node.parents[0] for node in self.processors if isinstance(node.operator, ForeignKeyResolve)}
        return frozenset(position for position, source in enumerate(self.sources) if source.name in answered)

    @cached_property
    def processors_in_columns(self) -> tuple[ProcessorNode, ...]:
        """In the order in which a frame goes through them: left rows ask when all answers before them are taken."""
        return tuple(sorted(self.processors, key=lambda node: isinstance(node.operator, ForeignKeySubscribe)))

    @cached_property
    def timed(self) -> bool:
        """Whether processors of the user are in it, which may have to be called without input."""
        return any(isinstance(node.operator, UserCode) for node in self.processors)

    @cached_property
    def clocked(self) -> bool:
        """Whether the task's stream time is kept: for processors of the user, and for stores with a time to live."""
        return self.timed or any(
            self.stores[name].ttl_ms is not None for node in self.processors for name in node.stores
        )


@dataclass(frozen=True, slots=True)
class SmallEpochs:
    """A sub-topology that runs in columns, in rows.

    Attributes:
        in_rows: what it is then.
        records_max: up to so many records of a task take less in rows, where a frame costs some milliseconds.
    """

    in_rows: CompiledSubtopology
    records_max: int


def _nodes(children: Sequence[PrefixNode | str]) -> Iterator[PrefixNode]:
    for child in children:
        if isinstance(child, PrefixNode):
            yield child
            yield from _nodes(child.children)


@dataclass(frozen=True, slots=True)
class ProcessingLogPolicy:
    """The topic of a processing log, and whether its records show the data that failed."""

    topic: str
    rows_included: bool = False


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """The exception handlers of an application, and where its dead letters and its processing log go."""

    deserialization: ExceptionHandler
    processing: ExceptionHandler
    production: ExceptionHandler
    dead_letter_topic: str | None = None
    processing_log: ProcessingLogPolicy | None = None
