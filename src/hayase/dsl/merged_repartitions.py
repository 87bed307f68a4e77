"""One repartition in place of several below one change of key (`topology.optimization`: `merge.repartition.topics`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hayase.serde import JsonSerde
from hayase.serde.protocol import Serde
from hayase.topology import operators as op
from hayase.topology.graph import tables_without
from hayase.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from hayase.topology.topology import Topology

Alike = Callable[[Serde | None, Serde | None], bool]
"""Whether two serdes do the same."""

_CHANGES_KEYS = (op.SelectKey, op.Map, op.FlatMap, op.Process)
_KEEPS_ALL = (op.Filter, op.Peek)
"""What may lie between: it changes neither keys nor values, so it can as well come behind the repartition."""


@dataclass(frozen=True, slots=True)
class _Repartition:
    """Attributes: `changer` is the node that changes keys, `between` what comes before the filter, from above."""

    changer: str
    between: tuple[str, ...]
    drop: ProcessorNode
    sink: SinkNode
    source: SourceNode

    def goes_with(self, other: _Repartition, alike: Alike) -> bool:
        """Whether the two can be one."""
        mine, others = self.sink, other.sink
        return (
            (self.changer, self.drop.operator) == (other.changer, other.drop.operator)
            and alike(mine.key_serde, others.key_serde)
            and alike(mine.value_serde, others.value_serde)
        )


def alike(this: Serde | None, other: Serde | None) -> bool:
    """Whether two serdes do the same."""
    if isinstance(this, JsonSerde) and isinstance(other, JsonSerde):  # each makes its own classes to read into
        return this is other or this.written_alike(other)
    return alike_before(this, other)


def alike_before(this: Serde | None, other: Serde | None) -> bool:
    """The same as earlier releases saw it: two equal JSON schemas were two."""
    if this is other or this == other:
        return True
    return type(this) is type(other) and getattr(this, "__dict__", None) == getattr(other, "__dict__", 0)


def merge_repartitions(topology: Topology, alike: Alike = alike) -> Topology:
    """The topology with one repartition where a change of key is followed by several.

    As in Kafka Streams: those of groupings and joins, not those of `repartition()`; the first one's topic and serdes
    are kept; one behind a change of values stays as it is, and so does one whose serdes differ from the first one's.
    """
    groups: list[list[_Repartition]] = []
    for topic in topology.repartitions:  # in the order they were added
        if (repartition := _repartition(topology, topic)) is None:
            continue
        group = next((each for each in groups if each[0].goes_with(repartition, alike)), None)
        if group is None:
            groups.append([repartition])
        else:
            group.append(repartition)
    for group in groups:
        if len(group) > 1:
            topology = _merged(topology, group)
    return topology


def _repartition(topology: Topology, topic: str) -> _Repartition | None:
    nodes = topology.by_name
    (sink,) = (node for node in topology.nodes if isinstance(node, SinkNode) and node.topic == topic)
    (source,) = (node for node in topology.nodes if isinstance(node, SourceNode) and topic in node.topics)
    drop = nodes[sink.parents[0]]
    if len(sink.parents) > 1 or not isinstance(drop, ProcessorNode) or sink.partitioner is not None:
        return None
    if not isinstance(drop.operator, op.RepartitionFilter):
        return None
    between: list[str] = []
    above = nodes[drop.parents[0]]
    while isinstance(above, ProcessorNode) and isinstance(above.operator, _KEEPS_ALL):
        if len(topology.children[above.name]) > 1:
            return None  # what else is below would be moved behind the repartition as well
        between.insert(0, above.name)
        above = nodes[above.parents[0]]
    if not isinstance(above, ProcessorNode) or not isinstance(above.operator, _CHANGES_KEYS):
        return None
    if isinstance(above.operator, op.Process) and above.operator.fixed_key:
        return None
    return _Repartition(above.name, tuple(between), drop, sink, source)


def _merged(topology: Topology, several: list[_Repartition]) -> Topology:
    first = several[0]
    gone = {node.name for each in several for node in (each.drop, each.sink, each.source)}
    parent: dict[tuple[str, str], str] = {}  # of a node's parent: the node that takes its place
    behind: dict[str, str] = {}  # of a source that is gone: what its children hang on
    for each in several:
        behind[each.source.name] = each.between[-1] if each.between else first.source.name
        if each.between:
            parent[each.between[0], each.changer] = first.source.name
    nodes: list[Node] = []
    for node in topology.nodes:
        if node.name in gone:
            continue
        nodes.append(_moved(node, parent, behind))
        if node.name == first.changer:
            drop = dataclasses.replace(first.drop, parents=(first.changer,))
            nodes += [drop, first.sink, first.source]
    kept = {name: each for name, each in topology.repartitions.items() if name not in _topics(several[1:])}
    tables = tables_without(topology, gone)
    return dataclasses.replace(topology, nodes=tuple(nodes), repartitions=kept, global_tables=tables)


def _moved(node: Node, parent: Mapping[tuple[str, str], str], behind: Mapping[str, str]) -> Node:
    if isinstance(node, SourceNode):
        return node
    parents = (parent.get((node.name, name), behind.get(name, name)) for name in node.parents)
    return dataclasses.replace(node, parents=tuple(parents))


def _topics(several: Iterable[_Repartition]) -> set[str]:
    return {str(each.sink.topic) for each in several}
