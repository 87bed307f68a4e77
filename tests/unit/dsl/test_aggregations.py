from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from hayase.core.errors import TopologyError
from hayase.core.windows import TimeWindows
from hayase.dsl import (
    Consumed,
    Materialized,
    Produced,
    StreamsBuilder,
    avg,
    collect_list,
    collect_set,
    count,
    earliest_by_offset,
    latest_by_offset,
    max_,
    min_,
    sum_,
    timestamp,
)
from hayase.kernel.aggregate.built_in_serde import AggregateSerde
from hayase.serde import JsonSerde, LongSerde, Serdes, StringSerde, TimeWindowedSerde
from hayase.testing import TopologyTestDriver
from hayase.topology.defaults import DefaultSerde, with_default_serdes
from hayase.topology.operators import (
    BuiltInAggregate,
    CallableAggregate,
    CallableReduce,
    FieldAggregate,
    StreamAggregate,
    StreamWindowedAggregate,
)

ORDERS = Consumed.with_(
    Serdes.string(), Serdes.json(schema={"user": pl.String, "amount": pl.Int64, "weight": pl.Float64})
)
WINDOWS = TimeWindows.of_size_and_grace(timedelta(milliseconds=100), timedelta(milliseconds=50))


@pytest.fixture
def builder():
    return StreamsBuilder()


@pytest.fixture
def grouped(builder):
    return builder.stream("orders", ORDERS).group_by_key()


def condition_of(function):
    with pytest.raises(TopologyError) as caught:
        function()
    return caught.value.condition


def test_a_count_is_a_long_named_after_its_node(builder, grouped):
    table = grouped.count()
    topology = builder.build()
    (spec,) = topology.stores.values()
    assert spec.name == "KSTREAM-AGGREGATE-STATE-STORE-0000000001"
    assert isinstance(spec.key_serde, StringSerde) and isinstance(spec.value_serde, LongSerde)
    assert topology.nodes[-1].name == "KSTREAM-AGGREGATE-0000000002"
    assert topology.nodes[-1].operator == StreamAggregate(
        BuiltInAggregate((FieldAggregate("value", "count"),), bare=True), spec.name
    )
    assert table.queryable_store_name is None


def test_a_reduce_has_the_serde_of_its_input(builder, grouped):
    grouped.reduce(lambda aggregate, value: value, Materialized.as_("r"), name="node")
    topology = builder.build()
    assert isinstance(topology.stores["r"].value_serde, JsonSerde)
    assert isinstance(topology.by_name["node"].operator.aggregation, CallableReduce)


def test_an_aggregate_has_the_serde_of_its_annotation(builder, grouped):
    def longer(key, value, aggregate) -> str: ...

    grouped.aggregate(str, longer, Materialized.as_("a"))
    topology = with_default_serdes(builder.build(), None, None, Serdes.bytes())
    assert isinstance(topology.stores["a"].value_serde, StringSerde)


def test_an_aggregate_of_unknown_type_is_the_configured_default_or_json(builder, grouped):
    grouped.aggregate(dict, lambda key, value, aggregate: aggregate, Materialized.as_("a"))
    topology = builder.build()
    serde = topology.stores["a"].value_serde
    assert isinstance(serde, DefaultSerde) and serde.serialize({"x": 1}) == b'{"x":1}'
    assert isinstance(topology.nodes[-1].operator.aggregation, CallableAggregate)


def test_given_serdes_win(builder, grouped):
    store = Materialized.as_("a").with_key_serde(Serdes.long()).with_value_serde(Serdes.long())
    grouped.aggregate(dict, lambda key, value, aggregate: aggregate, store)
    spec = builder.build().stores["a"]
    assert isinstance(spec.key_serde, LongSerde) and isinstance(spec.value_serde, LongSerde)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda grouped: grouped.reduce(lambda value: value),
        lambda grouped: grouped.aggregate(lambda x: 0, lambda key, value, aggregate: 0),
        lambda grouped: grouped.aggregate(dict, lambda key, value: 0),
    ],
)
def test_functions_of_another_shape_are_refused(grouped, wrong):
    assert condition_of(lambda: wrong(grouped)) == "INVALID_FUNCTION"


def test_built_in_aggregates_have_the_types_of_their_inputs(builder, grouped):
    table = grouped.agg(
        Materialized.as_("s"),
        n=count(),
        weighed=count("weight"),
        total=sum_("amount"),
        weight=sum_("weight"),
        first=min_("user"),
        last=max_(timestamp()),
        mean=avg(pl.col("amount") * 2),
    )
    topology = builder.build()
    assert isinstance(topology.stores["s"].value_serde, AggregateSerde)
    assert dict(table._state.value.inferred.fields) == {
        "n": pl.Int64(),
        "weighed": pl.Int64(),
        "total": pl.Int64(),
        "weight": pl.Float64(),
        "first": pl.String(),
        "last": pl.Int64(),
        "mean": pl.Float64(),
    }
    functions = [field.function for field in topology.nodes[-1].operator.aggregation.fields]
    assert functions == ["count", "count", "sum", "sum", "min", "max", "avg"]


def test_built_in_aggregates_over_values_without_schema_are_kept_in_the_same_form(builder):
    stream = builder.stream("x", Consumed.with_(Serdes.string(), Serdes.json()))
    stream.group_by_key().agg(Materialized.as_("s"), total=sum_("amount"))
    assert isinstance(builder.build().stores["s"].value_serde, AggregateSerde)


def test_a_value_serde_for_the_store_of_an_average_is_refused(builder, grouped):
    given = Materialized.as_("s").with_value_serde(JsonSerde())
    assert condition_of(lambda: grouped.agg(given, mean=avg("amount"))) == "INVALID_AGGREGATE"
    grouped.agg(given, total=sum_("amount"))
    assert isinstance(builder.build().stores["s"].value_serde, JsonSerde)


def test_the_updates_of_built_in_aggregates_are_not_written_as_they_are_stored(builder, grouped):
    grouped.agg(n=count()).to_stream().to("out")
    assert builder.build().nodes[-1].value_serde is None


def test_fields_may_be_called_as_the_options_are(builder, grouped):
    grouped.agg(name=max_("user"), materialized=count())
    (first,) = builder.build().nodes[-1:]
    assert [field.name for field in first.operator.aggregation.fields] == ["name", "materialized"]
    grouped.agg(n=count(), name="node", materialized=Materialized.as_("rows"))
    assert builder.build().by_name["node"].stores == ("rows",)


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({}, "INVALID_FIELDS"),
        ({"__n": count()}, "INVALID_FIELD_NAME"),
        ({"n": 5}, "INVALID_AGGREGATE"),
        ({"n": sum_("user")}, "INVALID_AGGREGATE"),
        ({"n": sum_("missing")}, "UNKNOWN_FIELD"),
    ],
)
def test_aggregates_that_cannot_be_are_refused(grouped, fields, condition):
    assert condition_of(lambda: grouped.agg(**fields)) == condition


def test_an_aggregate_is_of_a_field_or_an_expression():
    assert condition_of(lambda: sum_(5)) == "INVALID_EXPRESSION"


def test_windows_make_window_stores_and_windowed_keys(builder, grouped):
    grouped.windowed_by(WINDOWS).count(Materialized.as_("w")).to_stream().to("out")
    topology = builder.build()
    spec = topology.stores["w"]
    assert (spec.kind, spec.retention_ms, spec.window_size_ms) == ("timestamped_window", 150, 100)
    assert isinstance(spec.key_serde, StringSerde)
    operator = topology.nodes[1].operator
    assert isinstance(operator, StreamWindowedAggregate) and operator.windows == WINDOWS
    key_serde = topology.nodes[-1].key_serde
    assert isinstance(key_serde, TimeWindowedSerde) and key_serde.window_size_ms == 100


def test_windows_are_kept_as_long_as_asked_but_not_shorter_than_they_are_open(builder, grouped):
    windowed = grouped.windowed_by(WINDOWS)
    windowed.count(Materialized.as_("long").with_retention(timedelta(milliseconds=500)))
    assert builder.build().stores["long"].retention_ms == 500
    short = Materialized.as_("short").with_retention(timedelta(milliseconds=149))
    assert condition_of(lambda: windowed.count(short)) == "INVALID_RETENTION"


def test_only_windows_are_windows(grouped):
    assert condition_of(lambda: grouped.windowed_by(timedelta(hours=1))) == "INVALID_WINDOW"


def test_store_options_reach_the_store(builder, grouped):
    grouped.count(Materialized.as_("n").with_caching_disabled())
    spec = builder.build().stores["n"]
    assert not spec.caching


def test_operations_on_a_table_keep_rows_only_in_a_named_store(builder, grouped):
    table = grouped.count(Materialized.as_("n")).filter(lambda key, value: value > 1)
    mapped = table.map_values(lambda value: value * 2, Materialized.as_("twice"))
    topology = builder.build()
    assert list(topology.stores) == ["n", "twice"]
    assert [node.operator.store for node in topology.nodes[2:]] == [None, "twice"]
    assert [node.operator.parent for node in topology.nodes[2:]] == [node.name for node in topology.nodes[1:3]]
    assert (table.queryable_store_name, mapped.queryable_store_name) == (None, "twice")


def test_a_join_with_a_table_that_keeps_no_rows_reads_those_it_is_made_of(builder, grouped):
    table = grouped.count(Materialized.as_("n")).filter(lambda key, value: value > 1)
    builder.stream("other", ORDERS).join(table, lambda left, right: right, name="j")
    topology = builder.build()
    assert topology.by_name["j"].stores == ("n",)
    assert topology.by_name["j"].operator.table == "KTABLE-FILTER-0000000002"


def test_a_stream_becomes_a_table_of_its_last_values(builder):
    table = builder.stream("orders", ORDERS).select_key("user").to_table(Materialized.as_("users"))
    topology = builder.build()
    assert table.queryable_store_name == "users"
    assert list(topology.repartitions) == ["KSTREAM-TOTABLE-0000000002-repartition"]
    assert topology.nodes[-1].operator.store == "users"


def test_a_table_becomes_a_stream_that_may_be_re_keyed(builder, grouped):
    grouped.count().to_stream(lambda key, value: value).group_by_key().count(Materialized.as_("n"))
    names = [node.name for node in builder.build().nodes]
    assert names[2:4] == ["KTABLE-TOSTREAM-0000000003", "KSTREAM-KEY-SELECT-0000000004"]
    assert names[4] == "n-repartition-filter"


def test_a_filter_knows_old_values_if_the_rows_are_kept_when_it_is_made(builder, grouped):
    kept = grouped.count(Materialized.as_("n"))
    kept.map_values(lambda value: value + 1).filter(lambda key, value: value > 1)
    table = builder.table("users", ORDERS)
    table.filter(lambda key, value: True, name="early")
    builder.stream("other", ORDERS).join(table, lambda left, right: 1)
    table.filter(lambda key, value: True, name="late")
    nodes = builder.build().by_name
    carries = {name for name, node in nodes.items() if getattr(getattr(node, "operator", None), "old_values", False)}
    assert carries == {
        "KSTREAM-AGGREGATE-0000000001",
        "KTABLE-MAPVALUES-0000000002",
        "KTABLE-FILTER-0000000003",
        "KTABLE-SOURCE-0000000006",
        "late",
    }


@pytest.mark.parametrize("make", [earliest_by_offset, latest_by_offset])
@pytest.mark.parametrize("n", [0, -1, True, 1.5])
def test_a_number_of_values_is_one_or_more(make, n):
    assert condition_of(lambda: make("amount", n)) == "INVALID_AGGREGATE"


def test_what_keeps_values_has_their_type_or_a_list_of_it(grouped):
    table = grouped.agg(
        first=earliest_by_offset("amount"), three=latest_by_offset("user", 3), every=collect_list("amount")
    )
    assert dict(table._state.value.schema.fields) == {
        "first": pl.Int64(),
        "three": pl.List(pl.String()),
        "every": pl.List(pl.Int64()),
    }


def test_values_are_kept_in_the_order_of_processing():
    builder = StreamsBuilder()
    read = Consumed.with_(Serdes.string(), Serdes.json(schema={"n": pl.Int64}))
    table = (
        builder.stream("in", read)
        .group_by_key()
        .agg(
            first=earliest_by_offset("n"),
            first_or_null=earliest_by_offset("n", ignore_nulls=False),
            last_two=latest_by_offset("n", 2),
            every=collect_list("n"),
            different=collect_set("n", ignore_nulls=True, max_size=2),
        )
    )
    table.to_stream().to("out", Produced.with_(Serdes.string(), Serdes.json()))
    for form in ("rows", "columns"):
        with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
            source = driver.create_input_topic("in", Serdes.string(), Serdes.json())
            for n in (None, 3, 3, 1, 2):
                source.pipe_input("k", {"n": n})
            assert driver.create_output_topic("out", Serdes.string(), Serdes.json()).read_values_to_list()[-1] == {
                "first": 3,
                "first_or_null": None,
                "last_two": [1, 2],
                "every": [None, 3, 3, 1, 2],
                "different": [3, 1],
            }
