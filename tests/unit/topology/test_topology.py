from __future__ import annotations

import pytest

from hayase.core.errors import TopologyError
from hayase.dsl import Consumed, Materialized, StreamsBuilder
from hayase.serde import BytesSerde, LongSerde, Serdes, StringSerde, TimeWindowedSerde
from hayase.topology.defaults import DefaultSerde, with_default_serdes
from hayase.topology.nodes import SinkNode, SourceNode
from hayase.topology.topology import Topology

STRINGS = Consumed.with_(Serdes.string(), Serdes.string())


def test_a_parent_must_have_been_added_before():
    sink = SinkNode("sink", ("source",), "out", None, None)
    source = SourceNode("source", ("in",), None, None)
    with pytest.raises(TopologyError) as caught:
        Topology((sink, source), {}, {})
    assert caught.value.condition == "UNKNOWN_PARENT"


def test_children_are_in_the_order_they_were_added():
    source = SourceNode("source", ("in",), None, None)
    sinks = tuple(SinkNode(name, ("source",), name, None, None) for name in ("b", "a"))
    topology = Topology((source, *sinks), {}, {})
    assert topology.children["source"] == ("b", "a")
    assert topology.by_name["a"] is sinks[1]


def test_sub_topologies_are_numbered_in_the_order_in_which_their_first_nodes_were_added():
    builder = StreamsBuilder()
    builder.stream("x", Consumed.as_("z-source")).to("out")
    builder.stream("y", Consumed.as_("a-source")).to("out")
    found = [(part.id, part.sources[0].name, part.sinks[0].topic) for part in builder.build().subtopologies]
    assert found == [(0, "z-source", "out"), (1, "a-source", "out")]


def test_a_global_table_takes_a_number_but_is_no_sub_topology():
    builder = StreamsBuilder()
    table = builder.global_table("g", STRINGS, Materialized.as_("rows"))
    builder.stream("x", STRINGS).join(table, lambda key, value: key, lambda left, right: left).to("out")
    topology = builder.build()
    assert [part.id for part in topology.subtopologies] == [1]
    assert topology.global_table_ids == {"rows": 0}


def test_nodes_that_share_a_store_are_in_one_sub_topology():
    builder = StreamsBuilder()
    table = builder.table("t", STRINGS, Materialized.as_("rows"))
    builder.stream("x", STRINGS).join(table, lambda left, right: left).to("out")
    (part,) = builder.build().subtopologies
    assert [source.topics for source in part.sources] == [("t",), ("x",)]
    assert part.store_names == ("rows",)


def windowed_counts():
    from datetime import timedelta

    from hayase.core.windows import TimeWindows

    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    windows = TimeWindows.of_size_with_no_grace(timedelta(milliseconds=10))
    grouped.windowed_by(windows).count(Materialized.as_("n")).to_stream().to("out")
    return builder.build()


def test_the_configured_serdes_take_the_place_of_defaults_everywhere():
    topology = with_default_serdes(windowed_counts(), Serdes.string(), Serdes.long(), Serdes.bytes())
    source, sink = topology.nodes[0], topology.nodes[-1]
    assert isinstance(source.key_serde, StringSerde) and isinstance(source.value_serde, LongSerde)
    assert isinstance(topology.stores["n"].key_serde, StringSerde)
    assert isinstance(sink.key_serde, TimeWindowedSerde) and isinstance(sink.key_serde.inner, StringSerde)


def test_without_configured_serdes_sources_give_bytes():
    topology = with_default_serdes(windowed_counts(), None, None, Serdes.bytes())
    assert isinstance(topology.nodes[0].key_serde, BytesSerde)
    assert isinstance(topology.stores["n"].key_serde, BytesSerde)


def test_given_serdes_stay_and_sinks_of_unknown_values_too():
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).map_values(lambda value: value).to("out")
    topology = with_default_serdes(builder.build(), Serdes.long(), Serdes.long(), Serdes.bytes())
    assert isinstance(topology.nodes[0].key_serde, StringSerde)
    assert topology.nodes[-1].value_serde is None


def test_a_serde_that_nobody_knows_is_an_error_that_says_who_needs_it():
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).group_by(lambda key, value: value).count(Materialized.as_("n"))
    with pytest.raises(TopologyError, match=r"default\.key\.serde") as caught:
        with_default_serdes(builder.build(), None, None, Serdes.bytes())
    assert caught.value.condition == "UNKNOWN_SERDE"


def test_a_default_serde_works_as_its_fallback_until_it_is_replaced():
    serde = DefaultSerde("value", Serdes.string(), "x")
    assert serde.deserialize(serde.serialize("é")) == "é"
    assert serde.columns.schema.bare
