"""A unit (sub-topology or global table) made ready to run: serdes resolved, columns compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hayase.kernel.columns import ColumnNode, EdgeSchema
from hayase.kernel.order import MergeOrder
from hayase.processor.handlers import ExceptionHandler
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import ColumnCodec, Serde
from hayase.state.spec import StoreSpec
from hayase.task.plan import UnitPlan
from hayase.topology.nodes import ProcessorNode


@dataclass(frozen=True, slots=True)
class SourceProgram:
    """A source of a unit.

    Attributes:
        edge: the repartition topic it receives, `None` for topics of the log.
        frames: the edge carries typed columns (both ends run in columns) instead of serialized keys and values.
        schema: what it sends in columns; `None` if it can not.
        fields: the value fields that anything downstream looks at, in a unit that runs in columns; `None`: all.
    """

    name: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    extractor: TimestampExtractor
    edge: str | None = None
    frames: bool = False
    schema: EdgeSchema | None = None
    fields: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class SinkProgram:
    """A sink of a unit.

    Attributes:
        edge: whether `topic` is a repartition topic, a shuffle to other tasks.
        partitions: of the repartition topic (0 for topics of the log).
        target_unit: the unit that reads the repartition topic.
        frames: see SourceProgram.
        fields: the value fields that the receiver of typed columns looks at; `None`: all.
        key_codec, value_codec: column forms of the serdes, for a unit that runs in columns.
    """

    name: str
    parents: tuple[str, ...]
    topic: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    edge: bool = False
    partitions: int = 0
    target_unit: str | None = None
    frames: bool = False
    fields: frozenset[str] | None = None
    key_codec: ColumnCodec | None = None
    value_codec: ColumnCodec | None = None


@dataclass(frozen=True)
class UnitProgram:
    """All that a task of the unit needs.

    Attributes:
        order: names of all nodes in the order they were added.
        columns: the compiled nodes, if the unit runs in columns.
        schemas: what nodes send, as far as it is known, by name.
        merges: how the frames of several sinks of one topic, or of several parents of a sink, are merged, by topic.
        stores: specs of the unit's own stores and of the global stores it reads.
    """

    plan: UnitPlan
    sources: tuple[SourceProgram, ...]
    processors: tuple[ProcessorNode, ...]
    sinks: tuple[SinkProgram, ...]
    order: tuple[str, ...]
    children: Mapping[str, tuple[str, ...]]
    stores: Mapping[str, StoreSpec]
    columns: Mapping[str, ColumnNode] | None = None
    schemas: Mapping[str, EdgeSchema] = field(default_factory=dict)
    merges: Mapping[str, MergeOrder] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """The exception handlers of an application and where its dead letters go."""

    deserialization: ExceptionHandler
    processing: ExceptionHandler
    production: ExceptionHandler
    dead_letter_topic: str | None = None
