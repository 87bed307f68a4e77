from __future__ import annotations

import re

import polars as pl
import pytest
from tests.unit.dsl.orders import ORDERS, USERS, Price, condition_of, last_operator, sink_of

from hayase.core.errors import TopologyError, UnknownTopicError
from hayase.dsl import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Printed,
    Produced,
    Repartitioned,
    StreamsBuilder,
    key,
    right,
    timestamp,
)
from hayase.serde import JsonSerde, LongSerde, Schema, Serdes, StringSerde
from hayase.topology.operators import Branch, Filter, FlatMap, Map, MapValues, Split
from hayase.topology.resolve import resolve_patterns, with_application_id


def test_filters_hold_their_predicate(builder, orders):
    orders.filter_not(pl.col("amount") > 5)
    operator = last_operator(builder)
    assert isinstance(operator, Filter) and operator.negate


def test_a_predicate_that_is_no_truth_value_is_refused(orders):
    assert condition_of(lambda: orders.filter(pl.col("amount") + 1)) == "INVALID_EXPRESSION"


def test_values_made_by_a_struct_are_records_of_its_fields(orders):
    made = orders.map_values(pl.struct(double=pl.col("amount") * 2))
    assert list(made._state.value.schema.names) == ["double"]
    some = made.map_values(pl.when(pl.col("double") > 1).then(pl.struct(half=pl.col("double") / 2)))
    assert condition_of(lambda: some.filter(pl.col("double") > 1)) == "UNKNOWN_FIELD"
    some.filter(pl.col("half") > 1)


def test_an_unknown_field_is_refused_with_those_there_are(orders):
    with pytest.raises(TopologyError, match="there are: user, amount, tags") as caught:
        orders.filter(pl.col("amuont") > 1)
    assert caught.value.condition == "UNKNOWN_FIELD"


def test_an_expression_over_values_without_schema_is_not_checked(builder):
    builder.stream("x", Consumed.with_(Serdes.string(), Serdes.json())).filter(pl.col("anything") > 1)
    assert isinstance(last_operator(builder), Filter)


def test_an_expression_that_does_not_fit_its_types_is_refused(orders):
    assert condition_of(lambda: orders.map_values(pl.col("amount").str.to_uppercase())) == "INVALID_EXPRESSION"


def test_the_schema_of_fields_is_worked_out(builder, orders):
    orders.map_values({"user": "user", "twice": pl.col("amount") * 2, "at": timestamp(), "key": key()})
    operator = last_operator(builder)
    assert isinstance(operator, MapValues)
    fields = (("user", pl.String()), ("twice", pl.Int64()), ("at", pl.Int64()), ("key", pl.String()))
    assert operator.schema == Schema(fields, python_type=dict)


def test_the_schema_of_a_callable_is_its_return_annotation(builder, orders):
    def price(value) -> Price: ...

    orders.map_values(price)
    assert last_operator(builder).schema == Schema((("amount", pl.Int64()),), python_type=Price)
    orders.map_values(lambda value: 1)
    assert last_operator(builder).schema is None


def test_the_serde_of_a_sink_is_that_of_the_stream_until_the_values_change(orders):
    assert isinstance(sink_of(orders.filter(pl.col("amount") > 1)).value_serde, JsonSerde)
    assert sink_of(orders.map_values(pl.col("amount"))).value_serde is None


def test_the_serdes_of_a_produced_win(orders):
    orders.to("out", Produced.with_(Serdes.long(), Serdes.string(), "my-sink"))
    node = orders._state.graph.build().nodes[-1]
    assert (type(node.key_serde), type(node.value_serde), node.name) == (LongSerde, StringSerde, "my-sink")


def test_map_takes_a_function_of_key_and_value(builder, orders):
    def swap(key, value) -> tuple[int, str]: ...

    orders.map(swap)
    operator = last_operator(builder)
    assert isinstance(operator, Map) and operator.mapper is swap
    assert (operator.key_schema.fields[0][1], operator.value_schema.fields[0][1]) == (pl.Int64(), pl.String())


def test_map_takes_expressions_for_both(builder, orders):
    orders.map(key=["user"], value=pl.col("amount"))
    operator = last_operator(builder)
    assert operator.mapper is None
    assert operator.key_schema == Schema((("user", pl.String()),), python_type=dict)


@pytest.mark.parametrize(
    "arguments", [{}, {"key": "user"}, {"value": "user"}, {"key": lambda k, v: k, "value": lambda k, v: v}]
)
def test_half_a_map_is_refused(orders, arguments):
    assert condition_of(lambda: orders.map(**arguments)) == "INVALID_FUNCTION"


def test_items_of_a_list_expression_are_values(builder, orders):
    orders.flat_map_values("tags")
    assert last_operator(builder).schema == Schema((("value", pl.String()),), bare=True)
    assert condition_of(lambda: orders.flat_map_values("user")) == "INVALID_EXPRESSION"


def test_merged_streams_keep_what_both_have(builder, orders):
    others = builder.stream("others", ORDERS)
    assert isinstance(sink_of(orders.merge(others)).value_serde, JsonSerde)
    texts = builder.stream("texts", Consumed.with_(Serdes.string(), Serdes.string()))
    assert sink_of(orders.merge(texts)).value_serde is None


def test_streams_of_two_builders_do_not_mix(orders):
    other = StreamsBuilder().stream("orders", ORDERS)
    assert condition_of(lambda: orders.merge(other)) == "FOREIGN_STREAM"


def test_branches_are_called_by_position_and_the_default_is_zero(builder, orders):
    parts = orders.split().branch(pl.col("amount") > 5).branch(pl.col("amount") > 3).default_branch()
    assert list(parts) == [f"KSTREAM-BRANCH-0000000001{position}" for position in (1, 2, 0)]
    nodes = {node.name: node for node in builder.build().nodes}
    split = nodes["KSTREAM-BRANCH-0000000001"].operator
    assert isinstance(split, Split) and len(split.predicates) == 2 and split.default
    assert [nodes[name].operator for name in parts] == [Branch(0), Branch(1), Branch(2)]


def test_branches_may_be_taken_by_functions(orders):
    seen = []
    parts = (
        orders.split(name="x-")
        .branch(pl.col("amount") > 5, Branched.with_consumer(seen.append, "eaten"))
        .branch(pl.col("amount") > 3, Branched.with_function(lambda stream: stream.map_values("amount"), "kept"))
        .branch(pl.col("amount") > 1, Branched.with_function(lambda stream: None, "dropped"))
        .no_default_branch()
    )
    assert list(parts) == ["x-kept"]
    assert parts["x-kept"]._state.node.startswith("KSTREAM-MAPVALUES")
    assert len(seen) == 1


def test_a_split_ends_once(orders):
    split = orders.split()
    split.no_default_branch()
    assert condition_of(split.default_branch) == "SPLIT_ENDED"
    assert condition_of(lambda: split.branch(pl.lit(True))) == "SPLIT_ENDED"


def test_join_takes_its_arguments_by_name_and_by_position(builder, orders):
    users, cities = builder.table("users", USERS), builder.global_table("cities", USERS)
    orders.join(users, lambda left, right: 1, Joined.as_("one"))
    orders.join(users, joiner=lambda left, right: 1, joined=Joined.as_("two"))
    orders.left_join(cities, key_mapper="user", joiner=lambda left, right: 1, name="three")
    assert [node.name for node in builder.build().nodes[-3:]] == ["one", "two", "three"]


@pytest.mark.parametrize("arguments", [(), (1, 2, 3), ("user",)])
def test_a_join_with_other_arguments_is_refused(builder, orders, arguments):
    cities = builder.global_table("cities", USERS)
    assert condition_of(lambda: orders.join(cities, *arguments)) == "INVALID_JOIN"


def test_a_join_with_keys_of_other_types_is_refused(builder, orders):
    numbers = builder.table("numbers", Consumed.with_(Serdes.long(), Serdes.string()))
    assert condition_of(lambda: orders.join(numbers, lambda left, right: 1)) == "JOIN_KEY_MISMATCH"
    places = builder.global_table("places", Consumed.with_(Serdes.long(), Serdes.string()))
    assert condition_of(lambda: orders.join(places, "user", lambda left, right: 1)) == "JOIN_KEY_MISMATCH"
    orders.join(places, "amount", lambda left, right: 1)


def test_a_join_with_a_field_that_is_not_there_is_refused(builder, orders):
    users = builder.table("users", USERS)
    with pytest.raises(TopologyError, match="no field 'town' on the right; there are: city"):
        orders.join(users, {"town": right("town")})


def test_only_tables_are_joined(orders):
    assert condition_of(lambda: orders.join("users", lambda left, right: 1)) == "INVALID_ARGUMENT"


def test_grouped_serdes_and_name_are_used(builder, orders):
    grouped = orders.group_by("user", Grouped.with_(Serdes.string(), Serdes.json(), "by-user"))
    grouped.count(Materialized.as_("n"))
    grouped.reduce(lambda a, b: a, Materialized.as_("last"))
    topology = builder.build()
    assert list(topology.repartitions) == ["by-user-repartition"]
    assert topology.nodes[1].name == "by-user"
    assert topology.children["by-user-repartition-source"] == (
        "KSTREAM-AGGREGATE-0000000002",
        "KSTREAM-REDUCE-0000000006",
    )


def test_flat_map_takes_the_types_of_its_pairs_from_the_annotation_or_the_expression(builder, orders):
    def pairs(key, value) -> list[tuple[str, int]]: ...

    orders.flat_map(pairs)
    operator = last_operator(builder)
    assert isinstance(operator, FlatMap)
    assert (operator.key_schema.fields, operator.value_schema.fields) == (
        (("value", pl.String()),),
        (("value", pl.Int64()),),
    )
    orders.flat_map(pl.concat_list(pl.struct(key="user", value=pl.struct("amount"))))
    operator = last_operator(builder)
    assert operator.key_schema.bare
    assert operator.value_schema == Schema((("amount", pl.Int64()),), python_type=dict)


@pytest.mark.parametrize(
    "mapper", [pl.col("tags"), pl.col("user"), pl.concat_list(pl.struct("user")), lambda value: []]
)
def test_flat_map_refuses_what_gives_no_pairs(orders, mapper):
    assert condition_of(lambda: orders.flat_map(mapper)) in ("INVALID_EXPRESSION", "INVALID_FUNCTION")


def test_a_flat_mapped_stream_is_repartitioned_before_it_is_grouped(builder, orders):
    orders.flat_map(lambda key, value: [(key, value)]).group_by_key(Grouped.with_(Serdes.string())).count()
    assert len(builder.build().repartitions) == 1


def test_print_writes_lines_with_a_label(builder, orders, capsys, tmp_path):
    orders.print(Printed.to_sys_out())
    last_operator(builder).action("k", {"n": 1})
    assert capsys.readouterr().out == "[KSTREAM-SOURCE-0000000000]: k, {'n': 1}\n"
    file = tmp_path / "records.txt"
    printed = Printed.to_file(file).with_label("orders").with_key_value_mapper(lambda key, value: f"{key}={value}")
    orders.print(printed.with_name("printer"))
    assert builder.build().nodes[-1].name == "printer"
    for value in ("one", "zwei \ud800"):
        last_operator(builder).action("k", value)
    assert file.read_bytes() == b"[orders]: k=one\n[orders]: k=zwei \\ud800\n"
    assert condition_of(lambda: orders.print("orders")) == "INVALID_OPTION"
    assert condition_of(lambda: Printed.to_file("")) == "INVALID_OPTION"


def test_a_pattern_reads_the_topics_that_match_it_whole(builder):
    builder.stream(re.compile("in-.*"), ORDERS).to("out")
    builder.stream(re.compile("in-.*"), ORDERS)
    topology = resolve_patterns(builder.build(), ["in-b", "not-in-a", "in-a", "__in-x", "in-"])
    assert topology.nodes[0].topics == ("in-", "in-a", "in-b")
    assert len(topology.nodes) == 2
    assert "Source: KSTREAM-SOURCE-0000000000 (topics: in-.*)" in topology.describe()


def test_a_pattern_never_matches_an_internal_topic(builder):
    builder.stream(re.compile(".*"), ORDERS).repartition(Repartitioned.as_("x")).to("out")
    topology = with_application_id(builder.build(), "app")
    assert resolve_patterns(topology, ["a", "app-x-repartition"]).nodes[0].topics == ("a",)


def test_a_pattern_that_nothing_matches_is_an_error_that_names_it(builder):
    builder.stream(re.compile("in-.*"), ORDERS).to("out")
    with pytest.raises(UnknownTopicError, match="in-\\.\\*"):
        resolve_patterns(builder.build(), ["other"])


def test_a_topic_is_read_once_also_by_patterns(builder):
    builder.stream("in-a", ORDERS)
    assert condition_of(lambda: builder.stream(re.compile("in-.*"), ORDERS)) == "TOPIC_READ_TWICE"


def test_a_topic_that_two_patterns_match_is_refused_when_it_is_found(builder):
    builder.stream(re.compile("in-.*"), ORDERS)
    builder.stream(re.compile(".*-a"), ORDERS)
    assert condition_of(lambda: resolve_patterns(builder.build(), ["in-a", "in-b"])) == "TOPIC_READ_TWICE"


def test_a_sink_whose_topic_is_chosen_is_shown_with_the_function(builder, orders):
    def by_user(key, value, record_context):
        return value["user"]

    orders.to(by_user)
    assert "(extractor class: test_a_sink_whose" in builder.build().describe()
    orders.to(pl.lit("to-") + pl.col("user"))
    assert "(extractor class: [(" in builder.build().describe()
