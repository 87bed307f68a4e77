from __future__ import annotations

import polars as pl
import pytest

from hayase.core.errors import TopologyError
from hayase.dsl import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    StreamsBuilder,
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
def test_an_aggregate_that_can_not_be_undone_is_refused(users, made, name):
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


def test_tables_of_two_builders_can_not_be_joined(users):
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
