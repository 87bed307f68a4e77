"""What is counted while a topology runs: Kafka Streams' metrics, and those of the user's processors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from hayase import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    FixedKeyProcessor,
    FixedKeyRecord,
    JsonSerde,
    PunctuationType,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    count,
)
from hayase.core import metrics as m
from hayase.core.errors import ProcessingError
from hayase.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
ORDER = JsonSerde(schema={"amount": pl.Int64})
FORMS = pytest.mark.parametrize("form", ["rows", "auto"])
SECOND = timedelta(seconds=1)


def ran(topology: Topology, times_ms: list[int], **settings: Any) -> m.Metrics:
    settings = {name.replace("_", "."): value for name, value in settings.items()}
    with TopologyTestDriver(topology, settings) as driver:
        source = driver.create_input_topic("in", TEXT, ORDER)
        for time_ms in times_ms:
            source.pipe_input("k", {"amount": 1}, time_ms)
        return driver.metrics


@FORMS
def test_a_suppressed_table_counts_what_it_sends_and_measures_what_it_holds(form: str) -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(SECOND)
    table = builder.stream("in", Consumed.with_(TEXT, ORDER)).group_by_key().windowed_by(windows).agg(n=count())
    table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().foreach(
        lambda key, value: None
    )
    metrics = ran(builder.build(), [0, 500, 1_500, 2_500], processing_form=form)
    assert metrics.total(m.SUPPRESSION_EMITTED) == 2
    (rows,) = [each for each in metrics.measures() if each.name == m.SUPPRESSION_ROWS]
    (size,) = [each for each in metrics.measures() if each.name == m.SUPPRESSION_BYTES]
    assert (rows.highest, rows.number) == (1, 4)
    assert size.highest > 16


@FORMS
@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of_size_with_no_grace(SECOND),
        SessionWindows.of_inactivity_gap_with_no_grace(SECOND),
        SlidingWindows.of_time_difference_with_no_grace(SECOND),
    ],
    ids=["time", "session", "sliding"],
)
def test_results_of_windows_that_closed_are_counted(windows: Any, form: str) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, ORDER)).group_by_key().windowed_by(windows)
    results = grouped.emit_strategy(EmitStrategy.on_window_close()).agg(n=count()).to_stream()
    results.to("out")
    topology = builder.build()
    with TopologyTestDriver(topology, {"processing.form": form}) as driver:
        source = driver.create_input_topic("in", TEXT, ORDER)
        for time_ms in (0, 10_000, 20_000, 30_000):
            source.pipe_input("k", {"amount": 1}, time_ms)
        sent = driver.create_output_topic("out", Serdes.bytes(), Serdes.bytes()).read_records_to_list()
        assert driver.metrics.total(m.FINAL_EMITTED) == len(sent) > 0


class Timed(FixedKeyProcessor[str, Any, Any]):
    def init(self, context: Any) -> None:
        context.schedule(timedelta(milliseconds=10), PunctuationType.STREAM_TIME, lambda now_ms: None)

    def process(self, record: FixedKeyRecord[str, Any]) -> None: ...


def processing(supplier: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, ORDER)).process_values(supplier)
    return builder.build()


def test_punctuations_are_measured() -> None:
    (measured,) = [
        each for each in ran(processing(Timed), [0, 5, 10, 25]).measures() if each.name == m.PUNCTUATE_LATENCY
    ]
    assert measured.number == 3


class Counting(FixedKeyProcessor[str, Any, Any]):
    """Two sensors: how often, and how long."""

    def __init__(self, level: Any = "INFO", scope: Any = "orders") -> None:
        self._level, self._scope = level, scope

    def init(self, context: Any) -> None:
        metrics = context.metrics()
        self.often = metrics.add_rate_total_sensor(self._scope, "eu", "seen", self._level, shop="north")
        self.long = metrics.add_latency_rate_total_sensor("orders", "eu", "checked", self._level)

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        self.often.record(17)
        self.long.record(record.timestamp_ms)


def test_sensors_of_users_count_and_measure() -> None:
    metrics = ran(processing(Counting), [2, 4, 9])
    assert metrics.by_owner("orders/seen/shop=north") == {"eu": 3}
    assert metrics.total("orders/checked") == 3
    (latency,) = [each for each in metrics.measures() if each.name == "orders/checked-latency"]
    assert (latency.number, latency.total, latency.lowest, latency.highest) == (3, 15, 2, 9)


def test_a_sensor_below_the_recording_level_records_nothing() -> None:
    debug = processing(lambda: Counting("DEBUG"))
    assert ran(debug, [2, 4]).total("orders/checked") == 0
    assert ran(debug, [2, 4], metrics_recording_level="DEBUG").total("orders/checked") == 2


@pytest.mark.parametrize(
    "supplier",
    [
        lambda: Counting("LOUD"),
        lambda: Counting(scope="a b"),
        lambda: Counting(scope="a/b"),
        lambda: Counting(scope=5),
        lambda: Counting(scope="9orders"),
        lambda: Counting(scope="task"),
    ],
    ids=["level", "space", "slash", "no text", "digit first", "a tag twice"],
)
def test_what_can_be_no_name_or_level_of_a_metric_is_refused(supplier: Any) -> None:
    with pytest.raises(TopologyError, match="INVALID_METRIC"):
        ran(processing(supplier), [1])


class Tagged(FixedKeyProcessor[str, Any, Any]):
    """Makes one sensor twice, and records what cannot be measured."""

    def init(self, context: Any) -> None:
        add = context.metrics().add_latency_rate_total_sensor
        self.sensors = [add("orders", "eu", "seen", a="1", b="2"), add("orders", "eu", "seen", b="2", a="1")]

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        for sensor in self.sensors:
            sensor.record("long" if record.timestamp_ms else 1)


def test_the_order_of_tags_makes_no_difference() -> None:
    assert ran(processing(Tagged), [0]).by_owner("orders/seen/a=1/b=2") == {"eu": 2}


def test_what_is_no_number_fails_where_it_is_recorded() -> None:
    with pytest.raises(ProcessingError, match="could not convert"):
        ran(processing(Tagged), [1])
