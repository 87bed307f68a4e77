"""Rows of a table with the values that an object of the user makes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hayase import (
    Consumed,
    Grouped,
    KTable,
    Materialized,
    Produced,
    PunctuationType,
    Serdes,
    Stores,
    StreamsBuilder,
    TopologyError,
    ValueTransformerWithKey,
)
from hayase.core.errors import ProcessingError, UnknownStoreError
from hayase.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
IN, OUT = Consumed.with_(TEXT, LONG), Produced.with_(TEXT, LONG)


class Made(ValueTransformerWithKey[Any, Any, Any]):
    """Does what it is told."""

    def __init__(
        self, transform: Callable[[Any, Any, Any], Any], init: Callable[[Any], None] = lambda context: None
    ) -> None:
        self._transform, self._init = transform, init

    def init(self, context: Any) -> None:
        self.context = context
        self._init(context)

    def transform(self, key: Any, value: Any) -> Any:
        return self._transform(self.context, key, value)


def outputs(table: KTable[Any, Any], builder: StreamsBuilder, rows: list[tuple[str, int | None]]) -> list[Any]:
    table.to_stream().to("out", OUT)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        for key, value in rows:
            topic.pipe_input(key, value)
        return driver.create_output_topic("out", TEXT, LONG).read_key_values_to_list()


def test_a_delete_is_shown_to_the_transformer_which_may_give_it_a_value() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", IN).transform_values(lambda: Made(lambda _, key, value: -1 if value is None else value))
    assert outputs(table, builder, [("a", 1), ("a", None)]) == [("a", 1), ("a", -1)]


def test_it_reads_and_writes_the_stores_it_is_connected_with() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("sums", TEXT, LONG))

    def add(context: Any, key: str, value: int) -> int:
        sums = context.get_state_store("sums")
        sums.put(key, (sums.get(key) or 0) + value)
        return int(sums.get(key))

    table = builder.table("in", IN).transform_values(lambda: Made(add), "sums")
    assert outputs(table, builder, [("a", 1), ("a", 2), ("b", 5)]) == [("a", 1), ("a", 3), ("b", 5)]


def test_a_named_store_keeps_what_was_made() -> None:
    builder = StreamsBuilder()
    kept = Materialized.as_("kept").with_key_serde(TEXT).with_value_serde(LONG)
    table = builder.table("in", IN)
    table.transform_values(lambda: Made(lambda _, key, value: value * 10), materialized=kept)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("a", 4)
        assert driver.store("kept").get("a").value == 40


def test_a_join_looks_rows_up_through_the_transformer() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", IN).transform_values(lambda: Made(lambda _, key, value: value * 10))
    stream = builder.stream("clicks", IN)
    stream.join(table, lambda click, row: click + row).to("out", OUT)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("a", 4)
        driver.create_input_topic("clicks", TEXT, LONG).pipe_input("a", 1)
        assert driver.create_output_topic("out", TEXT, LONG).read_key_values_to_list() == [("a", 41)]


def test_an_aggregate_downstream_subtracts_what_was_made_of_the_old_row() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", IN).transform_values(
        lambda: Made(lambda _, key, value: None if value is None else value * 10)
    )
    grouped = table.group_by(lambda key, value: ("all", value), Grouped.with_(TEXT, LONG))
    sums = grouped.reduce(lambda a, b: a + b, lambda a, b: a - b)
    found = outputs(sums, builder, [("a", 1), ("b", 2), ("a", 5), ("b", None)])
    assert found[-1] == ("all", 50)


def test_punctuations_are_called_and_nothing_can_be_forwarded() -> None:
    told: list[int] = []
    builder = StreamsBuilder()

    def init(context: Any) -> None:
        assert not hasattr(context, "forward")
        context.schedule(timedelta(seconds=1), PunctuationType.STREAM_TIME, told.append)

    table = builder.table("in", IN).transform_values(lambda: Made(lambda _, key, value: value, init))
    table.to_stream().to("out", OUT)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        for second in (1, 2, 3):
            topic.pipe_input("a", 1, timestamp_ms=second * 1000)
    assert told == [1000, 2000, 3000]


@pytest.mark.parametrize("supplier", [Made(lambda *_: None), dict, 3, lambda needed: needed])
def test_what_supplies_no_transformer_is_refused_when_the_topology_is_built(supplier: Any) -> None:
    with pytest.raises(TopologyError, match="INVALID_PROCESSOR"):
        StreamsBuilder().table("in", IN).transform_values(supplier)


def test_a_supplier_that_makes_something_else_and_a_store_that_is_not_connected_name_the_node() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", IN).transform_values(lambda: dict(), name="mine")  # type: ignore[arg-type, return-value]  # noqa: C408, PLW0108
    with pytest.raises(TopologyError, match="ValueTransformerWithKey"):
        outputs(table, builder, [("a", 1)])
    builder = StreamsBuilder()
    reads = Made(lambda context, key, value: context.get_state_store("other"))
    table = builder.table("in", IN).transform_values(lambda: reads, name="mine")
    with pytest.raises((UnknownStoreError, ProcessingError), match="STORE_NOT_CONNECTED"):
        outputs(table, builder, [("a", 1)])
