"""Topics that an application chooses, finds or makes itself, on Spark: internal topics, patterns, dynamic sinks."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest
from tests.spark.place import Place, error_of, until
from tests.spark.topologies import JSON, TEXT, WRITTEN

from hayase import (
    AutoOffsetReset,
    Consumed,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    State,
    StreamsBuilder,
    Topology,
)
from hayase.app.reset import reset_application
from hayase.core.config import StreamsConfig
from hayase.core.errors import TopologyError, UnknownTopicError
from hayase.core.records import TopicPartition

ORDERS = Consumed.with_(TEXT, Serdes.json(schema={"region": pl.String, "amount": pl.Int64}))
TOPIC = "app-by-region-repartition"


def order(region: str | None, amount: int = 1) -> dict[str, Any]:
    return {"region": region, "amount": amount}


def through_a_topic(partitions: int | None = 3, prefix: str = "") -> Topology:
    builder = StreamsBuilder()
    options = Repartitioned.as_("by-region")
    if partitions is not None:
        options = options.with_number_of_partitions(partitions)
    keyed = builder.stream(prefix + "in", ORDERS).select_key(pl.col("region")).repartition(options)
    counts = keyed.group_by_key().count(Materialized.as_("regions"))
    counts.to_stream().to(prefix + "out", Produced.with_(TEXT, Serdes.long()))
    return builder.build()


def numbers(place: Place, topic: str = "out") -> dict[str | None, int]:
    return {row.key: int.from_bytes(row.value, "big") for row in place.rows(topic)}


def test_a_repartition_that_is_asked_for_is_a_topic_that_a_later_epoch_reads(place: Place) -> None:
    place.topic("in", 2), place.topic("out", 1)
    place.put("in", [(f"k{i}", order(f"r{i % 4}"), i) for i in range(40)] + [("k", order(None), 50)])
    app = place.run(through_a_topic())
    assert numbers(place) == {f"r{i}": 10 for i in range(4)}
    between = place.partitions(TOPIC)
    assert len(between) == 3
    assert sum(map(len, between)) == 40  # not the record without a key
    assert all(len({row.key for row in part} & {row.key for row in other}) == 0
               for part in between for other in between if part is not other)  # fmt: skip
    assert app.progress().consumed == 41
    assert app.store("regions").get("r1").value == 10
    place.put("in", [("k", order("r1"), 60)])
    place.run(through_a_topic())
    assert numbers(place)["r1"] == 11


@pytest.mark.kafka
def test_on_kafka_a_run_to_the_end_reads_what_its_own_epochs_wrote(kafka_place: Place) -> None:
    place = kafka_place
    place.topic("in", 2), place.topic("out", 1)
    for run in range(1, 4):
        place.put("in", [(f"k{i}", order(f"r{i % 4}"), i) for i in range(8)])
        place.run(through_a_topic(prefix=place.prefix), repartition_purge_interval_ms=0)
        assert numbers(place) == {f"r{i}": 2 * run for i in range(4)}
    between = [TopicPartition(f"{place.application_id}-by-region-repartition", number) for number in range(3)]
    assert sum(place.log.start_offsets(between).values()) > 0  # processed records were deleted


def test_an_internal_topic_is_made_once_and_reset_removes_it(place: Place) -> None:
    place.topic("in", 2), place.topic("out", 1)
    place.put("in", [("k", order("r"), 0)])
    place.run(through_a_topic())
    assert error_of(lambda: place.run(through_a_topic(4))).condition == "INTERNAL_TOPIC_DIFFERS"
    reset_application(StreamsConfig(place.settings()), place.log)
    assert place.log.topics() == ["in", "out"]
    place.run(through_a_topic(4))
    assert numbers(place) == {"r": 1}
    assert place.log.describe([TOPIC])[TOPIC].partitions == 4


def test_what_is_in_an_internal_topic_before_the_first_epoch_is_not_read(place: Place) -> None:
    place.topic("in", 1), place.topic("out", 1), place.topic(TOPIC, 3)
    place.put(TOPIC, [("r", order("r"), 0)])
    place.put("in", [("k", order("r"), 5)])
    place.run(through_a_topic())
    assert numbers(place) == {"r": 1}


def test_a_stream_of_several_topics_is_merged_by_time(place: Place) -> None:
    place.topic("a", 1), place.topic("b", 1), place.topic("out", 1)
    place.put("a", [("k", order("r", 1), 10), ("k", order("r", 3), 30)])
    place.put("b", [("k", order("r", 2), 20), ("k", order("r", 4), 40)])
    builder = StreamsBuilder()
    builder.stream(["a", "b"], ORDERS).to("out", WRITTEN)
    place.run(builder.build())
    assert [row.value["amount"] for row in place.rows("out")] == [1, 2, 3, 4]


def matching() -> Topology:
    builder = StreamsBuilder()
    table = builder.stream(re.compile("in-.*"), ORDERS).group_by_key().count(Materialized.as_("counts"))
    table.to_stream().to("out", Produced.with_(TEXT, Serdes.long()))
    return builder.build()


def test_a_pattern_reads_every_topic_that_matches_also_one_that_is_made_before_the_next_start(place: Place) -> None:
    place.topic("out", 1)
    assert isinstance(error_of(lambda: place.run(matching())), UnknownTopicError)
    for name in ("in-a", "in-b", "not-in-c"):
        place.topic(name, 2)
        place.put(name, [("k", order("r"), 0)])
    place.run(matching())
    assert numbers(place) == {"k": 2}
    place.topic("in-c", 2), place.put("in-c", [("k", order("r"), 1)])
    place.put("in-a", [("k", order("r"), 2)])
    place.run(matching())
    assert numbers(place) == {"k": 4}


def reads_new_topics(place: Place, prefix: str = "") -> None:
    """An application that runs reads topics that a pattern matches as they are made, each from its beginning."""
    builder = StreamsBuilder()
    counted = builder.stream(re.compile(f"{prefix}in-.*"), ORDERS).group_by_key().count(Materialized.as_("counts"))
    counted.to_stream().to(f"{prefix}out", Produced.with_(TEXT, Serdes.long()))
    place.topic("out", 1), place.topic("in-a", 2)
    place.put("in-a", [("k", order("r"), 0)])
    seen: list[State] = []
    with place.app(builder.build(), metadata_max_age_ms=100) as app:
        app.set_state_listener(lambda new, old: seen.append(new))
        app.start()
        until(lambda: numbers(place) == {"k": 1}, app)
        for name, wanted in (("in-b", 3), ("in-c", 5)):
            place.put("in-a", [("k", order("r"), 1)])
            place.topic(name, 2), place.topic(f"not-{name}", 1)
            place.put(name, [("k", order("r"), 2)])
            until(lambda: numbers(place) == {"k": wanted}, app)  # noqa: B023  (called before the next round)
        until(lambda: app.progress().consumed == 5 and app.state is State.RUNNING, app)
    assert app.error is None
    assert seen.count(State.REBALANCING) == 3  # the start, and each new topic


def test_a_pattern_reads_topics_that_are_made_while_the_application_runs(place: Place) -> None:
    reads_new_topics(place)


@pytest.mark.kafka
def test_on_kafka_too_a_pattern_reads_topics_that_are_made_while_the_application_runs(kafka_place: Place) -> None:
    reads_new_topics(kafka_place, kafka_place.prefix)


def test_a_new_topic_that_is_read_from_its_end_begins_where_that_was_when_it_was_first_seen(place: Place) -> None:
    builder = StreamsBuilder()
    latest = ORDERS.with_offset_reset_policy(AutoOffsetReset.latest())
    builder.stream(re.compile("in-.*"), latest).group_by_key().count(Materialized.as_("counts")).to_stream().to(
        "out", Produced.with_(TEXT, Serdes.long())
    )
    place.topic("out", 1), place.topic("in-a", 2)
    kept = place.folder / "state" / place.application_id / "checkpoint" / "positions"
    with place.app(builder.build(), metadata_max_age_ms=100) as app:
        app.start()
        until(lambda: app.progress().epochs > 0, app)  # keeps where in-a begins
        place.topic("in-b", 2)
        until(lambda: any(b'"in-b"' in path.read_bytes() for path in kept.iterdir()), app)
        place.put("in-b", [(f"k{i}", order("r"), i) for i in range(20)])
        until(lambda: len(numbers(place)) == 20, app)
        place.put("in-a", [("a", order("r"), 1)])
        until(lambda: "a" in numbers(place), app)


def test_a_new_topic_that_does_not_fit_ends_the_application_which_says_why(place: Place) -> None:
    place.topic("out", 1), place.topic("in-a", 2)
    with place.app(matching(), metadata_max_age_ms=100) as app:
        app.start()
        until(lambda: app.state is State.RUNNING, app)
        place.topic("in-b", 9)
        until(lambda: app.state is State.ERROR)
    assert app.error is not None
    assert app.error.condition == "PLAN_CHANGED", app.error


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_each_record_goes_to_the_topic_and_partition_that_functions_choose(place: Place, form: str) -> None:
    place.topic("in", 1), place.topic("out-a", 3), place.topic("out-b", 2)
    place.put(
        "in", [("k", order("a", 0), 0), ("k", order("b", 1), 1), ("k", order("a", 2), 2), ("k", order("a", 5), 3)]
    )
    builder = StreamsBuilder()

    def where(topic: str, key: str, value: dict[str, Any], partitions: int) -> Any:
        return {0: None, 5: ()}.get(value["amount"], [value["amount"] % partitions, partitions - 1])

    builder.stream("in", ORDERS).to(pl.lit("out-") + pl.col("region"), Produced.with_(TEXT, JSON, partitioner=where))
    app = place.run(builder.build(), processing_form=form)
    found = {topic: [[row.value["amount"] for row in part] for part in place.partitions(topic)] for topic in
             ("out-a", "out-b")}  # fmt: skip
    by_key = place.partitions("out-a").index(
        next(p for p in place.partitions("out-a") if any(r.timestamp_ms == 0 for r in p))
    )
    wanted: list[list[int]] = [[], [], [2]]
    wanted[by_key].insert(0, 0)
    assert found == {"out-a": wanted, "out-b": [[], [1]]}
    assert app.progress().dropped == 1


def test_a_record_for_a_topic_that_does_not_exist_stops_the_application_before_anything_is_written(
    place: Place,
) -> None:
    place.topic("in", 1), place.topic("out-a", 1)
    place.put("in", [("k", order("a"), 0), ("k", order("b"), 1)])
    builder = StreamsBuilder()
    builder.stream("in", ORDERS).to(lambda key, value, record_context: f"out-{value['region']}", WRITTEN)
    topology = builder.build()
    error = error_of(lambda: place.run(topology))
    assert isinstance(error, UnknownTopicError)
    assert "out-b" in str(error)
    assert place.rows("out-a") == []
    place.topic("out-b", 1)
    place.run(topology)
    assert len(place.rows("out-a")) == len(place.rows("out-b")) == 1


def test_a_count_of_partitions_that_does_not_fit_the_table_is_refused(place: Place) -> None:
    place.topic("in", 2), place.topic("users", 2), place.topic("out", 1)
    builder = StreamsBuilder()
    users = builder.table("users", ORDERS)
    keyed = builder.stream("in", ORDERS).repartition(Repartitioned.as_("x").with_number_of_partitions(5))
    keyed.join(users, lambda order, user: order).to("out", WRITTEN)
    error = error_of(lambda: place.run(builder.build()))
    assert isinstance(error, TopologyError)
    assert error.condition == "PARTITIONS_DIFFER"
