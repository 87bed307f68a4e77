"""Global stores that a processor of the user keeps."""

from __future__ import annotations

from typing import Any

import pytest

from hayase import (
    Consumed,
    FixedKeyProcessor,
    Processor,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
)
from hayase.state.stores.spec import StoreSpec
from hayase.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()


def store() -> StoreSpec:
    return Stores.key_value_store("sums", TEXT, LONG)


class KeepSum(Processor[str, int, Any, Any]):
    def init(self, context: Any) -> None:
        self.context, self.sums = context, context.get_state_store("sums")

    def process(self, record: Record[str, int]) -> None:
        self.sums.put(record.key, (self.sums.get(record.key) or 0) + record.value)
        self.context.forward(record)  # nobody is there


class LookUp(FixedKeyProcessor[str, str, int]):
    def init(self, context: Any) -> None:
        self.context, self.sums = context, context.get_state_store("sums")

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(self.sums.get(record.value)))


class Write(FixedKeyProcessor[str, str, int]):
    def init(self, context: Any) -> None:
        context.get_state_store("sums").put("a", 1)

    def process(self, record: Any) -> None: ...


def built(reader: Any = LookUp) -> Topology:
    builder = StreamsBuilder()
    builder.add_global_store(store(), "numbers", Consumed.with_(TEXT, LONG), KeepSum)
    asked = builder.stream("asked", Consumed.with_(TEXT, TEXT))
    asked.process_values(reader).to("out", Produced.with_(TEXT, LONG))
    return builder.build()


def by_hand() -> Topology:
    topology = Topology()
    topology.add_global_store(store(), "in", "numbers", "keep", KeepSum, key_serde=TEXT, value_serde=LONG)
    topology.add_source("asked", "asked", key_serde=TEXT, value_serde=TEXT)
    topology.add_processor("look-up", LookUp, "asked")
    return topology.add_sink("out", "out", "look-up", key_serde=TEXT, value_serde=LONG)


@pytest.mark.parametrize("topology", [built(), by_hand()], ids=["builder", "by hand"])
def test_what_the_processor_keeps_is_read_by_every_task_and_by_queries(topology: Topology) -> None:
    with TopologyTestDriver(topology) as driver:
        numbers = driver.create_input_topic("numbers", TEXT, LONG)
        for value in (1, 2, 4):
            numbers.pipe_input("a", value)
        driver.create_input_topic("asked", TEXT, TEXT).pipe_input("q", "a")
        assert driver.create_output_topic("out", TEXT, LONG).read_key_values_to_list() == [("q", 7)]
        assert driver.store("sums").get("a") == 7


def test_the_text_of_the_topology_shows_it_as_a_sub_topology_of_its_own_kind() -> None:
    assert "(will not generate tasks)" in str(by_hand().describe()) or "global store" in str(by_hand().describe())


def test_others_cannot_write_it() -> None:
    with (
        pytest.raises(Exception, match="put"),
        TopologyTestDriver(built(Write)) as driver,
    ):
        driver.create_input_topic("asked", TEXT, TEXT).pipe_input("q", "a")


def test_what_cannot_be_a_global_store_is_refused() -> None:
    consumed = Consumed.with_(TEXT, LONG)
    with pytest.raises(TopologyError, match="INVALID_PROCESSOR"):
        StreamsBuilder().add_global_store(store(), "numbers", consumed, LookUp)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="INVALID_STORE"):
        StreamsBuilder().add_global_store("sums", "numbers", consumed, KeepSum)  # type: ignore[arg-type]
    builder = StreamsBuilder()
    builder.stream("numbers", consumed)
    with pytest.raises(TopologyError, match="TOPIC_READ_TWICE"):
        builder.add_global_store(store(), "numbers", consumed, KeepSum)
    topology = by_hand()
    with pytest.raises(TopologyError, match="TOPIC_READ_TWICE"):
        topology.add_global_store(Stores.key_value_store("b", TEXT, LONG), "x", "asked", "y", KeepSum)
    with pytest.raises(TopologyError, match="DUPLICATE"):
        topology.add_global_store(store(), "x", "others", "y", KeepSum)
