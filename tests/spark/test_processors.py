"""Processors of the user on Spark: their stores, and punctuations with and without records."""

from __future__ import annotations

import contextlib
import sqlite3
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.spark.place import Place, until

from hayase import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)
from hayase.testing import TopologyTestDriver

TEXT, JSON, LONG = Serdes.string(), Serdes.json(), Serdes.long()


class Batches(Processor[Any, Any, Any, Any]):
    """Counts per key, and sends the counts of each ten milliseconds of stream time."""

    def init(self, context: Any) -> None:
        self.context, self.counts = context, context.get_state_store("counts")
        context.schedule(timedelta(milliseconds=10), PunctuationType.STREAM_TIME, self.send)

    def process(self, record: Record[Any, Any]) -> None:
        self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)

    def send(self, now_ms: int) -> None:
        for key, count in list(self.counts.all()):
            self.context.forward(Record(key, {"n": count}, now_ms))
            self.counts.delete(key)


class Ticks(Processor[Any, Any, Any, Any]):
    """Sends the number of its calls by the wall clock."""

    def init(self, context: Any) -> None:
        self.context, self.calls = context, context.get_state_store("calls")
        context.schedule(timedelta(milliseconds=200), PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)

    def tick(self, now_ms: int) -> None:
        number = (self.calls.get("calls") or 0) + 1
        self.calls.put("calls", number)
        self.context.forward(Record("tick", {"number": number}, now_ms))


class Measured(FixedKeyProcessor[str, Any, Any]):
    """Counts what it sees, beside Hayase's own metrics."""

    def init(self, context: Any) -> None:
        self.seen = context.metrics().add_latency_rate_total_sensor("orders", "shop", "seen")

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        self.seen.record(record.value["ms"])


def batching() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("counts", TEXT, LONG))
    stream = builder.stream("in", Consumed.with_(TEXT, JSON)).process(Batches, "counts")
    stream.to("out", Produced.with_(TEXT, JSON))
    return builder.build()


def ticking() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("calls", TEXT, LONG))
    builder.stream("in", Consumed.with_(TEXT, JSON)).process(Ticks, "calls").to("out", Produced.with_(TEXT, JSON))
    return builder.build()


def test_stream_time_calls_are_those_of_the_test_driver_however_the_input_is_cut(place: Place) -> None:
    place.topic("in", 1), place.topic("out", 1)
    rows = [(f"k{i % 3}", {"i": i}, i * 3 % 50 + i) for i in range(60)]
    with TopologyTestDriver(batching()) as driver:
        source = driver.create_input_topic("in", TEXT, JSON)
        for row in rows:
            source.pipe_input(*row)
        expected = driver.create_output_topic("out", TEXT, JSON).read_records_to_list()
    for part in (rows[:20], rows[20:21], rows[21:]):
        place.put("in", part)
        app = place.run(batching(), max_records_per_epoch=7)
    assert [(row.key, row.value, row.timestamp_ms) for row in place.rows("out")] == [
        (record.key, record.value, record.timestamp_ms) for record in expected
    ]
    assert app.store("counts").approximate_num_entries() <= 3


def test_the_wall_clock_calls_without_any_record_and_goes_on_after_a_restart(place: Place) -> None:
    place.topic("in", 1), place.topic("out", 1)

    def numbers() -> list[int]:
        return [row.value["number"] for row in place.rows("out")]

    for least in (3, 6):
        with place.app(ticking()) as app:
            app.start()
            until(lambda least=least: len(numbers()) >= least, app)  # type: ignore[misc]
    found = place.rows("out")
    assert [row.value["number"] for row in found] == list(range(1, len(found) + 1))
    times = [row.timestamp_ms for row in found]
    assert times == sorted(set(times)) and times[-1] <= time.time() * 1000


def test_metrics_of_a_processor_are_among_those_of_the_application(place: Place) -> None:
    place.topic("in")
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).process_values(Measured)
    place.put("in", [(f"k{i}", {"ms": i}, 0) for i in range(30)])
    app = place.run(builder.build(), max_records_per_epoch=10)
    found = {name: value for name, value in app.metrics().items() if name.group == "stream-orders-metrics"}
    assert sum(int(value) for name, value in found.items() if name.name == "seen-total") == 30
    assert max(float(value) for name, value in found.items() if name.name == "seen-latency-max") == 29
    assert {(name.tag("orders-id"), name.tag("task-id")) for name in found} <= {("shop", "0_0"), ("shop", "0_1")}


class Connected(FixedKeyProcessor[str, Any, Any]):
    """Writes what it sees to a database of its own, over one connection; SQLite wants all calls in one thread."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def init(self, context: Any) -> None:
        self.context = context
        self.connection = sqlite3.connect(Path(self.folder) / f"{uuid.uuid4().hex}.db", isolation_level=None)
        self.connection.execute("CREATE TABLE seen (number, task)")

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        self.connection.execute("INSERT INTO seen VALUES (?, ?)", (record.value["n"], self.context.task_id))
        self.context.forward(record)

    def close(self) -> None:
        self.connection.execute("CREATE TABLE closed (number)")
        self.connection.close()


def test_a_processor_keeps_its_connection_from_epoch_to_epoch_and_is_closed_when_the_application_stops(
    place: Place, tmp_path: Path
) -> None:
    place.topic("in", 2), place.topic("out", 2)
    (tmp_path / "databases").mkdir()
    folder = str(tmp_path / "databases")
    builder = StreamsBuilder()
    connected = builder.stream("in", Consumed.with_(TEXT, JSON)).process_values(lambda: Connected(folder))
    connected.to("out", Produced.with_(TEXT, JSON))
    with place.app(builder.build()) as app:
        app.start()
        for number in range(5):
            place.put("in", [(key, {"n": number}, number) for key in "abcdef"])
            until(lambda sent=6 * number + 6: len(place.rows("out")) == sent, app)  # type: ignore[misc]
    seen: dict[str, set[int]] = {}
    for file in Path(folder).glob("*.db"):
        with contextlib.closing(sqlite3.connect(file)) as database:
            for number, task in database.execute("SELECT number, task FROM seen"):
                seen.setdefault(task, set()).add(number)
            assert database.execute("SELECT * FROM closed").fetchall() == []
    assert seen == {"0_0": set(range(5)), "0_1": set(range(5))}
    assert len(list(Path(folder).glob("*.db"))) == 2
