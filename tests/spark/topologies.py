"""Topologies that several tests run, and readers in other processes must be able to build."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl

from hayase import (
    Consumed,
    EmitStrategy,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    left,
    max_,
    right,
    sum_,
)

ORDER = {"user": pl.String, "product": pl.String, "amount": pl.Int64}
TEXT, JSON = Serdes.string(), Serdes.json()
WRITTEN = Produced.with_(TEXT, JSON)


def totals(source: str = "in", sink: str = "out") -> Topology:
    """Count and sum per key, in the store `totals`."""
    builder = StreamsBuilder()
    orders = builder.stream(source, Consumed.with_(TEXT, Serdes.json(schema={"amount": pl.Int64})))
    table = orders.group_by_key().agg(Materialized.as_("totals"), n=count(), total=sum_("amount"))
    table.to_stream().to(sink, WRITTEN)
    return builder.build()


def amounts(first: int, last: int, keys: int = 7) -> list[tuple[str, dict[str, int], int]]:
    """Records for `totals`: keys in turn, each record's amount is its number."""
    return [(f"k{i % keys}", {"amount": i}, i) for i in range(first, last)]


def expected(last: int, keys: int = 7) -> dict[str, dict[str, int]]:
    """What `totals` makes of `amounts(0, last)`."""
    found = {f"k{k}": [i for i in range(last) if i % keys == k] for k in range(keys)}
    return {key: {"n": len(given), "total": sum(given)} for key, given in found.items()}


def windows() -> Topology:
    """Count and sum per key and minute with 30 seconds grace, in the store `minutes`."""
    builder = StreamsBuilder()
    orders = builder.stream("in", Consumed.with_(TEXT, Serdes.json(schema={"amount": pl.Int64})))
    windowed = orders.group_by_key().windowed_by(
        TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(seconds=30))
    )
    table = windowed.agg(Materialized.as_("minutes"), n=count(), total=sum_("amount"))
    stream = table.to_stream().select_key(lambda key, _: f"{key.key}@{key.window.start_ms}")
    stream.to("out", WRITTEN)
    return builder.build()


def activity() -> Topology:
    """Sessions of visits (store `sessions`), sliding counts (`near`), clicks and buys in one row (`both`).

    Minutes on close, and late records.
    """
    builder = StreamsBuilder()
    number = Serdes.json()
    clicks = builder.stream("clicks", Consumed.with_(TEXT, number)).group_by_key()
    buys = builder.stream("buys", Consumed.with_(TEXT, number)).group_by_key()
    written = Produced.with_(TEXT, JSON)

    def named(key: Any, _: Any) -> str:
        return f"{key.key}@{key.window.start_ms}-{key.window.end_ms}"

    second = timedelta(seconds=1)
    sessions = clicks.windowed_by(SessionWindows.of_inactivity_gap_and_grace(30 * second, 30 * second))
    table = sessions.aggregate(
        int, lambda k, v, agg: agg + v, lambda k, one, other: one + other, Materialized.as_("sessions")
    )
    table.to_stream().select_key(named).to("sessions", written)
    table.late_records().select_key(named).to("late", written)
    near = clicks.windowed_by(SlidingWindows.of_time_difference_and_grace(20 * second, 60 * second))
    near.count(Materialized.as_("near")).to_stream().select_key(named).to("near", written)
    minutes = clicks.windowed_by(TimeWindows.of_size_with_no_grace(60 * second))
    closed = minutes.emit_strategy(EmitStrategy.on_window_close()).count(Materialized.as_("minutes"))
    closed.to_stream().select_key(named).to("minutes", written)
    both = clicks.cogroup(lambda k, v, agg: {**agg, "clicks": agg.get("clicks", 0) + v})
    both = both.cogroup(buys, lambda k, v, agg: {**agg, "buys": agg.get("buys", 0) + v})
    both.aggregate(dict, Materialized.as_("both")).to_stream().to("both", written)
    return builder.build()


def shop() -> Topology:
    """Orders joined with the table of users and the global table of products, then re-keyed twice: four levels.

    Stores: `users`, `products`, `regions` (per region) and `sizes` (how many regions have as many orders).
    """
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(TEXT, Serdes.json(schema=ORDER)))
    region_type = Serdes.json(schema={"region": pl.String})
    users = builder.table("users", Consumed.with_(TEXT, region_type), Materialized.as_("users"))
    kind_type = Serdes.json(schema={"kind": pl.String})
    products = builder.global_table("products", Consumed.with_(TEXT, kind_type), Materialized.as_("products"))
    with_user = orders.left_join(
        users, {"product": left("product"), "amount": left("amount"), "region": right("region")}
    )
    enriched = with_user.join(
        products,
        pl.col("product"),
        {"region": left("region"), "amount": left("amount"), "kind": right("kind")},
    )
    enriched.to("enriched", WRITTEN)
    known = enriched.filter(pl.col("region").is_not_null())
    regions = known.group_by(pl.col("region"), Grouped.with_(TEXT)).agg(
        Materialized.as_("regions"), n=count(), total=sum_("amount"), top=max_("amount")
    )
    regions.to_stream().to("regions", WRITTEN)
    sizes = (
        regions.to_stream()
        .group_by(pl.col("n").cast(pl.String), Grouped.with_(TEXT))
        .agg(Materialized.as_("sizes"), updates=count())
    )
    sizes.to_stream().to("sizes", WRITTEN)
    return builder.build()


def both_ways() -> Topology:
    """Orders counted by user and, in another sub-topology, by item.

    The sums of both stores are equal after every epoch.
    """
    builder = StreamsBuilder()
    schema = Serdes.json(schema={"item": pl.String, "amount": pl.Int64})
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), schema))
    orders.group_by_key().agg(Materialized.as_("users"), n=count())
    orders.select_key(pl.col("item")).group_by_key().agg(Materialized.as_("items"), n=count())
    return builder.build()
