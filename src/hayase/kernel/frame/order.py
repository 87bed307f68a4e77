"""In which order records reach a node on several ways, found from the topology alone.

The row form runs depth first: what one record sets off below one child is over before the next child sees it. In
columns a frame says by its order columns where each row stands, and this module says what the columns of different
frames have in common. A *root* is where a depth-first run begins: a source, or a table that sends at the end of the
epoch what its cache held back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from hayase.core.windows import TimeWindows
from hayase.state.stores.spec import StoreSpec
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode, SinkNode

Edge = tuple[str, str]
"""A parent and the child that it sends to."""

OrderColumns = tuple[str, ...]
"""What made each order column: columns with equal beginnings mean the same."""

_INPUT = "input"
_END = "end of epoch"


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """How frames are merged: by the first `shared` order columns, then by the rank of the frame, then by the rest.

    Attributes:
        ranks: of each frame, in the order of the frames.
        columns: how many order columns the longest frame has.
    """

    shared: int
    ranks: tuple[int, ...]
    columns: int


@dataclass(frozen=True, slots=True)
class LookupOrder:
    """Which updates of a table a reader sees: those that come before by the first `shared` order columns.

    Attributes:
        table_first: where these are equal, the table is updated before it is read.
    """

    shared: int
    table_first: bool


class RecordOrder:
    """Answers for one sub-topology.

    Args:
        nodes: its processors (and sinks, if asked about them) in the order they were added; a parent that is not among
            them is a source.
        stores: specs of the stores.
        caching: whether caches are on at all.
    """

    def __init__(
        self, nodes: Sequence[ProcessorNode | SinkNode], stores: Mapping[str, StoreSpec], *, caching: bool
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._held = {
            node.name
            for node in nodes
            if not _on_close(node) and any(caching and stores[name].caching for name in _own_stores(node, stores))
        }

    @cached_property
    def _children(self) -> Mapping[str, Sequence[str]]:
        children: dict[str, list[str]] = {}
        for node in self._nodes.values():
            for parent in node.parents:
                children.setdefault(parent, []).append(node.name)
        return children

    @cached_property
    def _roots(self) -> Sequence[str]:
        sources = [name for name in self._children if name not in self._nodes]
        return [*sources, *(name for name in self._nodes if name in self._held)]

    def sent(self, name: str) -> OrderColumns:
        """Order columns of what a node sends."""
        if name in self._held:
            return (_INPUT, _END, name)
        return self.updates(name)

    def updates(self, name: str) -> OrderColumns:
        """Order columns of a table's updates before its cache; of what any other node sends."""
        node = self._nodes.get(name)
        if node is None:
            return (_INPUT,)
        parents = [self.sent(parent) for parent in node.parents]
        if len(parents) > 1:
            shared = _common(parents)
            longest = max(len(parent) for parent in parents)
            return (*parents[0][:shared], name, *(f"{name} {i}" for i in range(shared, longest)))
        return (*parents[0], name) if _multiplies(node) else parents[0]

    def merge(self, edges: Sequence[Edge]) -> MergeOrder | None:
        """How the frames of several edges are merged into one; `None` if order columns cannot tell.

        Args:
            edges: those that lead into one node, or into several sinks that write one topic.
        """
        parents = [parent for parent, _ in edges]
        sent = [self.sent(parent) for parent in parents]
        shared = _common(sent)
        if shared == 1 and self._ambiguous_end(parents):
            return None
        ranks = self._ranks(edges)
        return None if ranks is None else MergeOrder(shared, ranks, max(len(each) for each in sent))

    def _ranks(self, edges: Sequence[Edge]) -> tuple[int, ...] | None:
        """Rank of each edge in the order in which one record comes over them."""
        before: TopologicalSorter[Edge] = TopologicalSorter(dict.fromkeys(edges, ()))
        for root in self._roots:
            ways = self._visits(root, {target for _, target in edges})
            if ways is None:
                return None
            for first, later in pairwise(way for way in ways if way in edges):
                before.add(later, first)
        try:
            order = list(before.static_order())
        except CycleError:
            return None
        return tuple(order.index(edge) for edge in edges)

    def lookup(self, reader: str, stream: str, table: str) -> LookupOrder | None:
        """Which updates of a table a stream that reads it sees; `None` if order columns cannot tell."""
        shared = _common([self.sent(stream), self.updates(table)])
        above = self._nodes[table].parents if table in self._nodes else (table,)
        if shared == 1 and self._ambiguous_end([stream, *above]):
            return None
        sides: set[bool] = set()
        for root in self._roots:
            ways = self._visits(root, {reader, table})
            if ways is None:
                return None
            targets = [name for i, (_, name) in enumerate(ways) if i == 0 or ways[i - 1][1] != name]
            if len(targets) > 2:
                return None
            if len(targets) == 2:
                sides.add(targets[0] == table)
        return LookupOrder(shared, True in sides) if len(sides) < 2 else None

    def _ambiguous_end(self, names: Sequence[str]) -> bool:
        """Whether rows sent at the end of the epoch come from several of the nodes, so that more than `__o0` counts."""
        return sum(any(self._reaches(held, name) for held in self._held) for name in names) > 1

    def _reaches(self, root: str, name: str) -> bool:
        if name == root:
            return True
        node = self._nodes.get(name)
        if node is None or name in self._held:
            return False
        return any(self._reaches(root, parent) for parent in node.parents)

    def _visits(self, root: str, targets: set[str]) -> list[Edge] | None:
        """The edges into the targets in the order in which a depth-first run takes them, without repeats in a row.

        `None` if there are more than can be followed.
        """
        memo: dict[str, list[Edge]] = {}

        def below(name: str) -> list[Edge]:
            if name not in memo:
                visits: list[Edge] = []
                for child in self._children.get(name, ()):
                    some = [(name, child)] if child in targets else []
                    if child not in self._held:
                        some = some + below(child)
                    visits.extend(some[1:] if visits[-1:] == some[:1] else some)
                memo[name] = visits[: _WAYS_MAX + 1]
            return memo[name]

        visits = below(root)
        return visits if len(visits) <= _WAYS_MAX else None


_WAYS_MAX = 64
_MULTIPLIERS = (
    op.FlatMapValues
    | op.FlatMap
    | op.TableGroupBy
    | op.TableSuppress
    | op.ForeignKeySubscribe
    | op.ForeignKeyFanOut
    | op.StreamSlidingAggregate
    | op.StreamSessionAggregate
    | op.StreamStreamJoin
    | op.StreamSelfJoin
)
"""Operators that can send several rows per row; so can some windowed aggregates."""
_READERS = (
    op.StreamTableJoin
    | op.StreamGlobalTableJoin
    | op.TableJoin
    | op.ForeignKeyLookUp
    | op.ForeignKeySubscribe
    | op.ForeignKeyFanOut
    | op.ForeignKeyResolve
)
"""Operators whose nodes have stores of other nodes' tables, and none of their own that holds back what they send."""


def _own_stores(node: ProcessorNode | SinkNode, stores: Mapping[str, StoreSpec]) -> Sequence[str]:
    if isinstance(node, SinkNode) or isinstance(node.operator, _READERS):
        return ()
    return [name for name in node.stores if name in stores]


def _on_close(node: ProcessorNode | SinkNode) -> bool:
    """Whether the node sends results when windows close, whatever its store's cache."""
    return isinstance(node, ProcessorNode) and isinstance(node.operator, op.WindowedOperator) and node.operator.on_close


def _multiplies(node: ProcessorNode | SinkNode) -> bool:
    """Whether the node can send several rows per row, and so appends an order column."""
    if isinstance(node, SinkNode):
        return False
    if isinstance(node.operator, op.StreamWindowedAggregate):
        windows = node.operator.windows
        return not isinstance(windows, TimeWindows) or windows.advance_ms < windows.size_ms
    return isinstance(node.operator, _MULTIPLIERS)


def _common(sent: Sequence[OrderColumns]) -> int:
    """Length of the beginning that all have in common."""
    shared = 0
    for level in zip(*sent, strict=False):
        if len(set(level)) > 1:
            break
        shared += 1
    return shared
