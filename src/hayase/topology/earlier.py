"""Topologies as earlier releases numbered and named them.

What was started by one of those goes on with its numbers and names.

Format 1 of the plan in a checkpoint, of which it says nothing, is theirs; format 2 is the current one, as Kafka Streams
has it. They numbered sub-topologies by the names of sources, gave the store of an unnamed reduce of a grouped table
another name, and shared fewer repartitions, so that later nodes had other numbers
(docs/decisions/20261123-parity-on-random-topologies.md).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from hayase.state.stores.spec import StoreSpec
from hayase.topology.nodes import (
    GlobalTable,
    InternalTopic,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
)
from hayase.topology.operators import InternalSerdes, Operator
from hayase.topology.topology import Topology

T = TypeVar("T")

FORMAT = 2
"""The current format of plans."""

_NAMING = (
    SourceNode, ProcessorNode, SinkNode, GlobalTable, RepartitionTopic, InternalTopic, StoreSpec, Operator,
    InternalSerdes,
)  # fmt: skip
"""What names nodes, stores and topics in its fields; functions and serdes of the user are left alone."""


def in_format(topology: Topology, plan_format: int) -> Topology:
    """The topology with the numbers and names of plans of a format, and without those of others."""
    if plan_format >= FORMAT:
        return dataclasses.replace(topology, earlier=None)
    return dataclasses.replace(topology.earlier or topology, numbered_by_sources=True, earlier=None)


def differs(topology: Topology) -> bool:
    """Whether its numbers or names are others in earlier formats."""
    return topology.earlier is not None or _numbers(topology) != _numbers(in_format(topology, 1))


def _numbers(topology: Topology) -> object:
    return [(part.id, part.nodes[0].name) for part in topology.subtopologies], topology.global_table_ids


def is_alike(this: Topology, other: Topology) -> bool:
    """Whether two topologies of one program have the same nodes and names."""
    return _names(this) == _names(other)


def _names(topology: Topology) -> object:
    nodes = [(node.name, node.parents) for node in topology.nodes]
    return nodes, [*topology.stores], [*topology.repartitions], [*topology.internal_topics]


def store_in(topology: Topology, name: str) -> str:
    """The name of a store in this topology, which may be of an earlier format, if `name` is what `describe()` prints.

    Names that only earlier releases gave go as well.
    """
    return topology.store_names_before.get(name, name)


def renamed(topology: Topology, names: Mapping[str, str]) -> Topology:
    """The topology with other generated names, also where names are made of them (`…-repartition`)."""
    if not names:
        return topology
    old_names = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))

    def text(old: str) -> str:
        return old_names.sub(lambda match: names[match.group()], old)

    def of(old: object) -> Any:
        if isinstance(old, str):
            return text(old)
        if isinstance(old, tuple):
            return tuple(map(of, old))
        if isinstance(old, _NAMING) and dataclasses.is_dataclass(old):
            fields = {field.name: getattr(old, field.name) for field in dataclasses.fields(old)}
            changed = {name: new for name, value in fields.items() if (new := of(value)) is not value}
            return dataclasses.replace(old, **changed) if changed else old
        return old

    def all_of(old: Mapping[str, T]) -> dict[str, T]:
        return {text(name): of(each) for name, each in old.items()}

    return dataclasses.replace(
        topology,
        nodes=of(topology.nodes),
        stores=all_of(topology.stores),
        repartitions=all_of(topology.repartitions),
        global_tables=of(topology.global_tables),
        internal_topics=all_of(topology.internal_topics),
        lines={text(name): line for name, line in topology.lines.items()},
        store_names_before={name: new for name in topology.stores if (new := text(name)) != name},
        generated=frozenset(map(text, topology.generated)),
    )
