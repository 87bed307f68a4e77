"""Where streams are repartitioned, and by which serdes."""

from __future__ import annotations

import polars as pl
import pytest
from tests.unit.dsl.orders import USERS, condition_of, configured

from hayase.dsl import (
    Grouped,
    Joined,
    Materialized,
    Repartitioned,
    left,
    right,
)
from hayase.serde import JsonSerde, LongSerde, Serdes, StringSerde
from hayase.topology.defaults import DefaultSerde
from hayase.topology.nodes import InternalTopic, SourceNode
from hayase.topology.operators import RepartitionFilter, SelectKey
from hayase.topology.resolve import with_application_id


def repartitions(builder):
    return list(builder.build().repartitions)


def test_a_new_key_repartitions_only_what_needs_it(builder, orders):
    selected = orders.select_key("user").map_values("amount")
    selected.to("out")
    assert repartitions(builder) == []
    selected.group_by_key().count(Materialized.as_("n"))
    assert repartitions(builder) == ["n-repartition"]


def test_an_unchanged_key_repartitions_nothing(builder, orders):
    orders.filter(pl.col("amount") > 1).map_values("amount").group_by_key().count()
    orders.to_table()
    orders.join(builder.table("users", USERS), ["amount"] and {"a": left("amount")})
    assert repartitions(builder) == []


def test_a_repartitioned_stream_is_not_repartitioned_again(builder, orders):
    users = builder.table("users", USERS)
    joined = orders.select_key("user").join(users, {"city": right("city")}, Joined.as_("with-user"))
    joined.group_by_key().count()
    assert repartitions(builder) == ["with-user-repartition"]


def test_a_repartition_has_the_serdes_of_key_and_value(builder, orders):
    orders.group_by("amount").count(Materialized.as_("n"))
    topology = configured(builder)
    sink, source = topology.by_name["n-repartition-sink"], topology.by_name["n-repartition-source"]
    assert isinstance(sink.key_serde, LongSerde) and isinstance(sink.value_serde, JsonSerde)
    assert (source.key_serde, source.value_serde) == (sink.key_serde, sink.value_serde)


def test_values_of_unknown_type_are_repartitioned_as_the_planner_thinks_best(builder, orders):
    orders.map_values(lambda value: object()).group_by("amount", Grouped.with_(Serdes.long())).count()
    topology = configured(builder, Serdes.string(), Serdes.string())
    assert topology.by_name["KSTREAM-SINK-0000000005"].value_serde is None
    assert topology.by_name["KSTREAM-SOURCE-0000000007"].value_serde is None


def test_a_configured_serde_for_another_type_is_passed_over_where_the_type_is_known(builder, orders):
    orders.group_by("amount").count(Materialized.as_("n"))
    assert isinstance(configured(builder, Serdes.string()).stores["n"].key_serde, LongSerde)
    assert isinstance(configured(builder, Serdes.json()).stores["n"].key_serde, JsonSerde)


def test_a_stream_is_repartitioned_by_the_serde_of_the_table_it_joins(builder, orders):
    users = builder.table("users", USERS)
    orders.select_key(lambda key, value: value["user"]).join(users, lambda left, right: 1, Joined.as_("j"))
    assert isinstance(builder.build().by_name["j-repartition-sink"].key_serde, StringSerde)


def test_a_key_of_unknown_type_waits_for_the_configuration(builder, orders):
    orders.group_by(lambda key, value: value["user"]).count(Materialized.as_("n"))
    topology = builder.build()
    serde = topology.stores["n"].key_serde
    assert isinstance(serde, DefaultSerde) and serde.fallback is None
    assert condition_of(lambda: serde.to_bytes("x")) == "UNKNOWN_SERDE"


def test_the_annotation_of_a_key_function_gives_its_serde(builder, orders):
    def user(key, value) -> str: ...

    orders.group_by(user).count(Materialized.as_("n"))
    assert isinstance(configured(builder).stores["n"].key_serde, StringSerde)


def test_a_composite_key_is_json_of_its_fields(builder, orders):
    orders.group_by({"who": "user", "what": pl.col("amount") % 2}).count(Materialized.as_("n"))
    topology = builder.build()
    select = topology.nodes[1].operator
    assert isinstance(select, SelectKey) and select.schema.names == ["who", "what"]
    assert topology.stores["n"].key_serde.serialize({"who": "a", "what": 1}) == b'{"who":"a","what":1}'


def test_null_keys_survive_a_repartition_only_before_a_left_join(builder, orders):
    users = builder.table("users", USERS)
    rekeyed = orders.select_key("user")
    rekeyed.join(users, {"city": right("city")}, name="inner")
    rekeyed.left_join(users, {"city": right("city")}, name="outer")
    filters = {
        node.name: node.operator.keep_null_keys
        for node in builder.build().nodes
        if isinstance(getattr(node, "operator", None), RepartitionFilter)
    }
    assert filters == {"inner-repartition-filter": False, "outer-repartition-filter": True}


def test_a_repartition_is_a_topic_with_the_serdes_of_the_stream_or_its_own(builder, orders):
    again = orders.select_key("user").repartition(Repartitioned.with_(name="users", number_of_partitions=5))
    topology = configured(builder)
    assert topology.internal_topics == {"users-repartition": InternalTopic("users-repartition", 5)}
    assert topology.repartitions == {}
    source = topology.nodes[-1]
    assert (source.name, source.topics) == ("users-repartition-source", ("users-repartition",))
    assert isinstance(source.key_serde, StringSerde) and isinstance(source.value_serde, JsonSerde)
    assert not again._state.rekeyed
    orders.repartition(Repartitioned.with_(Serdes.string()).with_value_serde(Serdes.string()))
    assert isinstance(configured(builder).nodes[-1].value_serde, StringSerde)
    assert configured(builder).nodes[-1].topics == ("KSTREAM-REPARTITION-0000000005-repartition",)


def test_a_repartition_of_values_of_unknown_type_needs_a_serde(builder, orders):
    orders.map_values(lambda value: value).repartition()
    assert condition_of(lambda: configured(builder)) == "UNKNOWN_SERDE"


@pytest.mark.parametrize("number", [0, -1, True, "2"])
def test_a_repartition_has_one_partition_or_more(number):
    assert condition_of(lambda: Repartitioned.as_("x").with_number_of_partitions(number)) == "INVALID_PARTITIONS"


def test_two_repartitions_need_two_names(orders):
    orders.repartition(Repartitioned.as_("x"))
    assert condition_of(lambda: orders.repartition(Repartitioned.as_("x"))) == "DUPLICATE_REPARTITION"


def test_an_internal_topic_carries_the_id_of_the_application_but_is_shown_without(builder, orders):
    orders.repartition(Repartitioned.as_("x")).to("out")
    named = with_application_id(builder.build(), "app")
    assert list(named.internal_topics) == ["app-x-repartition"]
    assert [node.topics for node in named.nodes if isinstance(node, SourceNode)] == [
        ("orders",),
        ("app-x-repartition",),
    ]
    assert named.describe() == builder.build().describe()
    assert "(topics: [x-repartition])" in named.describe()
