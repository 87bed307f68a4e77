"""Joins of a stream with a table or a global table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from hayase.compiler.serdes import LocalPickleSerde
from hayase.core.errors import TopologyError
from hayase.dsl import functions
from hayase.dsl.functions import Joiner, KeyFunction
from hayase.dsl.inference import (
    Known,
    concrete_serde,
    key_schema,
    result_schema,
    value_schema,
    visible_columns,
    visible_in_join,
)
from hayase.dsl.options.joined import Joined
from hayase.dsl.stream_state import StreamState, repartitioned_for_join
from hayase.serde import Serdes
from hayase.serde.protocol import Schema
from hayase.state.stores.spec import StoreSpec
from hayase.topology.operators import Fields, InternalSerdes, StreamGlobalTableJoin, StreamTableJoin
from hayase.topology.operators.functions import ValueJoiner

if TYPE_CHECKING:
    from hayase.dsl.ktable import GlobalKTable, KTable


def stream_table(
    state: StreamState, table: KTable, joiner: Joiner, joined: Joined[object, object, object], left: bool
) -> StreamState:
    """Add a stream-table join; the stream it sends."""
    what = "left_join" if left else "join"
    graph = state.graph
    state = replace(
        state,
        key=state.key if joined.key_serde is None else Known(joined.key_serde),
        value=state.value if joined.value_serde is None else Known(joined.value_serde),
    )
    right = table._state.value if joined.other_value_serde is None else Known(joined.other_value_serde)
    check_same_key(state.key, table._state.key, what)
    function, schema = joiner_of(joiner, state.key, state.value, right, what)
    if state.rekeyed:
        if state.key.serde is None:  # the same key must get the same bytes on both sides, so the same partition
            state = replace(state, key=Known(table._state.key.serde, state.key.inferred))
        state = repartitioned_for_join(state, joined.name)
    name = graph.names.name_or_next(joined.name, "KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-")
    view = table._state.view
    stores = view.stores_to_read()
    operator = StreamTableJoin(table._state.node, left, function, schema, as_of=view.history_ms is not None)
    if joined.grace_ms is not None:
        _check_grace(joined.grace_ms, view.history_ms, what)
        operator = _buffered(operator, state, f"{name}-Buffer", joined.grace_ms)
        stores = (*stores, f"{name}-Buffer")
    graph.processor(name, (state.node,), operator, stores)
    return replace(state, node=name, value=Known(None, schema))


def _check_grace(grace_ms: int, history_ms: int | None, what: str) -> None:
    if history_ms is None:
        raise TopologyError(
            "NOT_VERSIONED",
            f"{what} has a grace period, for which the table must be versioned; keep it by "
            "Materialized.as_(Stores.persistent_versioned_key_value_store(…)), or leave the grace period out",
        )
    if history_ms < grace_ms:
        raise TopologyError(
            "HISTORY_TOO_SHORT",
            f"{what} has a grace period of {grace_ms} ms, but the table keeps only {history_ms} ms of history; it "
            "must be as long or longer, or rows are forgotten while records wait for them",
        )


def _buffered(operator: StreamTableJoin, state: StreamState, store: str, grace_ms: int) -> StreamTableJoin:
    serdes = InternalSerdes(
        store,
        concrete_serde(state.key, "key", store),
        concrete_serde(state.value, "value", store, fallback=LocalPickleSerde()),
    )
    state.graph.store(StoreSpec(store, "key_value", Serdes.bytes(), Serdes.bytes(), caching=False))
    return replace(operator, buffer=store, serdes=serdes, grace_ms=grace_ms)


def stream_global(
    state: StreamState,
    table: GlobalKTable,
    key_mapper: KeyFunction,
    joiner: Joiner,
    name: str | None,
    left: bool,
) -> StreamState:
    """Add a join with a global table; the stream it sends."""
    what = "left_join" if left else "join"
    mapper = functions.key_mapper(key_mapper, f"{what} key mapper")
    if isinstance(mapper, pl.Expr):
        mapped = Known(None, key_schema(mapper, visible_columns(state.key, state.value), f"{what} key mapper"))
        check_same_key(mapped, table._state.key, what)
    function, schema = joiner_of(joiner, state.key, state.value, table._state.value, what)
    # Kafka Streams calls inner joins with global tables so as well
    node = state.graph.names.name_or_next(name, "KSTREAM-LEFTJOIN-")
    state.graph.processor(
        node, (state.node,), StreamGlobalTableJoin(table._state.store, left, mapper, function, schema)
    )
    return replace(state, node=node, value=Known(None, schema))


def joiner_of(
    joiner: Joiner, key: Known, left: Known, right: Known, what: str
) -> tuple[ValueJoiner | pl.Expr | Fields, Schema | None]:
    """A joiner and the schema of its results, where it is known."""
    function = functions.joiner(joiner, what)
    if isinstance(function, pl.Expr | tuple):
        return function, value_schema(function, visible_in_join(key, left, right), what)
    return function, result_schema(function)


_OTHER_SIDE = {"stream": "table", "table": "other table", "left stream": "right stream"}


def check_same_key(left: Known, right: Known, what: str, side: str = "stream") -> None:
    """Refuse keys that are known to be of different types: they would never meet.

    Raises:
        TopologyError: `JOIN_KEY_MISMATCH`.
    """
    mine, theirs = left.schema, right.schema
    if mine is None or theirs is None or _alike(mine, theirs):
        return
    raise TopologyError(
        "JOIN_KEY_MISMATCH",
        f"{what}: the {side}'s key is {_shown(mine)}, the {_OTHER_SIDE[side]}'s is {_shown(theirs)}; such keys never "
        "meet. "
        + ("Join by a foreign key instead" if side == "table" else "Make them equal with select_key on the stream"),
    )


def _alike(this: Schema, other: Schema) -> bool:
    if this.bare and other.bare:
        mine, theirs = this.fields[0][1], other.fields[0][1]
        return mine == theirs or (mine.is_integer() and theirs.is_integer()) or pl.Null() in (mine, theirs)
    return this.bare == other.bare and this.names == other.names


def _shown(schema: Schema) -> str:
    if schema.bare:
        return str(schema.fields[0][1])
    return "{" + ", ".join(f"{name}: {dtype}" for name, dtype in schema.fields) + "}"
