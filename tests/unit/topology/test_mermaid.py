"""A topology drawn as a Mermaid flowchart."""

from __future__ import annotations

import re

import polars as pl

from hayase import Consumed, Grouped, Materialized, Repartitioned, Serdes, StreamsBuilder
from hayase.topology.resolve import with_application_id

TEXT = Consumed.with_(Serdes.string(), Serdes.string())


def test_topics_stores_shuffles_and_global_tables_are_drawn_where_they_belong() -> None:
    builder = StreamsBuilder()
    places = builder.global_table("places", TEXT, Materialized.as_("places"))
    stream = builder.stream("in", TEXT).join(places, lambda key, value: value, lambda left, right: right)
    stream.group_by(lambda key, value: value, Grouped.as_("by")).count(Materialized.as_("n"))
    assert builder.build().describe().to_mermaid().splitlines() == [
        "flowchart TD",
        '    subgraph sub0["Sub-topology 0 (global)"]',
        '        node0["KSTREAM-SOURCE-0000000000"]',
        '        node1["KTABLE-SOURCE-0000000001"]',
        "    end",
        '    subgraph sub1["Sub-topology 1"]',
        '        node2["KSTREAM-SOURCE-0000000002"]',
        '        node3["KSTREAM-LEFTJOIN-0000000003"]',
        '        node4["by"]',
        '        node5["by-repartition-filter"]',
        '        node6["by-repartition-sink"]',
        "    end",
        '    subgraph sub2["Sub-topology 2"]',
        '        node7["by-repartition-source"]',
        '        node8["KSTREAM-AGGREGATE-0000000005"]',
        "    end",
        '    topic0(["places"])',
        '    store0[("places")]',
        '    topic1(["in"])',
        '    topic2{{"by-repartition"}}',
        '    store1[("n")]',
        "    topic0 --> node0",
        "    node0 --> node1",
        "    node1 -.- store0",
        "    topic1 --> node2",
        "    node2 --> node3",
        "    node3 -.- store0",
        "    node3 --> node4",
        "    node4 --> node5",
        "    node5 --> node6",
        "    node6 --> topic2",
        "    topic2 --> node7",
        "    node7 --> node8",
        "    node8 -.- store1",
    ]


def test_internal_topics_patterns_and_chosen_topics_have_names_that_people_know() -> None:
    builder = StreamsBuilder()
    stream = builder.stream(re.compile("in-.*"), TEXT).repartition(Repartitioned.as_("x"))
    stream.to(pl.lit("to-") + pl.col("value"))
    drawn = with_application_id(builder.build(), "app").describe().to_mermaid()
    assert '(["x-repartition"])' in drawn
    assert '(["in-.*"])' in drawn
    assert drawn.count('"') % 2 == 0
    assert "#34;to-#34;" in drawn


def test_frames_of_sparks_are_drawn_with_the_topics_that_join_them() -> None:
    builder = StreamsBuilder()
    builder.from_spark("clicks", lambda spark: spark, TEXT).to_spark("archive", lambda frame, number: None)
    lines = with_application_id(builder.build(), "app").describe().to_mermaid().splitlines()
    assert lines[-5:] == [
        "    topic0 --> node0",
        "    node0 --> node1",
        "    node1 --> topic1",
        "    spark0 --> topic0",
        "    topic1 --> spark1",
    ]
    assert '    spark0[["from_spark: clicks"]]' in lines
    assert '    spark1[["to_spark: archive"]]' in lines
    assert '    topic0(["clicks-from-spark"])' in lines


def test_a_notebook_shows_a_topology_as_a_drawing_or_as_its_text() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    topology = builder.build()
    shown = topology._repr_mimebundle_()
    assert shown == {"text/vnd.mermaid": topology.describe().to_mermaid(), "text/plain": str(topology.describe())}
