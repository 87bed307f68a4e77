"""Foreign-key joins of two tables (KIP-213).

The left table's tasks send a subscription to the task that holds the right row; that one keeps it, answers with the row
as it is, and again whenever the row changes. Subscriptions cross a shuffle, in the same epoch; answers come back
through an internal topic, because they lead into tasks that have completed this epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import polars as pl

from hayase.core.errors import TopologyError
from hayase.dsl import functions
from hayase.dsl.functions import Joiner, ValueFunction
from hayase.dsl.inference import Known, concrete_serde, key_schema, visible_columns
from hayase.dsl.joins.joiners import check_same_key, joiner_of
from hayase.dsl.options.joined import KeyPartitioner, TableJoined
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.table_state import TableState, table_spec
from hayase.dsl.views import TableMaterialization
from hayase.serde import JsonSerde, Serdes
from hayase.serde.plain import PlainSerde
from hayase.serde.subscription_columns import PARTITION
from hayase.serde.subscriptions import Answer, AnswerSerde, CombinedKeySerde, SubscriptionSerde
from hayase.state.stores.spec import StoreSpec
from hayase.topology.operators import (
    ForeignKeyFanOut,
    ForeignKeyLookUp,
    ForeignKeyReceive,
    ForeignKeyResolve,
    ForeignKeySubscribe,
    InternalSerdes,
    TableSource,
)
from hayase.topology.operators.functions import KeyValueMapper

_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
_OUTPUT = "KTABLE-FK-JOIN-OUTPUT-"
_ASKED_ROWS = "KTABLE-FK-JOIN-ASKED-ROWS-STATE-STORE-"
_SINK, _SOURCE = "KTABLE-SINK-", "KTABLE-SOURCE-"


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of everything a join is made of, made in Kafka Streams' order."""

    subscriptions: str
    subscribe: str
    subscription_sink: str
    subscription_source: str
    store: str
    receive: str
    look_up: str
    fan_out: str
    answers: str
    answer_sink: str
    answer_source: str
    resolve: str
    output: str
    output_store: str
    asked_rows: str

    @classmethod
    def of(cls, state: TableState, name: str | None, store: str | None) -> _Names:
        names = state.graph.names

        def name_of(suffix: str, prefix: str) -> str:
            return names.suffixed_or_next(name, suffix, prefix)

        made = (
            name_of("-subscription-registration", _REGISTRATION) + "-topic",
            name_of("-subscription-registration-processor", _REGISTRATION),
            name_of("-subscription-registration-sink", _SINK),
            name_of("-subscription-registration-source", _SOURCE),
            name_of("-subscription-store", "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-"),
            name_of("-subscription-receive", _PROCESSOR),
            name_of("-subscription-join-foreign", _PROCESSOR),
            name_of("-foreign-join-subscription", _PROCESSOR),
            name_of("-subscription-response", _RESPONSE) + "-topic",
            name_of("-subscription-response-sink", _SINK),
            name_of("-subscription-response-source", _SOURCE),
            name_of("-subscription-response-resolver", "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
            name_of("-result", _OUTPUT),
            store or names.next(f"{_OUTPUT}STATE-STORE-"),
        )
        # Kafka Streams has no such store: its name takes no number.
        return cls(*made, f"{name}-asked-rows" if name else f"{_ASKED_ROWS}{made[1][-10:]}")


@dataclass(frozen=True, slots=True)
class _KeyPartitioner:
    """A partitioner of `TableJoined`, which is shown no values."""

    function: KeyPartitioner

    def __call__(self, topic: str, key: object, value: object, partitions: int) -> int | Collection[int] | None:
        return self.function(topic, key, None, partitions)


@dataclass(frozen=True, slots=True)
class _ToAsker:
    """Answers go back to the task that holds the left row."""

    @property
    def in_columns(self) -> pl.Expr:
        """The same as an expression; see `hayase.task.routing`."""
        return pl.col(PARTITION)

    def __call__(self, topic: str, key: object, value: Answer, partitions: int) -> int:
        return value.partition


def foreign_key_join(
    left: TableState,
    right: TableState,
    extractor: ValueFunction,
    joiner: Joiner,
    joined: TableJoined,
    materialized: Materialized[object, object],
    *,
    is_left: bool,
) -> TableState:
    """Add the nodes of a foreign-key join; the table it sends.

    Raises:
        TopologyError: `JOIN_KEY_MISMATCH`, and what is wrong with the functions.
    """
    what = "left_join" if is_left else "join"
    extract, foreign = _extractor(left, right, extractor, what)
    function, schema = joiner_of(joiner, left.key, left.value, right.value, what)
    graph = left.graph
    names = _Names.of(left, joined.name, materialized.name)
    left_key = concrete_serde(left.key, "key", names.subscribe)
    foreign_key = concrete_serde(foreign, "key", names.subscribe)
    digested = concrete_serde(left.value, "value", names.subscribe, fallback=JsonSerde())
    right_value = concrete_serde(right.value, "value", names.answers, fallback=PlainSerde())
    right.view.send_old_values(force=True)
    left.view.send_old_values(force=True)
    # A subscription is answered with the row as it is at that moment. With a cache a row that is made and deleted in
    # the epoch is never passed on, so nothing would say that the answer is gone.
    right.view.uncache()

    graph.store(StoreSpec(names.asked_rows, "key_value", left_key, Serdes.bytes(), caching=False, internal=True))
    serdes = InternalSerdes(names.subscriptions, foreign_key, digested)
    subscribe = ForeignKeySubscribe(extract, is_left, serdes, names.asked_rows)
    graph.processor(names.subscribe, (left.node,), subscribe, (names.asked_rows,))
    subscription = SubscriptionSerde(left_key)
    source = graph.table_repartition(
        names.subscribe,
        (names.subscriptions, names.subscription_sink, names.subscription_source),
        (foreign_key, subscription),
        None if joined.other_partitioner is None else _KeyPartitioner(joined.other_partitioner),
    )
    pairs = CombinedKeySerde(foreign_key, left_key)
    graph.store(StoreSpec(names.store, "timestamped_key_value", pairs, subscription, caching=False))
    graph.processor(names.receive, (source,), ForeignKeyReceive(names.store), (names.store,))
    graph.processor(names.look_up, (names.receive,), ForeignKeyLookUp(right.node), right.view.stores_to_read())
    graph.processor(names.fan_out, (right.node,), ForeignKeyFanOut(names.store), (names.store,))
    answers = graph.internal_table_topic(
        (names.look_up, names.fan_out),
        (names.answers, names.answer_sink, names.answer_source),
        (left_key, AnswerSerde(right_value)),
        _ToAsker() if joined.partitioner is None else _KeyPartitioner(joined.partitioner),
    )
    serdes = InternalSerdes(names.subscriptions, left_key, digested)
    resolve = ForeignKeyResolve(left.node, is_left, function, serdes, schema, names.asked_rows)
    graph.processor(names.resolve, (answers,), resolve, (*left.view.stores_to_read(), names.asked_rows))

    key = Known(materialized.key_serde) if materialized.key_serde else left.key
    value = Known(materialized.value_serde) if materialized.value_serde else Known(None, schema)
    spec = table_spec(materialized, names.output_store, key, value)
    view = TableMaterialization(graph, spec, None, keep=materialized.name is not None)
    graph.table_processor(names.output, names.resolve, TableSource, view)
    return replace(
        left,
        node=names.output,
        key=key,
        value=value,
        view=view,
        queryable=materialized.name,
        closes_after_ms=None,
        late=None,
    )


def _extractor(
    left: TableState, right: TableState, extractor: ValueFunction, what: str
) -> tuple[KeyValueMapper | pl.Expr, Known]:
    """The function that gives foreign keys, and what is known about these: they are keys of the right table."""
    if isinstance(extractor, pl.Expr | str | list | tuple | Mapping):
        function = functions.key_mapper(extractor, f"{what} foreign key")
        assert isinstance(function, pl.Expr)
        key_fields = key_schema(function, visible_columns(left.key, left.value), f"{what} foreign key")
        check_same_key(Known(None, key_fields), right.key, f"{what}, the foreign key", "table")
        return function, right.key
    mapper = functions.value_function(extractor, f"{what} foreign key")
    if right.key.serde is None and right.key.inferred is None:
        raise TopologyError(
            "UNKNOWN_SERDE",
            f"{what}: no serde is known for the keys of the other table, so none for the foreign keys; give that table "
            "one by Consumed, Grouped or Materialized",
        )
    return mapper, right.key
