"""Stores with an interface of the user's own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.best_values import Best, Offer, best

from hayase import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
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

TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()


class Keep(Processor[str, int, Any, Any]):
    def init(self, context: Any) -> None:
        self.best = context.get_state_store("best")

    def process(self, record: Record[str, int]) -> None:
        self.best.offer(record.key, record.value)


class LookUp(FixedKeyProcessor[str, str, Any]):
    def init(self, context: Any) -> None:
        self.context, self.best = context, context.get_state_store("best")

    def process(self, record: FixedKeyRecord[str, str]) -> None:
        self.context.forward(record.with_value(self.best.of(record.value)))


class Write(LookUp):
    def process(self, record: FixedKeyRecord[str, str]) -> None:
        self.best.offer(record.value, 1)


def offering() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(best())
    offers = builder.stream("in", Consumed.with_(TEXT, LONG))
    offers.process_values(Offer, "best").to("out", Produced.with_(TEXT, JSON))
    return builder.build()


def looking(reader: Any) -> Topology:
    builder = StreamsBuilder()
    builder.add_global_store(best(), "numbers", Consumed.with_(TEXT, LONG), Keep)
    asked = builder.stream("asked", Consumed.with_(TEXT, TEXT))
    asked.process_values(reader).to("out", Produced.with_(TEXT, JSON))
    return builder.build()


def test_a_processor_works_with_the_interface_and_what_it_writes_lasts_from_record_to_record() -> None:
    with TopologyTestDriver(offering()) as driver:
        source = driver.create_input_topic("in", TEXT, LONG)
        for key, value in [("a", 3), ("b", 1), ("a", 9), ("a", 5)]:
            source.pipe_input(key, value)
        found = driver.create_output_topic("out", TEXT, JSON).read_key_values_to_list()
    assert found == [("a", [3]), ("b", [1]), ("a", [9, 3]), ("a", [9, 5])]


def test_the_test_driver_gives_the_store_with_its_interface() -> None:
    with TopologyTestDriver(offering()) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("a", 3)
        assert driver.store("best").of("a") == [3]


def test_a_global_store_has_the_interface_for_its_own_processor_and_for_all_that_read_it() -> None:
    with TopologyTestDriver(looking(LookUp)) as driver:
        numbers = driver.create_input_topic("numbers", TEXT, LONG)
        for value in (4, 7):
            numbers.pipe_input("a", value)
        driver.create_input_topic("asked", TEXT, TEXT).pipe_input("x", "a")
        assert driver.create_output_topic("out", TEXT, JSON).read_value() == [7, 4]


def test_who_only_reads_a_global_store_cannot_write_it_through_the_interface_either() -> None:
    with TopologyTestDriver(looking(Write)) as driver, pytest.raises(Exception, match="put"):
        driver.create_input_topic("asked", TEXT, TEXT).pipe_input("x", "a")


@pytest.mark.parametrize(
    "spec",
    [
        Stores.timestamped_key_value_store("s", TEXT, LONG),
        Stores.window_store("s", TEXT, LONG, window_size=timedelta(seconds=1), retention=timedelta(seconds=2)),
        Stores.session_store("s", TEXT, LONG, retention=timedelta(seconds=2)),
        Stores.versioned_key_value_store("s", TEXT, LONG, history_retention=timedelta(seconds=2)),
    ],
    ids=lambda spec: spec.kind,
)
def test_every_kind_of_store_can_be_below(spec: StoreSpec) -> None:
    opened: list[str] = []

    def seen(store: Any) -> Any:
        opened.append(type(store).__name__)
        return store

    class Use(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            context.get_state_store("s")

        def process(self, record: Record[Any, Any]) -> None: ...

    builder = StreamsBuilder()
    builder.add_state_store(Stores.custom_store(seen, spec))
    builder.stream("in", Consumed.with_(TEXT, LONG)).process(Use, "s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("a", 1)
    below = "".join(part.title() for part in spec.kind.split("_"))
    assert opened[0] == f"{below}Store"


@pytest.mark.parametrize(
    "made",
    [
        lambda: Stores.custom_store("Best", best()),  # type: ignore[arg-type]
        lambda: Stores.custom_store(Best, best()),
        lambda: Stores.custom_store(Best, "best"),  # type: ignore[arg-type]
    ],
    ids=["not callable", "custom already", "no store"],
)
def test_what_is_no_interface_and_what_is_no_store_are_refused(made: Any) -> None:
    with pytest.raises(TopologyError, match="INVALID_STORE"):
        made()
