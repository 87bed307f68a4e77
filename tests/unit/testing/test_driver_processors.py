"""Processors of the user in the test driver."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hayase import (
    Consumed,
    ContextualFixedKeyProcessor,
    ContextualProcessor,
    FixedKeyProcessor,
    FixedKeyRecord,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
    ValueAndTimestamp,
)
from hayase.core.errors import ProcessingError, UnknownStoreError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.state.stores.spec import StoreSpec
from hayase.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
IN = Consumed.with_(TEXT, LONG)
OUT = Produced.with_(TEXT, LONG)
HERE = "test_driver_processors.py:"


class Custom(Processor[Any, Any, Any, Any]):
    """Does what it is told."""

    def __init__(self, process: Callable[[Any, Any], None], init: Callable[[Any], None] = lambda context: None) -> None:
        self._process = process
        self._init = init

    def init(self, context: Any) -> None:
        self.context = context
        self._init(context)

    def process(self, record: Record[Any, Any]) -> None:
        self._process(self.context, record)


def processing(
    process: Callable[[Any, Any], None], init: Callable[[Any], None] = lambda context: None, *stores: StoreSpec
) -> Topology:
    builder = StreamsBuilder()
    for store in stores:
        builder.add_state_store(store)
    stream = builder.stream("in", IN).process(lambda: Custom(process, init), *(store.name for store in stores))
    stream.to("out", OUT)
    return builder.build()


def run(topology: Topology, *records: tuple[str, int, int], **settings: Any) -> list[Any]:
    with TopologyTestDriver(topology, {name.replace("_", "."): value for name, value in settings.items()}) as driver:
        source = driver.create_input_topic("in", TEXT, LONG)
        for key, value, time_ms in records:
            source.pipe_input(key, value, time_ms)
        return driver.create_output_topic("out", TEXT, LONG).read_key_values_to_list()


def test_what_is_forwarded_in_one_call_comes_out_in_order() -> None:
    def process(context: Any, record: Any) -> None:
        for number in range(record.value):
            context.forward(record.with_value(number))

    assert run(processing(process), ("k", 3, 0)) == [("k", 0), ("k", 1), ("k", 2)]


def test_a_store_outlives_the_processor() -> None:
    def process(context: Any, record: Any) -> None:
        sums = context.get_state_store("sums")
        sums.put(record.key, (sums.get(record.key) or 0) + record.value)
        context.forward(record.with_value(sums.get(record.key)))

    store = Stores.key_value_store("sums", TEXT, LONG)
    assert run(processing(process, lambda _: None, store), ("k", 1, 0), ("k", 2, 1)) == [("k", 1), ("k", 3)]


def test_a_store_that_is_not_connected_is_named_in_the_error() -> None:
    topology = processing(lambda context, record: None, lambda context: context.get_state_store("other"))
    with pytest.raises(UnknownStoreError, match="'other'"):
        run(topology, ("k", 1, 0))


def test_a_processor_may_read_every_global_table() -> None:
    builder = StreamsBuilder()
    builder.global_table("names", Consumed.with_(TEXT, LONG), Materialized.as_("names"))

    def process(context: Any, record: Any) -> None:
        context.forward(record.with_value(context.get_state_store("names").get(record.key).value))

    builder.stream("in", IN).process(lambda: Custom(process)).to("out", OUT)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("names", TEXT, LONG).pipe_input("k", 42, 0)
        driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 1, 0)
        assert driver.create_output_topic("out", TEXT, LONG).read_key_values_to_list() == [("k", 42)]


def test_a_processor_may_write_the_store_of_a_table() -> None:
    builder = StreamsBuilder()
    table = builder.table("rows", Consumed.with_(TEXT, LONG), Materialized.as_("rows"))
    table.to_stream().foreach(lambda key, value: None)

    def process(context: Any, record: Any) -> None:
        context.get_state_store("rows").put(record.key, ValueAndTimestamp(record.value, record.timestamp_ms))

    builder.stream("in", IN).process(lambda: Custom(process), "rows")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 5, 7)
        assert driver.store("rows").get("k") == ValueAndTimestamp(5, 7)


def test_one_child_can_be_chosen() -> None:
    topology = Topology()
    topology.add_source("source", "in", key_serde=TEXT, value_serde=LONG)
    topology.add_processor(
        "route", lambda: Custom(lambda c, r: c.forward(r, "odd" if r.value % 2 else "even")), "source"
    )
    topology.add_sink("odd", "odd", "route", key_serde=TEXT, value_serde=LONG)
    topology.add_sink("even", "even", "route", key_serde=TEXT, value_serde=LONG)
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", TEXT, LONG)
        for number in range(4):
            source.pipe_input("k", number)
        assert driver.create_output_topic("odd", TEXT, LONG).read_values_to_list() == [1, 3]
        assert driver.create_output_topic("even", TEXT, LONG).read_values_to_list() == [0, 2]


def test_an_unknown_child_is_an_error_that_names_the_children() -> None:
    with pytest.raises(TopologyError, match="KSTREAM-SINK-0000000002"):
        run(processing(lambda context, record: context.forward(record, "nobody")), ("k", 1, 0))


@pytest.mark.parametrize("given", [("k", 1), None, FixedKeyRecord("k", 1, 0)])
def test_what_is_no_record_cannot_be_forwarded(given: Any) -> None:
    with pytest.raises(TopologyError, match="forward takes a Record"):
        run(processing(lambda context, record: context.forward(given)), ("k", 1, 0))


def test_what_fails_in_process_goes_to_the_handler() -> None:
    def process(context: Any, record: Any) -> None:
        context.forward(record.with_value(10 // record.value))

    settings = {"processing_exception_handler": "log_and_continue"}
    assert run(processing(process), ("k", 0, 0), ("k", 5, 1), **settings) == [("k", 2)]
    with pytest.raises(ProcessingError, match="ZeroDivisionError"):
        run(processing(process), ("k", 0, 0))


def test_what_is_forwarded_before_there_is_a_record_is_an_error_that_says_where_to_do_it() -> None:
    def init(context: Any) -> None:
        context.forward(Record("k", 1, 0))

    with pytest.raises(ProcessingError, match=r"init\(\).*do it in process") as raised:
        run(processing(lambda context, record: None, init))
    assert raised.value.condition == "PROCESSOR_FAILED"


def test_what_fails_in_a_punctuation_goes_to_the_handler_too() -> None:
    def init(context: Any) -> None:
        context.schedule(timedelta(milliseconds=10), PunctuationType.STREAM_TIME, lambda now: 1 // 0)

    topology = processing(lambda context, record: context.forward(record), init)
    with TopologyTestDriver(topology, {"processing.exception.handler": "log_and_continue"}) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 1, 0)
        assert driver.metrics.total(DROPPED_RECORDS) == 1
        assert driver.create_output_topic("out", TEXT, LONG).read_key_values_to_list() == [("k", 1)]
    with pytest.raises(ProcessingError, match="ZeroDivisionError"):
        run(topology, ("k", 1, 0))


def test_a_failed_punctuation_names_no_record_and_no_topic() -> None:
    def init(context: Any) -> None:
        context.schedule(timedelta(milliseconds=10), PunctuationType.STREAM_TIME, lambda now: 1 // 0)

    with pytest.raises(ProcessingError) as raised:
        run(processing(lambda context, record: None, init), ("k", 1, 0))
    said = str(raised.value)
    assert "processing of a punctuation failed" in said and "fix the code, or set" in said and HERE in said
    assert "topic" not in raised.value.context and "the record" not in said


@pytest.mark.parametrize("punctuate", [lambda: None, lambda now, more: None, "every hour"])
def test_a_punctuator_of_another_signature_is_refused_where_it_is_scheduled(punctuate: Any) -> None:
    def init(context: Any) -> None:
        context.schedule(timedelta(seconds=1), PunctuationType.STREAM_TIME, punctuate)

    with pytest.raises(TopologyError, match=r"a punctuator is called with \(now_ms\)") as raised:
        TopologyTestDriver(processing(lambda context, record: None, init))
    assert raised.value.condition == "INVALID_FUNCTION" and HERE in str(raised.value)


class OldProcess(Processor[Any, Any, Any, Any]):
    def process(self, key: object, value: object) -> None:  # type: ignore[override] - the mistake
        pass


class NoContext(Processor[Any, Any, Any, Any]):
    def init(self) -> None:  # type: ignore[override] - the mistake
        pass

    def process(self, record: object) -> None:
        pass


@pytest.mark.parametrize(
    ("supplier", "said"),
    [
        (OldProcess, "process of OldProcess is called with (record)"),
        (NoContext, "init of NoContext is called with (context)"),
    ],
)
def test_methods_of_a_processor_of_another_signature_are_refused_with_their_line(supplier: Any, said: str) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, LONG)).process(supplier).to("out", Produced.with_(TEXT, LONG))
    with pytest.raises(TopologyError) as raised:
        TopologyTestDriver(builder.build())
    assert said in str(raised.value) and HERE in str(raised.value)


def test_a_punctuation_has_no_record_and_knows_both_times() -> None:
    seen: list[Any] = []

    def init(context: Any) -> None:
        def punctuate(now_ms: int) -> None:
            seen.append(
                (now_ms, context.record_metadata(), context.current_stream_time_ms(), context.current_system_time_ms())
            )

        context.schedule(timedelta(milliseconds=10), PunctuationType.WALL_CLOCK_TIME, punctuate)

    with TopologyTestDriver(processing(lambda context, record: None, init), initial_wall_clock_ms=100) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 1, 7)
        driver.advance_wall_clock_time(timedelta(milliseconds=25))
    assert seen == [(125, None, 7, 125)]


def test_there_is_no_record_yet_when_a_processor_is_made() -> None:
    seen: list[Any] = []
    topology = processing(lambda context, record: None, lambda context: seen.append(context.record_metadata()))
    with TopologyTestDriver(topology):
        assert seen == [None]


@pytest.mark.parametrize(
    ("interval", "start"),
    [(timedelta(0), None), (timedelta(microseconds=1), None), (timedelta(seconds=1), datetime(2026, 1, 1))],  # noqa: DTZ001
)
def test_intervals_and_starts_that_mean_nothing_are_refused(interval: timedelta, start: datetime | None) -> None:
    topology = processing(
        lambda context, record: None,
        lambda context: context.schedule(interval, PunctuationType.STREAM_TIME, print, start),
    )
    with pytest.raises(TopologyError):
        TopologyTestDriver(topology)


def test_a_start_in_any_time_zone_is_a_point_in_time() -> None:
    found: list[int] = []
    start = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    topology = processing(
        lambda context, record: None,
        lambda context: context.schedule(timedelta(seconds=1), PunctuationType.STREAM_TIME, found.append, start),
    )
    run(topology, ("k", 1, 999), ("k", 1, 1000))
    assert found == [1000]


class Remembering(Processor[Any, Any, Any, Any]):
    """Counts in a field, a store and a metric what it has seen.

    Fails at -1; keeps the order of its calls in `calls`.
    """

    calls: list[str] = []

    def init(self, context: Any) -> None:
        self.calls.append("init")
        self.context, self.seen = context, 0
        self.store = context.get_state_store("seen")
        self.sensor = context.metrics().add_rate_total_sensor("shop", "till", "seen")
        context.schedule(timedelta(seconds=1), PunctuationType.STREAM_TIME, lambda at: self.calls.append(f"at {at}"))

    def process(self, record: Any) -> None:
        if record.value < 0:
            raise ValueError("negative")
        self.seen += 1
        self.sensor.record()
        self.store.put("n", (self.store.get("n") or 0) + 1)
        self.context.forward(record.with_value(self.seen * 100 + self.store.get("n")))

    def close(self) -> None:
        self.calls.append(f"close {self.seen}")


def remembering() -> Topology:
    Remembering.calls.clear()
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("seen", TEXT, LONG))
    builder.stream("in", IN).process(Remembering, "seen").to("out", OUT)
    return builder.build()


def test_a_processor_lives_as_long_as_its_task_and_keeps_fields_stores_sensors_and_punctuations() -> None:
    with TopologyTestDriver(remembering()) as driver:
        source = driver.create_input_topic("in", TEXT, LONG)
        for value, time_ms in ((1, 0), (1, 500), (1, 1_500)):
            source.pipe_input("k", value, time_ms)
        assert driver.create_output_topic("out", TEXT, LONG).read_values_to_list() == [101, 202, 303]
        assert driver.metrics.total("shop/seen") == 3
        assert Remembering.calls == ["init", "at 0", "at 1500"]
    assert Remembering.calls[3:] == ["close 3"]


def test_after_a_failed_attempt_there_is_a_new_processor_and_the_old_one_was_closed() -> None:
    with TopologyTestDriver(remembering()) as driver:
        source = driver.create_input_topic("in", TEXT, LONG)
        source.pipe_input("k", 1, 0)
        with pytest.raises(ProcessingError):
            source.pipe_input("k", -1, 0)
        assert Remembering.calls == ["init", "at 0", "close 1"]
        source.pipe_input("k", 1, 0)
        assert driver.create_output_topic("out", TEXT, LONG).read_values_to_list() == [101, 102]


@pytest.mark.parametrize("what", ["records are forwarded", "a store is used", "stores are used", "punctuations are"])
def test_what_would_be_lost_in_close_is_refused(what: str) -> None:
    class Late(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store("seen")

        def process(self, record: Any) -> None:
            self.last = record

        def close(self) -> None:
            if what == "records are forwarded":
                self.context.forward(self.last)
            elif what == "a store is used":
                self.store.put("k", 1)
            elif what == "stores are used":
                self.context.get_state_store("other")
            else:
                self.context.schedule(timedelta(seconds=1), PunctuationType.STREAM_TIME, print)

    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("seen", TEXT, LONG))
    builder.stream("in", IN).process(Late, "seen")
    driver = TopologyTestDriver(builder.build())
    driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 1)
    with pytest.raises(ProcessingError, match=what) as refused:
        driver.close()
    assert refused.value.condition == "PROCESSOR_CLOSED"


class Doubled(FixedKeyProcessor[Any, Any, Any]):
    """Doubles values."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self.context.forward(record.with_value(record.value * 2))


def test_values_can_be_processed_without_a_repartition() -> None:
    builder = StreamsBuilder()
    builder.stream("in", IN).process_values(Doubled).group_by_key().count()
    builder.stream("in", IN).process_values(Doubled).to("out", OUT)
    topology = builder.build()
    assert len(topology.subtopologies) == 1
    assert run(topology, ("k", 2, 0)) == [("k", 4)]


def test_behind_a_processor_records_are_repartitioned() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", IN).process(lambda: Custom(lambda c, r: c.forward(r)))
    stream.group_by_key().count()
    assert len(builder.build().subtopologies) == 2


def test_a_fixed_key_processor_cannot_send_another_key() -> None:
    class Sneaky(Doubled):
        def process(self, record: FixedKeyRecord[Any, Any]) -> None:
            self.context.forward(Record("other", 1, 0))

    builder = StreamsBuilder()
    builder.stream("in", IN).process_values(Sneaky).to("out", OUT)
    with pytest.raises(TopologyError, match="to change keys use process"):
        run(builder.build(), ("k", 1, 0))


class WithStore(Custom):
    """Brings its store along."""

    SPEC = Stores.key_value_store("mine", TEXT, LONG)

    def __init__(self) -> None:
        super().__init__(lambda context, record: context.get_state_store("mine").put(record.key, record.value))

    @classmethod
    def stores(cls) -> Iterator[StoreSpec]:
        yield cls.SPEC


def test_a_supplier_brings_its_stores_along() -> None:
    builder = StreamsBuilder()
    builder.stream("in", IN).process(WithStore)
    builder.stream("more", IN).process(WithStore)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("a", 1)
        driver.create_input_topic("more", TEXT, LONG).pipe_input("b", 2)
        assert list(driver.store("mine").all()) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("given", [Doubled, Custom, Doubled(), 5, lambda context: None])
def test_what_makes_no_processor_is_refused(given: Any) -> None:
    with pytest.raises(TopologyError, match="Processor"):
        StreamsBuilder().stream("in", IN).process(given)


def test_a_store_that_nobody_added_is_refused_when_the_topology_is_built() -> None:
    builder = StreamsBuilder()
    builder.stream("in", IN).process(lambda: Custom(lambda c, r: None), "absent")
    with pytest.raises(TopologyError, match="'absent'"):
        builder.build()


def test_the_stream_time_is_that_of_all_records_of_the_task_also_of_those_filtered_before() -> None:
    seen: list[int] = []
    builder = StreamsBuilder()
    kept = builder.stream("in", IN).filter(lambda key, value: value > 0)
    kept.process(lambda: Custom(lambda context, record: seen.append(context.current_stream_time_ms())))
    run_records = [("k", 1, 5), ("k", 0, 50), ("k", 1, 6)]
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, LONG)
        for key, value, time_ms in run_records:
            source.pipe_input(key, value, time_ms)
    assert seen == [5, 50]


def fails(*_: Any) -> None:
    raise ValueError("no luck")


def test_an_error_in_init_is_one_line_that_names_the_node() -> None:
    with pytest.raises(
        ProcessingError, match=r"init of the processor failed: \S+:\d+ in fails: ValueError: no luck.*KSTREAM-PROCESSOR"
    ):
        TopologyTestDriver(processing(lambda context, record: None, fails))


def test_an_error_in_close_is_one_line_that_names_the_node() -> None:
    class Closing(Custom):
        def close(self) -> None:
            fails()

    builder = StreamsBuilder()
    builder.stream("in", IN).process(lambda: Closing(lambda context, record: None))
    with pytest.raises(
        ProcessingError,
        match=r"close of the processor failed: \S+:\d+ in fails: ValueError: no luck.*KSTREAM-PROCESSOR",
    ):
        TopologyTestDriver(builder.build()).close()


def test_a_processor_that_would_end_the_process_in_close_is_an_error_and_the_others_are_closed() -> None:
    closed = []

    class Leaving(Custom):
        def close(self) -> None:
            closed.append(self)
            sys.exit(3)

    builder = StreamsBuilder()
    stream = builder.stream("in", IN)
    for _ in range(2):
        stream.process(lambda: Leaving(lambda context, record: None))
    with pytest.raises(ProcessingError, match=r"close of the processor failed: \S+:\d+ in close: SystemExit: 3"):
        TopologyTestDriver(builder.build()).close()
    assert len(closed) == 2


@pytest.mark.parametrize(("name", "wanted"), [("process", "Processor"), ("process_values", "FixedKeyProcessor")])
def test_a_supplier_that_makes_something_else_is_named(name: str, wanted: str) -> None:
    builder = StreamsBuilder()
    getattr(builder.stream("in", IN), name)(lambda: None)
    with pytest.raises(TopologyError, match=f"must make a {wanted}"):
        TopologyTestDriver(builder.build())


class TellsItsSettings(ContextualProcessor[Any, Any, Any, Any]):
    """Sends on what it finds in its settings."""

    def process(self, record: Record[Any, Any]) -> None:
        found = {**self.context.app_configs_with_prefix("app."), "id": self.context.app_configs()["application.id"]}
        self.context.forward(record.with_value(repr(found)))


class AddsItsSetting(ContextualFixedKeyProcessor[Any, Any, Any]):
    """Adds a setting to each value."""

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self.context.forward(record.with_value(record.value + self.context.app_configs()["app.more"]))


def test_a_processor_reads_the_settings_of_its_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMIT", "7")
    builder = StreamsBuilder()
    builder.stream("in", IN).process(TellsItsSettings).to("out", Produced.with_(TEXT, TEXT))
    settings = {"application.id": "mine", "app.limit": "${env:LIMIT}", "app.names": ("a", "b"), "spark.x": "y"}
    with TopologyTestDriver(builder.build(), settings) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 1)
        found = driver.create_output_topic("out", TEXT, TEXT).read_value()
    assert found == "{'limit': '7', 'names': ('a', 'b'), 'id': 'mine'}"


def test_a_fixed_key_processor_keeps_its_context_and_settings_without_text_are_what_was_given() -> None:
    builder = StreamsBuilder()
    builder.stream("in", IN).process_values(AddsItsSetting).to("out", OUT)
    with TopologyTestDriver(builder.build(), {"app.more": 5}) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 1)
        assert driver.create_output_topic("out", TEXT, LONG).read_value() == 6


def test_settings_of_other_parties_are_not_shown_to_processors() -> None:
    shown: list[set[str]] = []
    builder = StreamsBuilder()
    told = Custom(lambda context, record: shown.append(set(context.app_configs())))
    builder.stream("in", IN).process(lambda: told)
    settings = {"consumer.fetch.min.bytes": 5, "schema.registry.url": "http://127.0.0.1:1", "num.stream.threads": 2}
    with TopologyTestDriver(builder.build(), settings) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_input("k", 1)
    assert shown == [{"application.id", "num.stream.threads"}]


def test_rows_of_a_processors_store_have_the_names_that_rows_of_the_applications_stores_have() -> None:
    found: list[Any] = []

    def look(context: Any, record: Record[Any, Any]) -> None:
        store, windows = context.get_state_store("seen"), context.get_state_store("windows")
        store.put(record.key, record.value)
        windows.put(record.key, record.value, 0)
        found.extend([(row.key, row.value) for row in (*store.all(), *windows.fetch_all(0, 1))])
        found.extend(key for key, _ in store.all())

    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("seen", TEXT, LONG))
    minute = timedelta(minutes=1)
    builder.add_state_store(Stores.window_store("windows", TEXT, LONG, window_size=minute, retention=minute))
    builder.stream("in", IN).process(lambda: Custom(look), "seen", "windows").to("out", OUT)
    run(builder.build(), ("k", 1, 0))
    (first, (window, value), key) = found
    assert (first, window.key, value, key) == (("k", 1), "k", 1, "k")
