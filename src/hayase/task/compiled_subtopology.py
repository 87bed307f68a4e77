"""A sub-topology or a global table made ready to run: serdes resolved, columns compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hayase.kernel.frame.order import MergeOrder
from hayase.kernel.node.column_node import ColumnNode
from hayase.kernel.node.edge import EdgeSchema
from hayase.processor.handlers import ExceptionHandler
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import ColumnCodec, Serde
from hayase.state.stores.spec import StoreSpec
from hayase.task.plan import SubtopologyPlan
from hayase.topology.nodes import Partitioner, ProcessorNode, TopicExtractor
from hayase.topology.operators import UserCode


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

    See `task.prefix`.

    Attributes:
        schema: what the source sends.
        children: of the source, as in PrefixNode.
        targets: nodes that run in rows, neighbours among the children of one node together.
    """

    schema: EdgeSchema
    children: tuple[PrefixNode | str, ...]
    targets: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SourceProgram:
    """A source of a sub-topology.

    Attributes:
        edge: the repartition topic it receives, `None` for topics of the log.
        frames: the edge carries typed columns (both ends run in columns) instead of serialized keys and values.
        schema: what it sends in columns; `None` if it cannot.
        fields: the value fields that anything downstream looks at, where they are decoded to columns; `None`: all.
        prefix: the nodes that run in columns in a sub-topology that runs in rows.
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


@dataclass(frozen=True, slots=True)
class SinkProgram:
    """A sink of a sub-topology.

    Attributes:
        topic: empty if the extractor chooses it for each record.
        edge: whether `topic` is a repartition topic, a shuffle to other tasks.
        partitions: of the repartition topic (0 for topics of the log).
        target_subtopology: the sub-topology that reads the repartition topic.
        frames: see SourceProgram.
        fields: the value fields that the receiver of typed columns looks at; `None`: all.
        key_codec, value_codec: column forms of the serdes, for a sub-topology that runs in columns.
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


@dataclass(frozen=True)
class CompiledSubtopology:
    """All that a task of the sub-topology needs.

    Attributes:
        order: names of all nodes in the order they were added.
        columns: the compiled nodes, if the sub-topology runs in columns.
        schemas: what nodes send, as far as it is known, by name.
        merges: how the frames of several sinks of one topic, or of several parents of a sink, are merged, by topic.
        stores: specs of the sub-topology's own stores and of the global stores it reads.
        app_configs: see `ProcessingContext.app_configs`.
    """

    plan: SubtopologyPlan
    sources: tuple[SourceProgram, ...]
    processors: tuple[ProcessorNode, ...]
    sinks: tuple[SinkProgram, ...]
    order: tuple[str, ...]
    children: Mapping[str, tuple[str, ...]]
    stores: Mapping[str, StoreSpec]
    columns: Mapping[str, ColumnNode] | None = None
    schemas: Mapping[str, EdgeSchema] = field(default_factory=dict)
    merges: Mapping[str, MergeOrder] = field(default_factory=dict)
    app_configs: Mapping[str, object] = field(default_factory=dict)

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
class FailurePolicy:
    """The exception handlers of an application and where its dead letters go."""

    deserialization: ExceptionHandler
    processing: ExceptionHandler
    production: ExceptionHandler
    dead_letter_topic: str | None = None
