"""The nodes of a topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import Serde
from hayase.topology.operators import Operator


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Reads topics, or the records of an internal repartition topic.

    Serdes are `None` where the configuration's defaults apply.
    """

    name: str
    topics: tuple[str, ...]
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    timestamp_extractor: TimestampExtractor | None = None
    reset: Literal["earliest", "latest"] | None = None

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
    """

    name: str
    parents: tuple[str, ...]
    topic: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """An internal topic between two sub-topologies: a Spark shuffle, not a topic of the log.

    `partitions` is `None` where the largest upstream partition count applies.
    """

    name: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class GlobalTable:
    """A table of which every task can read every row: its source topic, its processor, its store."""

    source: SourceNode
    processor: ProcessorNode
    store: str
