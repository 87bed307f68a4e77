from __future__ import annotations

import pytest

from hayase.core.errors import TopologyError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.dsl import Consumed, Materialized, Named, StreamsBuilder
from hayase.processor.timestamps import callable_timestamp, field_timestamp
from hayase.serde import BytesSerde, LongSerde, Serdes, StringSerde
from hayase.topology.defaults import DefaultSerde
from hayase.topology.nodes import SourceNode
from hayase.topology.operators import TableSource

STRINGS = Consumed.with_(Serdes.string(), Serdes.string())


def condition_of(function):
    with pytest.raises(TopologyError) as caught:
        function()
    return caught.value.condition


def test_the_options_of_a_source_reach_its_node():
    builder = StreamsBuilder()
    extractor = field_timestamp("at")
    builder.stream(["a", "b"], Consumed.with_(Serdes.string(), Serdes.long(), extractor, "latest", "in")).to("out")
    (source, _) = builder.build().nodes
    assert isinstance(source, SourceNode)
    assert (source.name, source.topics, source.timestamp_extractor, source.reset) == (
        "in",
        ("a", "b"),
        extractor,
        AutoOffsetReset.latest(),
    )
    assert isinstance(source.key_serde, StringSerde) and isinstance(source.value_serde, LongSerde)


def test_a_plain_function_is_a_timestamp_extractor():
    def extract(record, partition_time_ms):
        return 0

    assert Consumed.with_(timestamp_extractor=extract).timestamp_extractor == callable_timestamp(extract)


def test_a_source_without_serdes_leaves_them_to_the_configuration():
    builder = StreamsBuilder()
    builder.stream("a").to("out")
    source, sink = builder.build().nodes
    assert (source.key_serde, source.value_serde) == (None, None)
    assert isinstance(sink.key_serde, DefaultSerde) and isinstance(sink.key_serde.fallback, BytesSerde)


def test_streams_of_the_same_topics_share_one_source():
    builder = StreamsBuilder()
    builder.stream("a", STRINGS).to("x")
    builder.stream("a", STRINGS).to("y")
    nodes = builder.build().nodes
    assert [node.name for node in nodes] == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-SINK-0000000001",
        "KSTREAM-SINK-0000000003",
    ]
    assert nodes[2].parents == ("KSTREAM-SOURCE-0000000000",)


def test_streams_of_the_same_topic_with_other_serdes_are_refused():
    builder = StreamsBuilder()
    builder.stream("a", STRINGS)
    other = Consumed.with_(Serdes.string(), Serdes.long())
    assert condition_of(lambda: builder.stream("a", other)) == "CONFLICTING_SOURCES"


@pytest.mark.parametrize("first", ["stream", "table", "global_table"])
@pytest.mark.parametrize("second", ["table", "global_table"])
def test_a_topic_is_read_once(first, second):
    builder = StreamsBuilder()
    getattr(builder, first)("a", STRINGS)
    assert condition_of(lambda: getattr(builder, second)("a", STRINGS)) == "TOPIC_READ_TWICE"


def test_a_topic_is_not_read_alone_and_together_with_another():
    builder = StreamsBuilder()
    builder.stream(["a", "b"], STRINGS)
    assert condition_of(lambda: builder.stream("a", STRINGS)) == "TOPIC_READ_TWICE"


def test_a_table_keeps_rows_only_if_its_store_is_named():
    builder = StreamsBuilder()
    builder.table("a", STRINGS)
    named = builder.table("b", STRINGS, Materialized.as_("rows").with_caching_disabled())
    topology = builder.build()
    assert list(topology.stores) == ["rows"]
    assert (topology.stores["rows"].kind, topology.stores["rows"].caching) == ("timestamped_key_value", False)
    assert named.queryable_store_name == "rows"
    assert [node.operator.store for node in topology.nodes if hasattr(node, "operator")] == [None, "rows"]


def test_a_join_makes_a_table_keep_its_rows():
    builder = StreamsBuilder()
    table = builder.table("t", STRINGS)
    builder.stream("s", STRINGS).join(table, lambda left, right: left + right).to("out")
    topology = builder.build()
    (operator,) = [n.operator for n in topology.nodes if getattr(n, "name", "").startswith("KTABLE-SOURCE")]
    assert isinstance(operator, TableSource)
    assert operator.store == "t-STATE-STORE-0000000000"
    assert list(topology.stores) == ["t-STATE-STORE-0000000000"]
    assert len(topology.subtopologies) == 1


def test_a_named_table_names_its_source_too():
    builder = StreamsBuilder()
    builder.table("t", Consumed.with_(Serdes.string(), Serdes.string(), name="users"))
    assert [node.name for node in builder.build().nodes] == ["users-source", "users"]


def test_a_global_table_is_always_kept_and_its_topic_is_its_changelog():
    builder = StreamsBuilder()
    table = builder.global_table("g", STRINGS)
    topology = builder.build()
    (spec,) = topology.stores.values()
    assert not spec.caching
    assert topology.global_tables[0].store == spec.name
    assert table.queryable_store_name is None


def test_the_serdes_of_a_table_may_stand_in_either_object():
    builder = StreamsBuilder()
    builder.table("t", None, Materialized.as_("rows").with_key_serde(Serdes.string()).with_value_serde(Serdes.long()))
    topology = builder.build()
    assert isinstance(topology.nodes[0].value_serde, LongSerde)
    assert isinstance(topology.stores["rows"].key_serde, StringSerde)


def test_two_nodes_or_stores_of_one_name_are_refused():
    builder = StreamsBuilder()
    stream = builder.stream("a", STRINGS)
    stream.peek(print, name="x")
    stream.peek(print, name="x")
    assert condition_of(builder.build) == "DUPLICATE_NAME"
    builder.table("t", STRINGS, Materialized.as_("rows"))
    assert condition_of(lambda: builder.table("u", STRINGS, Materialized.as_("rows"))) == "DUPLICATE_STORE"


def test_a_topology_of_nothing_is_refused():
    assert condition_of(StreamsBuilder().build) == "EMPTY_TOPOLOGY"


@pytest.mark.parametrize("topics", ["", [], [""], 5, [5]])
def test_a_topic_has_a_name(topics):
    assert condition_of(lambda: StreamsBuilder().stream(topics)) == "INVALID_TOPIC"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Consumed.with_(key_serde=str),
        lambda: Consumed.with_(reset="middle"),
        lambda: Consumed.with_(timestamp_extractor="at"),
        lambda: Consumed.as_("a b"),
        lambda: Named.as_(""),
        lambda: StreamsBuilder().stream("a", Materialized.as_("x")),
        lambda: StreamsBuilder().table(5),
    ],
)
def test_options_are_checked_when_they_are_made(wrong):
    with pytest.raises(TopologyError):
        wrong()


def test_a_name_may_be_a_named():
    builder = StreamsBuilder()
    builder.stream("a", STRINGS).peek(print, name=Named.as_("x"))
    assert builder.build().nodes[1].name == "x"
