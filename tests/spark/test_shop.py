"""Joins, a global table and two shuffles on Spark: both forms, and the test driver, have the same result."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from tests.spark.place import Place, Row, store_rows
from tests.spark.topologies import shop, windows

from hayase import Serdes, StreamsApp
from hayase.core.records import Window, Windowed
from hayase.testing import TopologyTestDriver

REGIONS = ("north", "south", "west")
TOPICS = {"orders": 3, "users": 3, "products": 2, "enriched": 2, "regions": 2, "sizes": 1}


def given() -> dict[str, list[tuple[str, Any, int]]]:
    """Users and products before orders; some users unknown, one product deleted again."""
    rng = random.Random(7)
    users = [(f"u{i}", {"region": rng.choice(REGIONS)}, i) for i in range(20)]
    users += [("u3", {"region": "west"}, 2_000), ("u4", None, 2_500)]
    products = [(f"p{i}", {"kind": f"kind{i % 2}"}, i) for i in range(6)] + [("p5", None, 10)]
    orders = [
        (f"u{rng.randrange(24)}", {"user": "", "product": f"p{rng.randrange(7)}", "amount": rng.randrange(90)}, at)
        for at in range(1_000, 4_000, 25)
    ]
    return {"products": products, "users": users, "orders": orders}


def run_shop(place: Place, application_id: str, **settings: Any) -> StreamsApp:
    return place.run(shop(), application_id=application_id, statestore_cache_max_bytes=0, **settings)


def make_topics(place: Place) -> None:
    for name, partitions in TOPICS.items():
        place.topic(name, partitions)
    for topic, rows in given().items():
        place.put(topic, rows)


def expected_regions() -> dict[str, dict[str, int]]:
    """By hand, without any of the code under test."""
    rows = given()
    kinds = {f"p{i}" for i in range(5)}
    found: dict[str, list[int]] = {}
    for user, order, at in rows["orders"]:
        known = [value for key, value, time in rows["users"] if key == user and time <= at]
        if order["product"] in kinds and known and known[-1] is not None:
            found.setdefault(known[-1]["region"], []).append(order["amount"])
    return {region: {"n": len(a), "total": sum(a), "top": max(a)} for region, a in found.items()}


def test_joins_shuffles_and_a_global_table_give_what_a_loop_over_the_input_gives(place: Place) -> None:
    make_topics(place)
    app = run_shop(place, "shop")
    assert place.last("regions") == store_rows(app, "regions") == expected_regions()
    assert store_rows(app, "users")["u3"] == {"region": "west"}
    assert "u4" not in store_rows(app, "users")
    assert set(store_rows(app, "products")) == {f"p{i}" for i in range(5)}
    assert app.store("products").get("p1").value == {"kind": "kind1"}
    sizes = store_rows(app, "sizes")
    most = max(row["n"] for row in expected_regions().values())
    assert set(sizes) == {str(n) for n in range(1, most + 1)}
    assert sum(row["updates"] for row in sizes.values()) == sum(row["n"] for row in expected_regions().values())


def by_key(rows: list[Row]) -> dict[str | None, list[Row]]:
    """What one task wrote stays in order; of several tasks that write one partition which is first is not defined."""
    found: dict[str | None, list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found


def test_rows_and_columns_write_the_same_records_in_the_same_order(place: Place) -> None:
    make_topics(place)
    seen: list[dict[str, list[dict[str | None, list[Row]]]]] = []
    stores = []
    written: dict[str, int] = {}
    for form in ("rows", "columns"):
        app = run_shop(place, form, processing_form=form)
        stores.append({name: app.store(name).all().rows for name in ("users", "products", "regions", "sizes")})
        found = {topic: place.partitions(topic) for topic in ("enriched", "regions", "sizes")}
        new = {
            topic: [by_key(rows[written.get(f"{topic}{number}", 0) :]) for number, rows in enumerate(partitions)]
            for topic, partitions in found.items()
        }
        for topic, partitions in found.items():
            written |= {f"{topic}{number}": len(rows) for number, rows in enumerate(partitions)}
        seen.append(new)
    assert seen[0] == seen[1]
    assert stores[0] == stores[1]
    assert any(seen[0]["sizes"])


def test_spark_leaves_the_stores_that_the_test_driver_leaves(place: Place) -> None:
    make_topics(place)
    app = run_shop(place, "shop", num_stream_threads=1, num_bundles=1)
    with TopologyTestDriver(shop(), {"statestore.cache.max.bytes": 0}) as driver:
        text, json = Serdes.string(), Serdes.json()
        topics = {name: driver.create_input_topic(name, text, json) for name in ("products", "users", "orders")}
        rows = given()
        merged = sorted(
            ((at, position, name, key, value) for position, name in enumerate(topics) for key, value, at in rows[name]),
            key=lambda row: row[:2],
        )
        for at, _, name, key, value in merged:
            topics[name].pipe_input(key, value, at)
        for name in ("users", "products", "regions"):
            assert store_rows(app, name) == {key: value.value for key, value in driver.store(name).all()}, name


def test_other_thread_counts_small_epochs_and_restarts_come_to_the_same(place: Place) -> None:
    make_topics(place)
    for threads, most in ((2, 20), (1, 35), (4, 1_000)):
        app = place.run(shop(), num_stream_threads=threads, max_records_per_epoch=most)
    assert store_rows(app, "regions") == place.last("regions") == expected_regions()


def test_windows_close_with_their_grace_and_late_records_are_counted(place: Place) -> None:
    place.topic("in", 1), place.topic("out")
    minute = 60_000
    place.put("in", [("a", {"amount": 1}, 0), ("a", {"amount": 2}, 59_999), ("b", {"amount": 5}, minute)])
    place.put("in", [("a", {"amount": 10}, 30_000)])  # within the grace
    place.put(
        "in", [("b", {"amount": 6}, minute + 30_000), ("a", {"amount": 100}, 59_999)]
    )  # the window has just closed
    app = place.run(windows(), max_records_per_epoch=2)
    assert app.progress().late == 1
    assert place.last("out") == {"a@0": {"n": 3, "total": 13}, f"b@{minute}": {"n": 2, "total": 11}}
    store = app.store("minutes")
    key = Windowed("a", Window(0, minute))
    assert [(row.key, row.value) for row in store.fetch("a", 0, minute)] == [(key, {"n": 3, "total": 13})]
    at = datetime.fromtimestamp(60, UTC)
    assert [row.value for row in store.fetch("b", at)] == [{"n": 2, "total": 11}]
    assert [row.key.key for row in store.fetch_all(0, 10 * minute)] == ["a", "b"]
