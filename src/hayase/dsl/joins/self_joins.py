"""One window store for a stream joined with itself (`topology.optimization`: `single.store.self.join`, KIP-862)."""

from __future__ import annotations

import dataclasses

from hayase.compiler.partitions import upstream_sources
from hayase.dsl.merged_repartitions import Alike, alike
from hayase.topology import operators as op
from hayase.topology.graph import tables_without
from hayase.topology.nodes import Node, ProcessorNode
from hayase.topology.topology import Topology


def with_single_stores(topology: Topology, alike: Alike = alike) -> Topology:
    """The topology with one window store and one node for each join of a stream with itself.

    As in Kafka Streams: inner joins, both sides of which are the same node, below a single source; the names are those
    of the left side's store and of the merge of both sides. The two sides must be kept by the same serdes.
    """
    for node in topology.nodes:
        if isinstance(node, ProcessorNode) and isinstance(node.operator, op.Merge):
            topology = _joined_once(topology, node, alike)
    return topology


def _joined_once(topology: Topology, merge: ProcessorNode, alike: Alike) -> Topology:
    sides = [topology.by_name[parent] for parent in merge.parents]
    operators = [side.operator for side in sides if isinstance(side, ProcessorNode)]
    left = next((each for each in operators if isinstance(each, op.StreamStreamJoin) and each.side == "left"), None)
    if left is None or left.clock != merge.name or not _is_self_join(topology, left, alike):
        return topology
    joined = op.StreamSelfJoin(left.windows, left.window, left.store, left.joiner, left.schema)
    gone = {left.other_window, *merge.parents}
    nodes: list[Node] = []
    for node in topology.nodes:
        if node.name == merge.name:
            nodes.append(ProcessorNode(merge.name, (left.window,), joined, (left.store,)))
        elif node.name not in gone:
            nodes.append(node)
    stores = {name: spec for name, spec in topology.stores.items() if name != left.other_store}
    tables = tables_without(topology, gone)
    return dataclasses.replace(topology, nodes=tuple(nodes), stores=stores, global_tables=tables)


def _is_self_join(topology: Topology, left: op.StreamStreamJoin, alike: Alike) -> bool:
    this, other = (topology.by_name[name].parents for name in (left.window, left.other_window))
    left_store, right_store = topology.stores[left.store], topology.stores[left.other_store]
    return (
        left.unmatched is None
        and this == other
        and len(upstream_sources(topology, left.window)) == 1
        and alike(left_store.key_serde, right_store.key_serde)
        and alike(left_store.value_serde, right_store.value_serde)
    )
