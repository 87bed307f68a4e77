"""Stores that processors keep, on Spark: custom ones, global ones, and those that only a query sees."""

from __future__ import annotations

from typing import Any

from tests.best_values import Best, Offer, best
from tests.spark.place import Place

from hayase import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    KeyQuery,
    Materialized,
    Processor,
    Produced,
    QueriedStore,
    Query,
    Record,
    Serdes,
    StateQueryRequest,
    Stores,
    StreamsApp,
    StreamsBuilder,
    Topology,
    ValueTransformerWithKey,
)

TEXT, JSON, LONG = Serdes.string(), Serdes.json(), Serdes.long()
IN, OUT = Consumed.with_(TEXT, JSON), Produced.with_(TEXT, JSON)


class Keep(Processor[str, Any, Any, Any]):
    def init(self, context: Any) -> None:
        self.sums = context.get_state_store("sums")

    def process(self, record: Record[str, Any]) -> None:
        self.sums.put(record.key, (self.sums.get(record.key) or 0) + record.value)


class LookUp(FixedKeyProcessor[str, str, Any]):
    def init(self, context: Any) -> None:
        self.context, self.sums = context, context.get_state_store("sums")

    def process(self, record: FixedKeyRecord[str, str]) -> None:
        self.context.forward(record.with_value(self.sums.get(record.value)))


class Times(ValueTransformerWithKey[str, Any, Any]):
    """How often the row of a key has come, beside it."""

    def init(self, context: Any) -> None:
        self.times = context.get_state_store("times")

    def transform(self, key: str, value: Any) -> Any:
        number = (self.times.get(key) or 0) + 1
        self.times.put(key, number)
        return {"value": value, "times": number}


class BestOf(Query[list[int]]):
    """Asks through the store's own interface."""

    def __init__(self, key: str) -> None:
        self.key = key

    def answer(self, store: QueriedStore) -> list[int]:
        best: Best = store.interface()
        return best.of(self.key)


def offers() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(best())
    builder.stream("in", IN).process_values(Offer, "best").to("out", OUT)
    return builder.build()


def sums() -> Topology:
    builder = StreamsBuilder()
    builder.add_global_store(Stores.key_value_store("sums", TEXT, LONG), "numbers", IN, Keep)
    builder.stream("asked", IN).process_values(LookUp).to("out", OUT)
    return builder.build()


def counted_rows() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("times", TEXT, LONG))
    rows = builder.table("in", IN).transform_values(
        Times, "times", materialized=Materialized.as_("rows").with_value_serde(JSON)
    )
    rows.to_stream().to("out", OUT)
    return builder.build()


def answers(app: StreamsApp, store: str, query: Query[Any]) -> list[Any]:
    result = app.query(StateQueryRequest.in_store(store).with_query(query))
    return [each.result for each in result.partition_results.values() if each.result]


def test_a_custom_store_lasts_from_run_to_run_and_a_query_asks_through_its_interface(place: Place) -> None:
    place.topic("in"), place.topic("out")
    for numbers in ([3, 9, 5], [7, 1]):
        place.put("in", [("a", number, 0) for number in numbers])
        app = place.run(offers(), max_records_per_epoch=2)
    assert [row.value for row in place.rows("out")] == [[3], [9, 3], [9, 5], [9, 7], [9, 7]]
    assert answers(app, "best", BestOf("a")) == [[9, 7]]


def test_a_processor_keeps_a_global_store_that_other_tasks_read_and_queries_see(place: Place) -> None:
    place.topic("numbers"), place.topic("asked"), place.topic("out")
    asked = [(f"k{i}", "abc"[i % 3], 0) for i in range(12)]
    for _ in range(2):
        place.put("numbers", [("a", 1, 0), ("b", 2, 0), ("a", 10, 0)])
        app = place.run(sums())
        place.put("asked", asked)
        app = place.run(sums())
    expected = [[11, 2, None], [22, 4, None]]
    found = [[row.value for row in place.rows("out") if row.key == f"k{i}"] for i in range(12)]
    assert found == [[once[i % 3] for once in expected] for i in range(12)]
    assert answers(app, "sums", KeyQuery.with_key("a")) == [22]
    assert app.store("sums").get("b").value == 4


def test_a_transformer_of_rows_has_a_store_of_its_own(place: Place) -> None:
    place.topic("in"), place.topic("out")
    for value in ("x", "y"):
        place.put("in", [(f"k{i}", value, 0) for i in range(4)])
        app = place.run(counted_rows())
    assert place.last("out") == {f"k{i}": {"value": "y", "times": 2} for i in range(4)}
    assert answers(app, "rows", KeyQuery.with_key("k1")) == [{"value": "y", "times": 2}]
