"""The nodes of a topology."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import RecordContext
from hayase.core.type_variables import K, V
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import Serde
from hayase.topology.operators import Operator

TopicExtractor = Callable[[K, V, RecordContext], str] | pl.Expr
"""The topic of a record: `(key, value, record_context) -> topic`, or an expression."""

Partitioner = Callable[[str, K, V, int], int | Collection[int] | None] | pl.Expr
"""The partition of a record: `(topic, key, value, partitions)`, or an expression; `None`: the one of the key.

Several numbers: the record is written to each of them; none at all: it is dropped (KIP-837).
"""

SparkReader = Callable[[Any], Any]
"""`(session) -> streaming frame`. PySpark's types are known to the runtime only."""

SparkWriter = Callable[[Any, int], object]
"""`(frame, number)`."""


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Reads topics, or the records of an internal repartition topic.

    Serdes are `None` where the configuration's defaults apply. A source with a `pattern` reads every topic whose whole
    name it matches; `topics` are those that were found when the application started.
    """

    name: str
    topics: tuple[str, ...]
    key_serde: Serde | None
    value_serde: Serde | None
    timestamp_extractor: TimestampExtractor | None = None
    reset: AutoOffsetReset | None = None
    pattern: re.Pattern[str] | None = None

    @property
    def first_topic(self) -> str:
        """The first topic; the pattern's text while it is not known what that matches."""
        return self.topics[0] if self.topics or self.pattern is None else self.pattern.pattern

    @property
    def parents(self) -> tuple[str, ...]:
        """None: a source has no parents."""
        return ()


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """Runs an operator over what its parents send."""

    name: str
    parents: tuple[str, ...]
    operator: Operator
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkNode:
    """Writes a topic, or the records of an internal repartition topic.

    Serdes are `None` where they are derived from what arrives (see `planner`).

    Attributes:
        topic: `None` if `extractor` chooses it for each record.
        partitioner: chooses the partition; `None`: the key does.
        windows_apart: a windowed key does so without its window, as in sinks of Kafka Streams' DSL: all windows of a
            key are in one partition.
    """

    name: str
    parents: tuple[str, ...]
    topic: str | None
    key_serde: Serde | None
    value_serde: Serde | None
    extractor: TopicExtractor | None = None
    partitioner: Partitioner | None = None
    windows_apart: bool = False


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """An internal topic between two sub-topologies: a Spark shuffle, not a topic of the log.

    `partitions` is `None` where the largest upstream partition count applies.
    """

    name: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic of the log between two sub-topologies, or between a sub-topology and a Spark DataFrame.

    The application makes it, and no other program should write it. In the log its name is `<application.id>-<name>`.

    Attributes:
        name: ends in `-repartition`, `-from-spark` or `-to-spark`; shown by `describe()`.
        partitions: `None`: that of what it is joined with, else the largest upstream, else 1.
    """

    name: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A streaming Spark DataFrame; a query of its own writes its records to an internal topic.

    Attributes:
        name: of the source.
        topic: the internal topic, by the name that nodes have for it.
        frame: `(session) -> streaming frame`, called in the application's process.
        output_mode: Spark's.
    """

    name: str
    topic: str
    frame: SparkReader
    output_mode: Literal["append", "update"] = "append"


@dataclass(frozen=True, slots=True)
class SparkSink:
    """A Spark writer; a thread of the application hands it an internal topic's records range by range.

    Attributes:
        name: of the sink.
        topic: the internal topic, by the name that nodes have for it.
        write: `(frame, number)`, called in the application's process.
        interval_ms: from the beginning of a write to that of the next.
        records_max: of a range.
    """

    name: str
    topic: str
    write: SparkWriter
    interval_ms: int
    records_max: int


@dataclass(frozen=True, slots=True)
class ProgramConnector:
    """A connector that belongs to a program: it writes, or reads, an internal topic.

    Attributes:
        name: of the connector.
        topic: the internal topic, by the name that nodes have for it.
        config: under Kafka Connect's keys.
        source: whether it writes the topic.
        line: which line of the user's program made it.
    """

    name: str
    topic: str
    config: Mapping[str, str] = field(repr=False)
    source: bool
    line: str | None = None


@dataclass(frozen=True, slots=True)
class GlobalTable:
    """A table of which every task can read every row: its source topic, its processor, its store.

    Attributes:
        after: the node that was added before it, `None` if it was the first: it is numbered among the sub-topologies.
    """

    source: SourceNode
    processor: ProcessorNode
    store: str
    after: str | None = None
