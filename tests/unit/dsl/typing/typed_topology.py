"""What type checkers make of the DSL; checked by mypy in test_typing.py, never run.

`assert_type` says what a call gives. A line with `type: ignore` must be an error, of that code: an ignore that nothing
needs is an error itself.
"""

# mypy: disable-error-code="empty-body"

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Never, assert_type

import polars as pl

from hayase import (
    BufferConfig,
    CogroupedKStream,
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    GlobalKTable,
    Grouped,
    Joined,
    JoinWindows,
    JsonSchemaSerde,
    JsonSerde,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Repartitioned,
    Serde,
    Serdes,
    SessionWindowedKStream,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindowedKStream,
    TimeWindows,
    ValueTransformerWithKey,
    Windowed,
    count,
    left,
    right,
    sum_,
)
from hayase.testing import TopologyTestDriver


@dataclass
class Order:
    user: str
    amount: int


@dataclass
class User:
    city: str


text, number, order, user = Serdes.string(), Serdes.long(), JsonSerde(Order), Serdes.json(User)
minute = timedelta(minutes=1)
windows = TimeWindows.of_size_with_no_grace(minute)
near = JoinWindows.of_time_difference_with_no_grace(minute)


def serdes() -> None:
    assert_type(order, JsonSerde[Order])
    assert_type(user, JsonSerde[User])
    assert_type(JsonSerde(), JsonSerde[Any])
    assert_type(JsonSerde(schema={"a": pl.Int64}), JsonSerde[dict[str, Any]])
    assert_type(Serdes.json(schema={"a": pl.Int64}), JsonSerde[dict[str, Any]])
    assert_type(JsonSerde(list[int]), JsonSerde[list[int]])
    assert_type(Serdes.list(number).deserialize(b""), list[int] | None)
    assert_type(JsonSchemaSerde(Order), JsonSchemaSerde[Order])
    assert_type(JsonSchemaSerde({"type": "object"}), JsonSchemaSerde[Any])
    assert_type(order.deserialize(b""), Order | None)
    order.serialize(User("Oslo"))  # type: ignore[arg-type]
    _: Serde[str] = text
    _wrong: Serde[int] = text  # type: ignore[assignment]


def options() -> None:
    assert_type(Consumed.with_(text, order), Consumed[str, Order])
    assert_type(Consumed.with_(text), Consumed[str, Any])
    assert_type(Consumed.as_("orders"), Consumed[Any, Any])
    assert_type(Consumed.as_("orders").with_value_serde(order), Consumed[Any, Order])
    assert_type(Consumed.with_(text, order).with_name("orders"), Consumed[str, Order])
    assert_type(Materialized.as_("store"), Materialized[Never, Never])
    assert_type(Materialized.as_("store").with_key_serde(text).with_value_serde(order), Materialized[str, Order])
    assert_type(Materialized.with_(text, order).with_caching_disabled(), Materialized[str, Order])
    assert_type(Joined.with_(text, order).with_other_value_serde(user), Joined[str, Order, User])
    Consumed.with_("string")  # type: ignore[arg-type]


def streams(builder: StreamsBuilder) -> None:
    orders = builder.stream("orders", Consumed.with_(text, order))
    assert_type(orders, KStream[str, Order])
    assert_type(builder.stream("orders"), KStream[Any, Any])
    assert_type(builder.stream(re.compile("o.*"), Consumed.as_("all")), KStream[Any, Any])

    assert_type(orders.filter(lambda user, order: order.amount > 0), KStream[str, Order])
    assert_type(orders.filter_not(pl.col("amount") > 0), KStream[str, Order])
    orders.filter(lambda user, order: order.amont > 0)  # type: ignore[attr-defined]

    assert_type(orders.map_values(lambda order: order.amount), KStream[str, int])
    assert_type(orders.map_values(lambda user, order: (user, order.amount)), KStream[str, tuple[str, int]])
    assert_type(orders.map_values(pl.col("amount") * 2), KStream[str, Any])
    assert_type(orders.map_values("amount"), KStream[str, Any])
    assert_type(orders.map_values({"total": "amount"}), KStream[str, Any])
    assert_type(orders.map_values(str), KStream[str, str])
    orders.map_values(lambda order: order.price)  # type: ignore[attr-defined]

    assert_type(orders.map(lambda user, order: (order.amount, user)), KStream[int, str])
    assert_type(orders.map(key=pl.col("amount"), value="user"), KStream[Any, Any])
    assert_type(orders.select_key(lambda user, order: order.amount), KStream[int, Order])
    assert_type(orders.select_key("amount"), KStream[Any, Order])
    assert_type(orders.flat_map_values(lambda order: [order.user, "all"]), KStream[str, str])
    assert_type(orders.flat_map_values(pl.col("lines")), KStream[str, Any])
    assert_type(orders.flat_map(lambda user, order: [(order.amount, user)]), KStream[int, str])
    assert_type(orders.flat_map(pairs), KStream[int, bool])
    assert_type(orders.peek(lambda user, order: print(user, order.amount)), KStream[str, Order])
    assert_type(orders.repartition(Repartitioned.as_("orders")), KStream[str, Order])
    assert_type(orders.merge(builder.stream("more", Consumed.with_(text, order))), KStream[str, Order])
    orders.merge(builder.stream("users", Consumed.with_(text, user)))  # type: ignore[arg-type]

    branches = orders.split().branch(lambda user, order: order.amount > 10).default_branch()
    assert_type(branches, dict[str, KStream[str, Order]])

    orders.to("out", Produced.with_(text, order))
    orders.to("out", Produced.with_(text))
    orders.to(lambda user, order, context: f"{context.topic}-{order.user}", Produced.as_("sink"))
    orders.to("out", Produced.with_(text, number))  # type: ignore[arg-type]
    assert_type(orders.to_table(Materialized.as_("latest")), KTable[str, Order])


def pairs(user: str, order: Order) -> Iterator[tuple[int, bool]]:
    yield order.amount, True


def groups(orders: KStream[str, Order]) -> None:
    by_user = orders.group_by_key()
    assert_type(by_user, KGroupedStream[str, Order])
    assert_type(orders.group_by(lambda user, order: order.amount), KGroupedStream[int, Order])
    assert_type(orders.group_by(lambda user, order: order.amount, Grouped.as_("amounts")), KGroupedStream[int, Order])
    assert_type(orders.group_by("amount"), KGroupedStream[Any, Order])
    assert_type(orders.group_by("amount", Grouped.as_("amounts")), KGroupedStream[Any, Order])
    assert_type(orders.group_by("amount", Grouped.with_(number)), KGroupedStream[int, Order])
    orders.group_by(lambda user, order: user, Grouped.with_(number))  # type: ignore[arg-type, return-value]
    orders.group_by_key(Grouped.with_(number))  # type: ignore[arg-type]

    assert_type(by_user.count(), KTable[str, int])
    assert_type(by_user.count(Materialized.as_("counts")), KTable[str, int])
    by_user.count(Materialized.with_(text, text))  # type: ignore[arg-type]
    assert_type(by_user.reduce(lambda a, b: a if a.amount > b.amount else b), KTable[str, Order])
    by_user.reduce(lambda a, b: a.amount)  # type: ignore[arg-type, return-value]
    assert_type(by_user.aggregate(lambda: 0, lambda user, order, total: total + order.amount), KTable[str, int])
    assert_type(
        by_user.aggregate(lambda: 0, lambda user, order, total: total + order.amount, Materialized.as_("sums")),
        KTable[str, int],
    )
    assert_type(by_user.aggregate(list, collect, Materialized.with_(text, Serdes.list(number))), KTable[str, list[int]])
    by_user.aggregate(list, collect, Materialized.with_(text, text))  # type: ignore[arg-type]
    assert_type(by_user.agg(n=count(), revenue=sum_("amount")), KTable[str, dict[str, Any]])


def collect(user: str, order: Order, amounts: list[int]) -> list[int]:
    return [*amounts, order.amount]


def windowed(orders: KStream[str, Order]) -> None:
    grouped = orders.group_by_key()
    assert_type(grouped.windowed_by(windows), TimeWindowedKStream[str, Order])
    counts = grouped.windowed_by(windows).count(Materialized.with_(text, number))
    assert_type(counts, KTable[Windowed[str], int])
    assert_type(counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())), KTable[Windowed[str], int])
    assert_type(counts.to_stream(), KStream[Windowed[str], int])
    assert_type(counts.to_stream(lambda window, n: window.key), KStream[str, int])
    assert_type(counts.to_stream(lambda window, n: window.window.start_ms), KStream[int, int])
    assert_type(counts.late_records(), KStream[Windowed[str], Any])
    assert_type(grouped.windowed_by(windows).aggregate(list, collect), KTable[Windowed[str], list[int]])
    sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(minute))
    assert_type(sessions, SessionWindowedKStream[str, Order])
    sums = sessions.aggregate(lambda: 0, lambda user, order, total: total + order.amount, lambda user, a, b: a + b)
    assert_type(sums, KTable[Windowed[str], int])
    assert_type(grouped.cogroup(collect), CogroupedKStream[str, list[int]])
    assert_type(grouped.cogroup(collect).aggregate(list), KTable[str, list[int]])
    assert_type(grouped.cogroup(collect).windowed_by(windows).aggregate(list), KTable[Windowed[str], list[int]])


def tables(builder: StreamsBuilder) -> None:
    orders = builder.table("orders", Consumed.with_(text, order), Materialized.as_("orders"))
    assert_type(orders, KTable[str, Order])
    assert_type(builder.table("any"), KTable[Any, Any])
    assert_type(builder.table("any", materialized=Materialized.as_("any")), KTable[Any, Any])
    assert_type(builder.table("typed", materialized=Materialized.with_(text, user)), KTable[str, User])
    builder.table("orders", Consumed.with_(text, order), Materialized.with_(text, number))  # type: ignore[arg-type]

    assert_type(orders.filter(lambda key, order: order.amount > 0), KTable[str, Order])
    assert_type(orders.map_values(lambda order: order.amount, Materialized.as_("amounts")), KTable[str, int])
    assert_type(orders.map_values(lambda key, order: order.user or None), KTable[str, str])
    assert_type(orders.map_values("amount"), KTable[str, Any])
    assert_type(orders.map_values("amount", Materialized.with_(text, number)), KTable[str, int])
    by_user = orders.group_by(lambda key, order: (order.user, order.amount))
    assert_type(by_user, KGroupedTable[str, int])
    assert_type(by_user.count(), KTable[str, int])
    assert_type(by_user.reduce(lambda total, n: total + n, lambda total, n: total - n), KTable[str, int])
    assert_type(
        by_user.aggregate(float, lambda u, n, total: total + n, lambda u, n, total: total - n), KTable[str, float]
    )
    assert_type(orders.group_by("user"), KGroupedTable[Any, Order])
    assert_type(orders.group_by("user", Grouped.with_(text)), KGroupedTable[str, Order])
    assert_type(orders.group_by(key=pl.col("user"), value=pl.col("amount")), KGroupedTable[Any, Any])
    assert_type(orders.to_stream("user"), KStream[Any, Order])


def joins(builder: StreamsBuilder, orders: KStream[str, Order]) -> None:
    users = builder.table("users", Consumed.with_(text, user))
    everyone = builder.global_table("everyone", Consumed.with_(number, user))
    assert_type(everyone, GlobalKTable[int, User])

    assert_type(orders.join(users, lambda order, user: (order.amount, user.city)), KStream[str, tuple[int, str]])
    assert_type(orders.join(users, lambda key, order, user: key + user.city), KStream[str, str])
    assert_type(orders.join(users, {"city": right("city")}), KStream[str, Any])
    assert_type(orders.join(users, named, Joined.with_(text, order, user)), KStream[str, str])
    orders.join(users, named, Joined.with_(text, order, number))  # type: ignore[misc]
    orders.left_join(users, named)  # type: ignore[arg-type] # the user may be None
    assert_type(orders.left_join(users, lambda order, user: user.city if user else None), KStream[str, str | None])

    assert_type(orders.join(everyone, lambda key, order: order.amount, lambda o, u: u.city), KStream[str, str])
    assert_type(orders.join(everyone, "amount", lambda order, user: user.city), KStream[str, str])
    assert_type(orders.left_join(everyone, "amount", {"city": right("city")}), KStream[str, Any])

    assert_type(orders.join(orders, lambda a, b: a.amount + b.amount, near), KStream[str, int])
    assert_type(orders.join(orders, {"a": left("amount")}, near, StreamJoined.as_("self")), KStream[str, Any])
    assert_type(orders.outer_join(orders, lambda a, b: (a or b) is a, near), KStream[str, bool])
    orders.join(orders, lambda a, b: a, windows)  # type: ignore[call-overload]

    by_order = builder.table("orders-by-id", Consumed.with_(number, order))
    assert_type(by_order.join(by_order, lambda a, b: a.amount - b.amount), KTable[int, int])
    assert_type(by_order.outer_join(by_order, lambda a, b: a or b), KTable[int, Order])
    assert_type(by_order.join(by_order, {"a": left("amount")}), KTable[int, Any])
    assert_type(by_order.join(users, lambda order: order.user, named), KTable[int, str])
    assert_type(by_order.join(users, "user", lambda order, user: user.city), KTable[int, str])
    assert_type(by_order.left_join(users, "user", lambda order, user: user.city if user else None), KTable[int, str])
    by_order.join(users, lambda order: order.amount, named)  # type: ignore[arg-type, return-value] # users have text as key
    by_order.join(users, named)  # type: ignore[arg-type] # other keys


def named(order: Order, user: User) -> str:
    return f"{order.amount} of {user.city}"


class Sums(Processor[str, Order, str, int]):
    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, record: Record[str, Order]) -> None:
        self.context.forward(record.with_value(record.value.amount))


class Cities(FixedKeyProcessor[str, Order, str]):
    def process(self, record: FixedKeyRecord[str, Order]) -> None: ...


class Untyped(Processor):
    def process(self, record: Record) -> None: ...


class Amounts(ValueTransformerWithKey[str, Order, int]):
    def transform(self, key: str, value: Order | None) -> int | None: ...


def processors(orders: KStream[str, Order], table: KTable[str, Order], users: KStream[str, User]) -> None:
    assert_type(orders.process(Sums), KStream[str, int])
    assert_type(orders.process_values(Cities), KStream[str, str])
    assert_type(orders.process(Untyped), KStream[Any, Any])
    assert_type(table.transform_values(Amounts), KTable[str, int])
    users.process(Sums)  # type: ignore[arg-type]


def tested(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("orders", text, order).pipe_input("7", Order("ada", 1))
    driver.create_input_topic("orders", text, order).pipe_input("7", "ada")  # type: ignore[arg-type]
    assert_type(driver.create_output_topic("sums", text, number).read_key_values_to_list(), list[tuple[str, int]])
