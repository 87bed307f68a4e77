"""Where records without a key are kept: above left and outer joins, which want them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hayase.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from hayase.topology.operators import Operator, StreamGlobalTableJoin, StreamStreamJoin, StreamTableJoin


def null_keys_wanted(nodes: Sequence[Node], repartitions: Collection[str]) -> set[str]:
    """The nodes with a left or outer join anywhere downstream, beyond further repartitions as well."""
    parents = {node.name: list(node.parents) for node in nodes}
    sinks = {node.topic: node.name for node in nodes if isinstance(node, SinkNode)}
    wanted: set[str] = set()
    for node in nodes:
        if isinstance(node, SourceNode):
            parents[node.name] = [sinks[topic] for topic in node.topics if topic in repartitions and topic in sinks]
    pending = [node.name for node in nodes if isinstance(node, ProcessorNode) and _wants_null_keys(node.operator)]
    while pending:
        for parent in parents[pending.pop()]:
            if parent not in wanted:
                wanted.add(parent)
                pending.append(parent)
    return wanted


def _wants_null_keys(operator: Operator) -> bool:
    match operator:
        case StreamTableJoin(left=left) | StreamGlobalTableJoin(left=left):
            return left
        case StreamStreamJoin(unmatched=unmatched):
            return unmatched is not None
    return False
