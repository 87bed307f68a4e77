"""Joins of two tables by key."""

from __future__ import annotations

from dataclasses import replace

from hayase.dsl.functions import Joiner
from hayase.dsl.inference import Known
from hayase.dsl.joins.joiners import check_same_key, joiner_of
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.table_state import TableState, keeps_store, table_spec
from hayase.dsl.views import JoinView
from hayase.topology.operators import JoinKind, TableJoin, TableJoiner, TableJoinMerge

_MERGE = "KTABLE-MERGE-"


def table_table(
    left: TableState,
    right: TableState,
    joiner: Joiner,
    options: Materialized[object, object] | None,
    name: str | None,
    kind: JoinKind,
) -> TableState:
    """Add the three nodes of a join; the table it sends.

    Raises:
        TopologyError: `JOIN_KEY_MISMATCH`, and what is wrong with the joiner.
    """
    what = {"inner": "join", "left": "left_join", "outer": "outer_join"}[kind]
    check_same_key(left.key, right.key, what, "table")
    function, schema = joiner_of(joiner, left.key, left.value, right.value, what)
    table_joiner = TableJoiner(function, kind, schema)
    graph, store = left.graph, Materialized() if options is None else options
    if options is not None and options.name is None:
        graph.names.next(f"{_MERGE}STATE-STORE-")  # Kafka Streams counts on although there will be no store
    merge = graph.names.name_or_next(name, _MERGE)
    this = graph.names.suffixed_or_next(name, "-join-this", "KTABLE-JOINTHIS-")
    other = graph.names.suffixed_or_next(name, "-join-other", "KTABLE-JOINOTHER-")
    if kind != "inner":
        left.view.send_old_values(force=True)
    if kind == "outer":
        right.view.send_old_values(force=True)
    key = Known(store.key_serde) if store.key_serde else left.key
    value = Known(store.value_serde) if store.value_serde else Known(None, schema)
    spec = table_spec(store, store.name or "", key, value) if keeps_store(store) else None
    # With caches a row that goes on both sides within an epoch is gone on the other side whenever one side's update
    # comes out, so nothing would say that the result is gone.
    left.view.uncache()
    right.view.uncache()
    view = JoinView(graph, spec, left.view, right.view)

    def side(table: TableState, *, is_left: bool) -> TableJoin:
        return TableJoin(table.node, table_joiner, is_left, old_values=view.old_values and view.store is None)

    graph.processor(this, (left.node,), lambda: side(right, is_left=True), right.view.stores_to_read())
    graph.processor(other, (right.node,), lambda: side(left, is_left=False), left.view.stores_to_read())
    graph.table_processor(
        merge, (this, other), lambda parents: TableJoinMerge(left.node, right.node, table_joiner, parents), view
    )
    closes = [table.closes_after_ms for table in (left, right) if table.closes_after_ms is not None]
    return replace(
        left,
        node=merge,
        key=key,
        value=value,
        view=view,
        queryable=store.name,
        closes_after_ms=max(closes) if closes else None,
        late=None,
    )
