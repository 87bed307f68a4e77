"""`suppress`: the node that holds updates of a table back."""

from __future__ import annotations

import dataclasses

from hayase.compiler.serdes import LocalPickleSerde
from hayase.core.errors import TopologyError
from hayase.dsl.inference import concrete_serde
from hayase.dsl.options.suppressed import Suppressed
from hayase.dsl.table_state import TableState
from hayase.dsl.views import SuppressView
from hayase.serde import Serdes
from hayase.state.stores.spec import StoreSpec
from hayase.topology.operators import InternalSerdes, TableSuppress

_PREFIX = "KTABLE-SUPPRESS-"


def suppress(state: TableState, suppressed: Suppressed) -> TableState:
    """Add the node that holds updates back; the table it sends.

    Raises:
        TopologyError: `NOT_WINDOWED`: windows are to close, and there are none. `VERSIONED_TABLE`.
    """
    graph, buffer, wait_ms = state.graph, suppressed.buffer, suppressed.limit_ms
    if state.view.history_ms is not None:
        raise TopologyError(
            "VERSIONED_TABLE",
            "suppress is for tables that are not versioned, as of this one updates of other times are passed on as "
            "well; keep it "
            "in a store that is not versioned, or suppress what is made of it by an aggregation or a join",
        )
    closes = wait_ms is None
    if wait_ms is None:
        wait_ms = state.closes_after_ms
    if wait_ms is None:
        raise TopologyError(
            "NOT_WINDOWED",
            "until_window_closes is for tables of windows, made by windowed_by(…) and an aggregation; for this table "
            "use "
            "until_time_limit",
        )
    node = suppressed.name or graph.names.next(_PREFIX)
    store = f"{suppressed.name}-store" if suppressed.name else graph.names.next(f"{_PREFIX}STATE-STORE-")
    serdes = InternalSerdes(
        store,
        concrete_serde(state.key, "key", store),
        concrete_serde(state.value, "value", store, fallback=LocalPickleSerde()),
    )
    state.view.send_old_values(force=True)
    graph.store(StoreSpec(store, "key_value", Serdes.bytes(), Serdes.bytes(), caching=False))
    view = SuppressView(graph, state.view, store)

    def make_operator() -> TableSuppress:
        return TableSuppress(
            store, serdes, wait_ms, closes, buffer.records, buffer.size_bytes, buffer.when_full, view.old_values
        )

    graph.processor(node, (state.node,), make_operator, (store,))
    return dataclasses.replace(state, node=node, view=view, queryable=None, late=None)
