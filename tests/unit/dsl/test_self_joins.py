"""`topology.optimization`: one window store for a stream that is joined with itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hayase import Consumed, JoinWindows, KStream, Produced, Serdes, StreamJoined, StreamsBuilder, Topology

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, TEXT)
WINDOWS = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=5))
SINGLE = {"topology.optimization": "single.store.self.join"}
Streams = tuple[KStream[Any, Any], KStream[Any, Any]]


def built(
    settings: dict[str, str] | None,
    streams: Callable[[StreamsBuilder], Streams],
    kind: str = "join",
    joined: StreamJoined[Any, Any, Any] | None = None,
) -> Topology:
    builder = StreamsBuilder()
    one, two = streams(builder)
    options = StreamJoined.with_(TEXT, TEXT, TEXT) if joined is None else joined
    result = getattr(one, kind)(two, lambda left, right: f"{left}+{right}", WINDOWS, options)
    result.to("out", Produced.with_(TEXT, TEXT))
    return builder.build(settings)


def twice(builder: StreamsBuilder) -> Streams:
    stream = builder.stream("in", READ)
    return stream, stream


def read_twice(builder: StreamsBuilder) -> Streams:
    return builder.stream("in", READ), builder.stream("in", READ)


def rekeyed(builder: StreamsBuilder) -> Streams:
    stream = builder.stream("in", READ).select_key(lambda key, value: value)
    return stream, stream


def merged(builder: StreamsBuilder) -> Streams:
    stream = builder.stream("in", READ).merge(builder.stream("more", READ))
    return stream, stream


def changed(builder: StreamsBuilder) -> Streams:
    stream = builder.stream("in", READ)
    return stream, stream.map_values(lambda value: value)


def different(builder: StreamsBuilder) -> Streams:
    return builder.stream("in", READ), builder.stream("more", READ)


@pytest.mark.parametrize("words", ["single.store.self.join", "all", "merge.repartition.topics,single.store.self.join"])
def test_one_store_and_the_node_of_the_merge_are_left(words: str) -> None:
    topology = built({"topology.optimization": words}, twice)
    assert list(topology.stores) == ["KSTREAM-JOINTHIS-0000000003-store"]
    assert str(topology.describe()).splitlines() == [
        "Topologies:",
        "   Sub-topology: 0",
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [in])",
        "      --> KSTREAM-WINDOWED-0000000001",
        "    Processor: KSTREAM-WINDOWED-0000000001 (stores: [KSTREAM-JOINTHIS-0000000003-store])",
        "      --> KSTREAM-MERGE-0000000005",
        "      <-- KSTREAM-SOURCE-0000000000",
        "    Processor: KSTREAM-MERGE-0000000005 (stores: [KSTREAM-JOINTHIS-0000000003-store])",
        "      --> KSTREAM-SINK-0000000006",
        "      <-- KSTREAM-WINDOWED-0000000001",
        "    Sink: KSTREAM-SINK-0000000006 (topic: out)",
        "      <-- KSTREAM-MERGE-0000000005",
        "",
    ]


@pytest.mark.parametrize("words", ["none", "merge.repartition.topics", "reuse.ktable.source.topics"])
def test_without_the_word_there_are_two_stores(words: str) -> None:
    assert len(built({"topology.optimization": words}, twice).stores) == 2


@pytest.mark.parametrize("streams", [read_twice, rekeyed])
def test_what_is_one_node_is_one_stream(streams: Callable[[StreamsBuilder], Streams]) -> None:
    assert len(built(SINGLE, streams).stores) == 1


@pytest.mark.parametrize("streams", [merged, changed, different])
def test_other_streams_keep_two_stores(streams: Callable[[StreamsBuilder], Streams]) -> None:
    assert str(built(SINGLE, streams).describe()) == str(built(None, streams).describe())


@pytest.mark.parametrize("kind", ["left_join", "outer_join"])
def test_joins_that_are_not_inner_keep_two_stores(kind: str) -> None:
    assert str(built(SINGLE, twice, kind).describe()) == str(built(None, twice, kind).describe())


def test_sides_that_are_kept_by_different_serdes_keep_two_stores() -> None:
    assert len(built(SINGLE, twice, joined=StreamJoined.with_(TEXT, TEXT, Serdes.json())).stores) == 2


def test_names_of_the_join_stay() -> None:
    topology = built(
        SINGLE, twice, joined=StreamJoined.with_(TEXT, TEXT, TEXT).with_name("pairs").with_store_name("kept")
    )
    assert list(topology.stores) == ["kept-this-join-store"]
    assert {"pairs-this-windowed", "pairs-merge"} <= set(topology.by_name)
    assert "pairs-other-windowed" not in topology.by_name
