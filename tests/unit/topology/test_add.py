"""Building a topology node by node."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hayase import Processor, Serdes, Stores, StreamsBuilder, Topology, TopologyError
from hayase.testing import TopologyTestDriver

TEXT = Serdes.string()


class Copy(Processor[Any, Any, Any, Any]):
    """Sends on what comes."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        self.context.forward(record)


class Keep(Copy):
    """Keeps what comes in the store `kept`."""

    def process(self, record: Any) -> None:
        self.context.get_state_store("kept").put(record.key, record.value)


def store(name: str = "kept") -> Any:
    return Stores.key_value_store(name, TEXT, TEXT)


def begun() -> Topology:
    return Topology().add_source("source", "in", key_serde=TEXT, value_serde=TEXT).add_processor("copy", Copy, "source")


def test_calls_can_be_chained_or_not() -> None:
    chained = begun().add_sink("sink", "out", "copy")
    single = begun()
    single.add_sink("sink", "out", "copy")
    assert single.describe() == chained.describe()


def test_processors_that_share_a_store_are_in_one_sub_topology() -> None:
    topology = begun().add_source("other", "more").add_processor("keep", Keep, "other")
    assert len(topology.subtopologies) == 2
    topology.add_state_store(store(), "keep")
    topology.connect_processor_and_state_stores("copy", "kept")
    assert len(topology.subtopologies) == 1


def test_what_the_builder_made_can_be_added_to() -> None:
    builder = StreamsBuilder()
    builder.stream("in").peek(lambda key, value: None, name="seen")
    topology = builder.build()
    topology.add_processor("copy", Copy, "seen").add_sink(
        "sink", "out", "copy", key_serde=Serdes.bytes(), value_serde=Serdes.bytes()
    )
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v")
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values_to_list() == [("k", "v")]


def test_a_read_only_store_is_kept_from_its_topic() -> None:
    topology = Topology().add_read_only_state_store(
        store(), "rows", "table", "keep", Keep, key_serde=TEXT, value_serde=TEXT
    )
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("table", TEXT, TEXT).pipe_input("k", "v")
        assert driver.store("kept").get("k") == "v"


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (lambda t: t.add_source("source", "x"), "two nodes named 'source'"),
        (lambda t: t.add_source("again", "in"), "already read by 'source'"),
        (lambda t: t.add_source("again", re.compile("i.*")), "already read by 'source'"),
        (lambda t: t.add_source("none"), "topics' names, or one pattern"),
        (lambda t: t.add_source("mixed", "a", re.compile("b")), "topics' names, or one pattern"),
        (lambda t: t.add_processor("p", Copy), "at least one parent"),
        (lambda t: t.add_processor("p", Copy, "nobody"), "'nobody'"),
        (lambda t: t.add_processor("p", Copy(), "source"), "every task needs its own"),
        (lambda t: t.add_sink("s", "out"), "at least one parent"),
        (lambda t: t.add_sink("s", "out", "copy").add_processor("p", Copy, "s"), "is a sink"),
        (lambda t: t.add_state_store(store(), "nobody"), "no processor 'nobody'"),
        (lambda t: t.add_state_store("kept"), "what Stores makes"),
        (lambda t: t.add_state_store(store()).add_state_store(store()), "two stores named 'kept'"),
        (lambda t: t.connect_processor_and_state_stores("copy", "absent"), "no store 'absent'"),
        (lambda t: t.connect_processor_and_state_stores("source", "absent"), "no processor 'source'"),
    ],
)
def test_mistakes_are_named_where_they_are_made(add: Any, said: str) -> None:
    topology = begun()
    with pytest.raises(TopologyError, match=re.escape(said)):
        add(topology)


def test_a_refused_node_leaves_the_topology_as_it_was() -> None:
    topology = begun()
    before = topology.describe()
    with pytest.raises(TopologyError):
        topology.add_processor("p", Copy, "nobody")
    assert topology.describe() == before


def test_an_empty_topology_is_refused_when_it_is_to_run() -> None:
    with pytest.raises(TopologyError, match="no nodes"):
        TopologyTestDriver(Topology())
