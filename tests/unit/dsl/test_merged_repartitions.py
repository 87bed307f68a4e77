"""`topology.optimization`: one repartition in place of several below one change of key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from hayase import Consumed, Grouped, KStream, Materialized, Produced, Serdes, StreamsBuilder, Topology
from hayase.core.errors import ConfigError
from hayase.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
MERGE = {"topology.optimization": "merge.repartition.topics"}
Shape = Callable[[KStream[Any, Any]], KStream[Any, Any]]


def built(settings: dict[str, str] | None, *shapes: Shape, grouped: Grouped | None = None) -> Topology:
    """Below one change of key: an aggregate for each shape."""
    builder = StreamsBuilder()
    keyed = builder.stream("in", Consumed.with_(TEXT, LONG)).select_key(lambda key, value: key and key[:1])
    for number, shape in enumerate(shapes):
        options = grouped if number and grouped is not None else Grouped.with_(TEXT, LONG)
        store = Materialized.as_(f"s{number}").with_key_serde(TEXT).with_value_serde(LONG)
        sums = shape(keyed).group_by_key(options).reduce(lambda a, b: a + b, store)
        sums.to_stream().to(f"out{number}", Produced.with_(TEXT, LONG))
    return builder.build(settings)


def same(stream: KStream[Any, Any]) -> KStream[Any, Any]:
    return stream


def filtered(stream: KStream[Any, Any]) -> KStream[Any, Any]:
    return stream.filter(lambda key, value: value % 2 == 0)


def doubled(stream: KStream[Any, Any]) -> KStream[Any, Any]:
    return stream.map_values(lambda value: value * 2)


def results(topology: Topology, outputs: int) -> list[Any]:
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        for number, key in enumerate(["ab", "ac", None, "b", "ad", "bb"]):
            topic.pipe_input(key, number)
        return [
            driver.create_output_topic(f"out{each}", TEXT, LONG).read_key_values_to_list() for each in range(outputs)
        ]


def test_two_equal_json_schemas_are_one_serde_and_two_others_are_not() -> None:
    def repartitions(*schemas: dict[str, Any]) -> int:
        builder = StreamsBuilder()
        keyed = builder.stream("in", Consumed.with_(TEXT, LONG)).select_key(lambda key, value: key)
        for number, schema in enumerate(schemas):
            grouped = Grouped.with_(TEXT, Serdes.json(schema=schema))
            keyed.group_by_key(grouped).count(Materialized.as_(f"s{number}"))
        return len(builder.build(MERGE).repartitions)

    assert repartitions({"a": pl.Int64}, {"a": pl.Int64}) == 1
    assert repartitions({"a": pl.Int64}, {"a": pl.String}) == 2
    assert repartitions({"a": pl.Int64, "b": pl.Int64}, {"b": pl.Int64, "a": pl.Int64}) == 2


def test_without_the_setting_each_grouping_has_its_own() -> None:
    assert list(built(None, same, same).repartitions) == ["s0-repartition", "s1-repartition"]


@pytest.mark.parametrize("word", ["all", "merge.repartition.topics", "single.store.self.join,merge.repartition.topics"])
def test_several_become_the_first_one(word: str) -> None:
    topology = built({"topology.optimization": word}, same, filtered, same)
    assert list(topology.repartitions) == ["s0-repartition"]
    assert len(topology.subtopologies) == 2


def test_the_results_are_the_same() -> None:
    shapes = (same, filtered, same)
    assert results(built(MERGE, *shapes), 3) == results(built(None, *shapes), 3)


def test_behind_a_change_of_values_a_repartition_stays() -> None:
    assert list(built(MERGE, same, doubled).repartitions) == ["s0-repartition", "s1-repartition"]


def test_with_another_serde_a_repartition_stays() -> None:
    assert len(built(MERGE, same, same, grouped=Grouped.with_(TEXT, Serdes.integer())).repartitions) == 2


def test_what_has_other_children_is_not_moved() -> None:
    def peeked(stream: KStream[Any, Any]) -> KStream[Any, Any]:
        shared = stream.filter(lambda key, value: True)
        shared.to("copy", Produced.with_(TEXT, LONG))
        return shared

    assert len(built(MERGE, same, peeked).repartitions) == 2


def test_one_alone_is_left_as_it_is() -> None:
    assert str(built(MERGE, filtered).describe()) == str(built(None, filtered).describe())


def test_an_unknown_word_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"merge\.repartition\.topics"):
        built({"topology.optimization": "faster"}, same)
