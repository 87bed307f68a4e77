"""Serdes that only the configuration knows.

A topology is built before its configuration is known. Where a store or an internal topic needs a serde that is not
named and cannot be inferred, it holds a `DefaultSerde`; `with_default_serdes` puts in the configured ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from hayase.core.errors import TopologyError
from hayase.serde.protocol import ColumnCodec, Serde, Side
from hayase.state.stores.spec import StoreSpec, StoreType
from hayase.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from hayase.topology.operators import (
    ForeignKeyResolve,
    ForeignKeySubscribe,
    InternalSerdes,
    StreamTableJoin,
    TableSuppress,
)
from hayase.topology.topology import Topology


@dataclasses.dataclass(frozen=True, slots=True)
class DefaultSerde(Serde):
    """Stands for the setting `default.key.serde` or `default.value.serde`.

    Attributes:
        side: which of the two.
        fallback: what it means where that setting is not set; `None`: an error then.
        owner: the node that needs it, for the error.
        inferred: the fallback is the serde of the type that the data is known to have, so that a setting for
            another type is skipped.
    """

    side: Side
    fallback: Serde | None
    owner: str
    inferred: bool = False

    def resolve(self, default: Serde | None) -> Serde:
        """The serde to use when the setting is `default`.

        Raises:
            TopologyError: `UNKNOWN_SERDE`: neither the setting nor a fallback.
        """
        serde = self.fallback if default is None or (self.inferred and not self._fits(default)) else default
        if serde is None:
            raise TopologyError(
                "UNKNOWN_SERDE",
                f"{self.owner} needs a serde for its {self.side}s, and none is known: pass one by Grouped.with_(…), "
                "Joined.with_(…), StreamJoined.with_(…), Repartitioned.with_(…), Materialized or Consumed, annotate "
                f"the function's return type, or set default.{self.side}.serde",
                owner=self.owner,
            )
        return serde

    def _fits(self, default: Serde) -> bool:
        mine = None if self.fallback is None else self.fallback.columns
        theirs = default.columns
        return mine is None or theirs is None or mine.schema.fields == theirs.schema.fields

    def to_bytes(self, value: object) -> bytes:
        """By the fallback."""
        return self.resolve(None).to_bytes(value)

    def from_bytes(self, data: bytes) -> Any:
        """By the fallback."""
        return self.resolve(None).from_bytes(data)

    @property
    def columns(self) -> ColumnCodec | None:
        """Those of the fallback."""
        return None if self.fallback is None else self.fallback.columns


def with_default_serdes(
    topology: Topology, key_serde: Serde | None, value_serde: Serde | None, otherwise: Serde
) -> Topology:
    """The topology with every `DefaultSerde`, and every `None` of a source topic, replaced.

    The `None` of sinks and of repartitions stays: it is derived from what arrives.

    Args:
        topology: as the builder made it.
        key_serde: the setting `default.key.serde`, `None` if not set.
        value_serde: the setting `default.value.serde`, `None` if not set.
        otherwise: for sources if neither they nor the settings say anything: bytes.

    Raises:
        TopologyError: `UNKNOWN_SERDE`.
    """
    defaults: dict[Side, Serde | None] = {"key": key_serde, "value": value_serde}

    def source(node: SourceNode) -> SourceNode:
        key, value = _resolve(node.key_serde, defaults), _resolve(node.value_serde, defaults)
        if not any(topic in topology.repartitions for topic in node.topics):
            key, value = key or key_serde or otherwise, value or value_serde or otherwise
        return dataclasses.replace(node, key_serde=key, value_serde=value)

    def one(node: Node) -> Node:
        match node:
            case SourceNode():
                return source(node)
            case SinkNode():
                return dataclasses.replace(
                    node,
                    key_serde=_resolve(node.key_serde, defaults),
                    value_serde=_resolve(node.value_serde, defaults),
                )
            case ProcessorNode():
                return _with_serdes(node, lambda _, __, serde: _resolved(serde, defaults))

    def store(spec: StoreSpec) -> StoreSpec:
        key, value = _resolve(spec.key_serde, defaults), _resolve(spec.value_serde, defaults)
        return dataclasses.replace(spec, key_serde=key or otherwise, value_serde=value or otherwise)

    return dataclasses.replace(
        topology,
        nodes=tuple(one(node) for node in topology.nodes),
        stores={name: store(spec) for name, spec in topology.stores.items()},
        global_tables=tuple(
            dataclasses.replace(table, source=source(table.source)) for table in topology.global_tables
        ),
    )


def with_topics(topology: Topology, application_id: str, settings: Mapping[str, object]) -> Topology:
    """The topology with every serde made for its topic (`Serde.for_topic`).

    A source of several topics takes the first: what it reads says itself what it was written by. Stores and
    repartitions take the names of the topics that Kafka Streams has for them. Serdes of sinks that choose topics stay
    as they are.

    Args:
        topology: with the default serdes already put in.
        application_id: the beginning of the names of internal topics.
        settings: `StreamsConfig.schema_registry`.
    """

    def made(serde: Serde | None, topic: str | None, side: Side) -> Serde | None:
        return serde if serde is None or topic is None else made_for(topic, side, serde)

    def made_for(topic: str, side: Side, serde: Serde) -> Serde:
        return serde.for_topic(f"{application_id}-{topic}" if topic in topology.repartitions else topic, side, settings)

    def one(node: Node) -> Node:
        match node:
            case SourceNode():
                return source(node)
            case SinkNode():
                key, value = made(node.key_serde, node.topic, "key"), made(node.value_serde, node.topic, "value")
                return dataclasses.replace(node, key_serde=key, value_serde=value)
            case ProcessorNode():
                return _with_serdes(node, made_for)

    def source(node: SourceNode) -> SourceNode:
        key, value = made(node.key_serde, node.first_topic, "key"), made(node.value_serde, node.first_topic, "value")
        return dataclasses.replace(node, key_serde=key, value_serde=value)

    def store(name: str, spec: StoreSpec) -> StoreSpec:
        topic = f"{application_id}-{name}-changelog"
        return dataclasses.replace(
            spec,
            key_serde=spec.key_serde.for_topic(topic, "key", settings),
            value_serde=spec.value_serde.for_topic(topic, "value", settings),
        )

    return dataclasses.replace(
        topology,
        nodes=tuple(one(node) for node in topology.nodes),
        stores={name: store(name, spec) for name, spec in topology.stores.items()},
        global_tables=tuple(
            dataclasses.replace(table, source=source(table.source)) for table in topology.global_tables
        ),
    )


def with_store_type(topology: Topology, store_type: StoreType) -> Topology:
    """The topology with that type for stores that have none."""
    stores = {
        name: spec if spec.store_type is not None else dataclasses.replace(spec, store_type=store_type)
        for name, spec in topology.stores.items()
    }
    return dataclasses.replace(topology, stores=stores)


def _with_serdes(node: ProcessorNode, replace: Callable[[str, Side, Serde], Serde]) -> ProcessorNode:
    """The node with the serdes that its operator needs replaced."""
    operator = node.operator
    if not isinstance(operator, ForeignKeySubscribe | ForeignKeyResolve | StreamTableJoin | TableSuppress):
        return node
    given = operator.serdes
    if given is None:
        return node
    key, value = replace(given.topic, "key", given.key), replace(given.topic, "value", given.value)
    serdes = InternalSerdes(given.topic, key, value)
    return dataclasses.replace(node, operator=dataclasses.replace(operator, serdes=serdes))


def _resolve(serde: Serde | None, defaults: dict[Side, Serde | None]) -> Serde | None:
    return None if serde is None else _resolved(serde, defaults)


def _resolved(serde: Serde, defaults: dict[Side, Serde | None]) -> Serde:
    if isinstance(serde, DefaultSerde):
        return serde.resolve(defaults[serde.side])
    return serde.map_inner(lambda inner: _resolved(inner, defaults))
