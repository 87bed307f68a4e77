from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from hayase.core.errors import TopologyError
from hayase.core.windows import TimeWindows
from hayase.dsl import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    avg,
    count,
    max_,
    min_,
    sum_,
)
from hayase.serde import Serdes
from hayase.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
FIELDS = {"city": pl.String, "age": pl.Int64, "weight": pl.Float64}
USERS = Consumed.with_(TEXT, Serdes.json(schema=FIELDS))


@pytest.fixture
def builder():
    return StreamsBuilder()


@pytest.fixture
def users(builder):
    return builder.table("users", USERS)


def condition_of(function):
    with pytest.raises(TopologyError) as caught:
        function()
    return caught.value


def rows_after(builder, store, updates):
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("users", TEXT, Serdes.json())
        for at, (key, city, age) in enumerate(updates):
            value = None if city is None else {"city": city, "age": age, "weight": 0.5}
            topic.pipe_input(key, value, timestamp_ms=at)
        return {key: row.value for key, row in driver.store(store).all()}


MOVES = [("a", "Oslo", 10), ("b", "Oslo", 30), ("c", "Rome", 20), ("a", "Rome", 40), ("c", None, None)]


def test_built_in_aggregates_follow_rows_that_move_between_groups(builder, users):
    users.group_by("city").agg(Materialized.as_("t"), n=count(), total=sum_("age"), mean=avg("age"))
    assert rows_after(builder, "t", MOVES) == {
        "Oslo": {"n": 1, "total": 30, "mean": 30.0},
        "Rome": {"n": 1, "total": 40, "mean": 40.0},
    }


def test_a_group_without_rows_stays_with_a_count_of_0_and_no_mean(builder, users):
    users.group_by("city").agg(Materialized.as_("t"), n=count(), total=sum_("weight"), mean=avg("weight"))
    assert rows_after(builder, "t", [("a", "Oslo", 10), ("a", None, None)]) == {
        "Oslo": {"n": 0, "total": 0.0, "mean": None}
    }


def test_the_groups_key_and_value_may_be_expressions(builder, users):
    grouped = users.group_by(key=pl.col("city").str.to_lowercase(), value=pl.col("age") * 2)
    grouped.reduce(lambda total, n: total + n, lambda total, n: total - n, Materialized.as_("t"))
    assert rows_after(builder, "t", MOVES) == {"oslo": 60, "rome": 80}


@pytest.mark.parametrize(("made", "name"), [(min_("age"), "min"), (max_("age"), "max")])
def test_an_aggregate_that_cannot_be_undone_is_refused(users, made, name):
    refused = condition_of(lambda: users.group_by("city").agg(low=made))
    assert refused.condition == "NOT_INVERTIBLE"
    assert f"low is a {name}" in refused.message
    assert "sum_" in refused.message


@pytest.mark.parametrize(
    "arguments",
    [{}, {"mapper": lambda key, value: (key, value), "value": "age"}, {"key": lambda key, value: key}],
    ids=["nothing", "a function and a value", "a function as key="],
)
def test_group_by_takes_a_function_of_pairs_or_expressions(users, arguments):
    assert condition_of(lambda: users.group_by(**arguments)).condition == "INVALID_FUNCTION"


def test_aggregations_of_one_named_group_share_its_repartition(builder, users):
    grouped = users.group_by("city", Grouped.with_(TEXT, name="by-city"))
    grouped.count(Materialized.as_("counts"))
    grouped.agg(Materialized.as_("ages"), total=sum_("age"))
    topology = builder.build()
    assert list(topology.repartitions) == ["by-city-repartition"]
    assert "by-city" in topology.by_name


def test_the_old_value_of_a_groups_row_is_what_its_reader_saw_before(builder, users):
    per_city = users.group_by("city", Grouped.with_(TEXT)).count(Materialized.as_("counts"))
    per_city.group_by(lambda city, n: (str(n), city), Grouped.with_(TEXT, TEXT)).count(Materialized.as_("t"))
    updates = [("a", "Oslo", 1), ("b", "Oslo", 1), ("c", "Rome", 1), ("b", "Rome", 1)]
    assert rows_after(builder, "t", updates) == {"1": 1, "2": 1}


def test_an_old_aggregate_is_not_what_user_code_made_of_it(builder, users):
    def add(key, value, ages):
        ages.append(value)
        return ages

    def remove(key, value, ages):
        ages.remove(value)
        return ages

    grouped = users.group_by(lambda user, row: (row["city"], row["age"]), Grouped.with_(TEXT, LONG))
    ages = grouped.aggregate(list, add, remove, Materialized.as_("ages"))
    ages.group_by(lambda city, found: (str(found), 1), Grouped.with_(TEXT, LONG)).count(Materialized.as_("t"))
    assert rows_after(builder, "t", MOVES) == {"[10]": 0, "[10, 30]": 0, "[30]": 1, "[20]": 0, "[20, 40]": 0, "[40]": 1}


def test_joined_tables_must_have_keys_of_one_type(builder, users):
    by_number = builder.table("numbers", Consumed.with_(LONG, TEXT))
    refused = condition_of(lambda: users.join(by_number, lambda user, number: number))
    assert refused.condition == "JOIN_KEY_MISMATCH"
    assert "foreign key" in refused.message


def test_tables_of_two_builders_cannot_be_joined(users):
    other = StreamsBuilder().table("users", USERS)
    assert condition_of(lambda: users.left_join(other, lambda a, b: a)).condition == "FOREIGN_STREAM"


def test_the_nodes_of_a_named_join_have_its_name(builder, users):
    users.outer_join(builder.table("more", USERS), lambda a, b: a or b, name="both")
    assert {"both", "both-join-this", "both-join-other"} <= set(builder.build().by_name)


def test_a_joiner_may_be_expressions(builder, users):
    from hayase import left, right

    fields = {"city": left("city"), "age": right("age")}
    users.left_join(builder.table("more", USERS), fields).to_stream().to("out", Produced.with_(TEXT, Serdes.json()))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("users", TEXT, Serdes.json()).pipe_input(
            "a", {"city": "Oslo", "age": 1, "weight": 0.1}
        )
        driver.create_input_topic("more", TEXT, Serdes.json()).pipe_input("a", {"city": None, "age": 7, "weight": 0.1})
        found = driver.create_output_topic("out", TEXT, Serdes.json()).read_key_values_to_list()
    assert found == [("a", {"city": "Oslo", "age": None}), ("a", {"city": "Oslo", "age": 7})]


WINDOWS = TimeWindows.of_size_and_grace(timedelta(milliseconds=10), timedelta(milliseconds=5))


def test_only_windowed_tables_can_wait_for_a_window_to_close(users):
    closing = Suppressed.until_window_closes(BufferConfig.unbounded())
    assert condition_of(lambda: users.suppress(closing)).condition == "NOT_WINDOWED"


def test_the_last_row_of_a_window_must_not_come_early():
    eager = BufferConfig.max_records(10)
    assert condition_of(lambda: Suppressed.until_window_closes(eager)).condition == "INVALID_BUFFER"
    assert Suppressed.until_window_closes(eager.shut_down_when_full()).buffer.records == 10


def test_a_filtered_windowed_table_still_knows_when_its_windows_close(builder):
    counts = builder.stream("clicks", Consumed.with_(TEXT, TEXT)).group_by_key().windowed_by(WINDOWS).count()
    last = counts.filter(lambda _, n: n > 1).suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    last.to_stream(lambda window, n: window.key).to("out", Produced.with_(TEXT, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("clicks", TEXT, TEXT)
        for key, at in [("a", 0), ("b", 1), ("a", 2), ("a", 14), ("a", 15)]:
            topic.pipe_input(key, "click", timestamp_ms=at)
        assert driver.create_output_topic("out", TEXT, LONG).read_key_values_to_list() == [("a", 2)]


def test_a_buffer_bounded_by_bytes_sends_its_oldest_rows_early(builder):
    table = builder.table("users", Consumed.with_(TEXT, TEXT))
    buffer = BufferConfig.max_bytes(100)
    table.suppress(Suppressed.until_time_limit(timedelta(days=1), buffer)).to_stream().to(
        "out", Produced.with_(TEXT, TEXT)
    )
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("users", TEXT, TEXT)
        for at, size in enumerate([10, 60, 5]):
            topic.pipe_input(f"k{at}", "x" * size, timestamp_ms=at)
        assert [key for key, _ in driver.create_output_topic("out", TEXT, TEXT).read_key_values_to_list()] == [
            "k0",
            "k1",
        ]


def test_a_join_with_a_suppressed_table_sees_the_row_that_was_sent_last(builder):
    table = builder.table("users", Consumed.with_(TEXT, TEXT), Materialized.as_("rows"))
    slow = table.suppress(Suppressed.until_time_limit(timedelta(milliseconds=10), BufferConfig.unbounded()))
    stream = builder.stream("asks", Consumed.with_(TEXT, TEXT))
    stream.left_join(slow, lambda _, user: user or "nobody").to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        users, asks = (driver.create_input_topic(name, TEXT, TEXT) for name in ("users", "asks"))
        users.pipe_input("a", "old", timestamp_ms=0)
        asks.pipe_input("a", "?", timestamp_ms=1)
        users.pipe_input("b", "", timestamp_ms=10)
        asks.pipe_input("a", "?", timestamp_ms=11)
        users.pipe_input("a", "new", timestamp_ms=12)
        asks.pipe_input("a", "?", timestamp_ms=13)
        found = driver.create_output_topic("out", TEXT, TEXT).read_key_values_to_list()
    assert [value for _, value in found] == ["nobody", "old", "old"]


def test_a_table_can_be_joined_with_an_aggregate_of_itself(builder):
    table = builder.table("users", Consumed.with_(TEXT, TEXT))
    sizes = table.group_by(lambda user, name: (name, user), Grouped.with_(TEXT, TEXT)).count(Materialized.as_("counts"))
    table.left_join(sizes, lambda name, n: f"{name} {n}").to_stream().to("out", Produced.with_(TEXT, TEXT))
    topology = builder.build()
    assert list(topology.internal_topics) == ["counts-repartition"]
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("users", TEXT, TEXT)
        topic.pipe_input("ann", "bob")
        topic.pipe_input("bob", "bob")
        found = driver.create_output_topic("out", TEXT, TEXT).read_key_values_to_map()
    assert found == {"ann": "bob None", "bob": "bob 2"}


def test_a_table_can_be_joined_with_itself_by_foreign_key(builder):
    people = builder.table("users", Consumed.with_(TEXT, Serdes.json()))
    named = people.left_join(
        people, lambda row: row["boss"], lambda row, boss: f"{row['name']} < {boss and boss['name']}"
    )
    named.to_stream().to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("users", TEXT, Serdes.json())
        topic.pipe_input("1", {"name": "Ann", "boss": "2"})
        topic.pipe_input("2", {"name": "Bob", "boss": None})
        topic.pipe_input("2", {"name": "Rob", "boss": None})
        found = driver.create_output_topic("out", TEXT, TEXT).read_key_values_to_map()
    assert found == {"1": "Ann < Rob", "2": "Rob < None"}


def test_the_nodes_and_topics_of_a_named_foreign_key_join_have_its_name(builder, users):
    cities = builder.table("cities", Consumed.with_(TEXT, TEXT))
    users.join(cities, "city", lambda user, city: city, TableJoined.as_("homes"))
    topology = builder.build()
    assert list(topology.repartitions) == ["homes-subscription-registration-topic"]
    assert list(topology.internal_topics) == ["homes-subscription-response-topic"]
    assert {"homes-subscription-receive", "homes-subscription-join-foreign", "homes-result"} <= set(topology.by_name)


def test_a_foreign_key_has_the_type_of_the_other_tables_keys(builder, users):
    cities = builder.table("cities", Consumed.with_(TEXT, TEXT))
    refused = condition_of(lambda: users.join(cities, "age", lambda user, city: city))
    assert refused.condition == "JOIN_KEY_MISMATCH"


def test_questions_go_where_the_other_tables_partitioner_says(builder, users):
    cities = builder.table("cities", Consumed.with_(TEXT, TEXT))
    seen = []

    def partition(topic, key, value, partitions):
        seen.append((topic, key, value, partitions))
        return partitions - 1

    joined = TableJoined.with_(partition, partition)
    users.join(cities, "city", lambda user, city: city, joined).to_stream().to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("cities", TEXT, TEXT).pipe_input("Oslo", "O")
        driver.create_input_topic("users", TEXT, Serdes.json()).pipe_input(
            "a", {"city": "Oslo", "age": 1, "weight": 0.0}
        )
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_value() == ("a", "O")
    assert [(key, value, partitions) for _, key, value, partitions in seen] == [("Oslo", None, 1), ("a", None, 1)]
