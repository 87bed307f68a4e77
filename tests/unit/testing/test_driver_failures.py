"""Failure policies: what a handler says happens, and nothing is dropped without a counter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from hayase import (
    Consumed,
    ErrorContext,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    Grouped,
    HandlerAnswer,
    Materialized,
    Produced,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
    callable_timestamp,
    count,
    field_timestamp,
    record_timestamp,
    sum_,
)
from hayase.core.errors import ConfigError, HayaseError, ProcessingError, ProductionError, SerializationError
from hayase.core.metrics import DEAD_LETTERS, DROPPED_RECORDS
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.pickled import PickleSerde
from hayase.testing import TestOutputTopic, TopologyTestDriver

TEXT, JSON, RAW = Serdes.string(), Serdes.json(), Serdes.bytes()
READ = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64, "at": pl.Int64}))
WRITE = Produced.with_(TEXT, JSON)
FORMS = pytest.mark.parametrize("form", ["rows", "columns"])
HEADER = "__streams.errors."


def copied(consumed: Consumed = READ) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", consumed).map_values({"n": pl.col("n")}).to("out", WRITE)
    return builder.build()


def mapped(function: Callable[[Any], Any]) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).map_values(function).to("out", WRITE)
    return builder.build()


def pipe(driver: TopologyTestDriver, *rows: tuple[bytes | None, bytes | None, int]) -> None:
    for key, value, at in rows:
        driver.pipe("in", key, value, at, (("h", b"1"),))


def dead(driver: TopologyTestDriver) -> TestOutputTopic:
    return driver.create_output_topic("dead", RAW, RAW)


def values(driver: TopologyTestDriver) -> list[Any]:
    return driver.create_output_topic("out", TEXT, JSON).read_values_to_list()


BAD = (b"k", b"nonsense", 5)
GOOD = (b"k", b'{"n": 1}', 6)


@FORMS
def test_by_default_a_malformed_record_stops_the_application_and_the_error_says_where(form: str) -> None:
    with TopologyTestDriver(copied(), {"processing.form": form}) as driver:
        pipe(driver, GOOD)
        with pytest.raises(SerializationError) as failed:
            pipe(driver, BAD)
        assert failed.value.condition == "DESERIALIZATION_FAILED"
        where = {"node": "KSTREAM-SOURCE-0000000000", "task": "0_0", "topic": "in", "partition": 0, "offset": 1}
        assert dict(failed.value.context) == where
        assert "log_and_continue" in failed.value.message
        assert len(values(driver)) == 1


@FORMS
def test_log_and_continue_drops_the_record_and_counts_it(form: str) -> None:
    config = {"processing.form": form, "deserialization.exception.handler": "log_and_continue"}
    with TopologyTestDriver(copied(), config) as driver:
        pipe(driver, BAD, GOOD)
        assert values(driver) == [{"n": 1}]
        assert driver.metrics.rows().count((DROPPED_RECORDS, "KSTREAM-SOURCE-0000000000", 1)) == 1
        assert driver.metrics.total(DEAD_LETTERS) == 0


@FORMS
@pytest.mark.parametrize("handler", ["dead_letter", "log_and_continue"])
def test_a_dead_letter_is_the_record_as_it_was_with_headers_that_tell_the_error(form: str, handler: str) -> None:
    config = {
        "processing.form": form,
        "deserialization.exception.handler": handler,
        "errors.dead.letter.queue.topic.name": "dead",
    }
    with TopologyTestDriver(copied(), config) as driver:
        pipe(driver, GOOD, BAD, GOOD)
        (letter,) = dead(driver).read_records_to_list()
        assert (letter.key, letter.value, letter.timestamp_ms) == BAD
        headers = dict(letter.headers)
        assert headers["h"] == b"1"
        assert headers[HEADER + "topic"] == b"in"
        assert headers[HEADER + "partition"] == b"0"
        assert headers[HEADER + "offset"] == b"1"
        assert headers[HEADER + "exception"] == b"hayase.core.errors.SerializationError"
        assert b"nonsense" in (headers[HEADER + "message"] or b"")
        assert b"SerializationError" in (headers[HEADER + "stacktrace"] or b"")
        assert len(values(driver)) == 2
        assert driver.metrics.total(DEAD_LETTERS) == driver.metrics.total(DROPPED_RECORDS) == 1


@FORMS
def test_behind_a_shuffle_a_dead_letter_has_the_offset_in_the_internal_topic(form: str) -> None:
    config = {
        "processing.form": form,
        "application.id": "shop",
        "processing.exception.handler": "dead_letter",
        "errors.dead.letter.queue.topic.name": "dead",
    }
    builder = StreamsBuilder()
    keyed = builder.stream("in", READ).group_by(pl.col("n").cast(pl.String), Grouped.with_(TEXT))
    small = keyed.agg(Materialized.as_("sums"), n=sum_("n")).map_values({"n": pl.col("n").cast(pl.Int8)})
    small.to_stream().to("out", Produced.with_(TEXT, Serdes.json(schema={"n": pl.Int8})))
    with TopologyTestDriver(builder.build(), config) as driver:
        pipe(driver, *((b"k", b'{"n": %d}' % n, n) for n in (1, 500, 2, 501)))
        letters = [dict(each.headers) for each in dead(driver).read_records_to_list()]
        assert {each[HEADER + "topic"] for each in letters} == {b"shop-sums-repartition"}
        assert [each[HEADER + "offset"] for each in letters] == [b"1", b"3"]


@FORMS
def test_when_the_default_handler_fails_the_dead_letter_is_written_all_the_same(form: str) -> None:
    config = {"processing.form": form, "errors.dead.letter.queue.topic.name": "dead"}
    with TopologyTestDriver(copied(), config) as driver:
        with pytest.raises(SerializationError):
            pipe(driver, BAD)
        assert dead(driver).queue_size() == 1


@FORMS
def test_a_handler_of_ones_own_sees_the_raw_record_and_the_error(form: str) -> None:
    seen: list[tuple[ErrorContext, Exception]] = []

    def handler(context: ErrorContext, error: Exception) -> HandlerAnswer:
        seen.append((context, error))
        return HandlerAnswer.CONTINUE

    config = {"processing.form": form, "deserialization.exception.handler": handler}
    with TopologyTestDriver(copied(), config) as driver:
        pipe(driver, BAD)
    ((context, error),) = seen
    assert (context.stage, context.topic, context.partition, context.offset) == ("deserialization", "in", 0, 0)
    assert (context.raw_key, context.raw_value, context.timestamp_ms, context.headers) == (*BAD, (("h", b"1"),))
    assert isinstance(error, SerializationError)


def test_a_handler_that_fails_itself_stops_the_application() -> None:
    def handler(context: ErrorContext, error: Exception) -> HandlerAnswer:
        raise LookupError("no idea")

    expected = pytest.raises(
        SerializationError, match=r"its exception handler failed: \S+:\d+ in handler: LookupError: no idea"
    )
    with TopologyTestDriver(copied(), {"deserialization.exception.handler": handler}) as driver, expected:
        pipe(driver, BAD)


def test_a_dead_letter_answer_without_a_topic_is_an_error_in_the_settings() -> None:
    config = {"deserialization.exception.handler": lambda *_: HandlerAnswer.DEAD_LETTER}
    with TopologyTestDriver(copied(), config) as driver:
        with pytest.raises(ConfigError) as failed:
            pipe(driver, BAD)
        assert failed.value.condition == "NO_DEAD_LETTER_TOPIC"


@FORMS
def test_a_null_key_is_dropped_by_an_aggregate_and_counted(form: str) -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).group_by_key().agg(n=count()).to_stream().to("out", WRITE)
    with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
        pipe(driver, (None, b'{"n": 1}', 1), GOOD)
        assert values(driver) == [{"n": 1}]
        assert driver.metrics.total(DROPPED_RECORDS) == 1


@FORMS
def test_a_null_key_passes_where_no_key_is_needed(form: str) -> None:
    with TopologyTestDriver(copied(), {"processing.form": form}) as driver:
        pipe(driver, (None, b'{"n": 1}', 1))
        assert values(driver) == [{"n": 1}]


AT = (b"k", b'{"n": 1, "at": 70}', 5)
NO_TIME = (b"k", b'{"n": 2, "at": null}', 6)
NEGATIVE = (b"k", b'{"n": 3, "at": -4}', -1)
EXTRACTORS: dict[str, Callable[[Any], TimestampExtractor]] = {
    "field": lambda on_invalid: field_timestamp("at", on_invalid),
    "record": record_timestamp,
}


@FORMS
@pytest.mark.parametrize("kind", EXTRACTORS)
def test_a_bad_timestamp_stops_the_application(form: str, kind: str) -> None:
    topology = copied(READ.with_timestamp_extractor(EXTRACTORS[kind]("fail")))
    with TopologyTestDriver(topology, {"processing.form": form}) as driver:
        with pytest.raises(SerializationError) as failed:
            pipe(driver, NEGATIVE)
        assert failed.value.condition == "INVALID_TIMESTAMP"
        assert {"topic": "in", "partition": 0, "offset": 0}.items() <= failed.value.context.items()


@FORMS
@pytest.mark.parametrize("kind", EXTRACTORS)
def test_a_bad_timestamp_can_be_skipped_and_is_counted(form: str, kind: str) -> None:
    topology = copied(READ.with_timestamp_extractor(EXTRACTORS[kind]("skip")))
    with TopologyTestDriver(topology, {"processing.form": form}) as driver:
        pipe(driver, NEGATIVE, AT)
        assert values(driver) == [{"n": 1}]
        assert driver.metrics.total(DROPPED_RECORDS) == 1


@FORMS
def test_a_bad_timestamp_can_take_the_largest_time_of_the_partition(form: str) -> None:
    topology = copied(READ.with_timestamp_extractor(field_timestamp("at", "partition_time")))
    with TopologyTestDriver(topology, {"processing.form": form}) as driver:
        pipe(driver, AT, (b"k", b'{"n": 9, "at": 20}', 0), NO_TIME, NEGATIVE)
        found = driver.create_output_topic("out", TEXT, JSON).read_records_to_list()
        assert [(record.value["n"], record.timestamp_ms) for record in found] == [(1, 70), (9, 20), (2, 70), (3, 70)]


def test_partition_time_fails_where_there_was_no_time_yet() -> None:
    topology = copied(READ.with_timestamp_extractor(field_timestamp("at", "partition_time")))
    with TopologyTestDriver(topology) as driver, pytest.raises(SerializationError, match="gives None as event time"):
        pipe(driver, NO_TIME)


def test_an_extractor_that_raises_stops_the_application_with_the_place() -> None:
    topology = copied(READ.with_timestamp_extractor(callable_timestamp(lambda record, _: record.value["missing"])))
    with TopologyTestDriver(topology) as driver:
        with pytest.raises(SerializationError) as failed:
            pipe(driver, GOOD)
        assert failed.value.condition == "TIMESTAMP_EXTRACTOR_FAILED"
        assert failed.value.context["offset"] == 0


def divide(value: dict[str, int]) -> dict[str, int]:
    return {"n": 10 // value["n"]}


ZERO = (b"k", b'{"n": 0}', 5)


def test_an_error_in_user_code_stops_the_application_and_names_the_node() -> None:
    with TopologyTestDriver(mapped(divide)) as driver:
        with pytest.raises(ProcessingError) as failed:
            pipe(driver, ZERO)
        assert failed.value.condition == "PROCESSING_FAILED"
        assert failed.value.context["node"] == "KSTREAM-MAPVALUES-0000000001"
        assert "ZeroDivisionError" in failed.value.message
        assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_an_error_in_user_code_can_go_to_the_dead_letter_topic() -> None:
    config = {"processing.exception.handler": "dead_letter", "errors.dead.letter.queue.topic.name": "dead"}
    with TopologyTestDriver(mapped(divide), config) as driver:
        pipe(driver, ZERO, GOOD)
        assert values(driver) == [{"n": 10}]
        (letter,) = dead(driver).read_records_to_list()
        assert (letter.key, letter.value) == (b"k", b'{"n": 0}')
        assert dict(letter.headers)[HEADER + "exception"] == b"builtins.ZeroDivisionError"


@FORMS
def test_an_expression_that_fails_is_an_error_of_its_record_only(form: str) -> None:
    builder = StreamsBuilder()
    texts = Consumed.with_(TEXT, Serdes.json(schema={"s": pl.String}))
    builder.stream("in", texts).map_values({"n": pl.col("s").cast(pl.Int64)}).to("out", WRITE)
    config = {"processing.form": form, "processing.exception.handler": "log_and_continue"}
    with TopologyTestDriver(builder.build(), config) as driver:
        pipe(driver, (b"k", b'{"s": "no number"}', 1), (b"k", b'{"s": "12"}', 2))
        assert values(driver) == [{"n": 12}]
        assert driver.metrics.total(DROPPED_RECORDS) == 1


@pytest.mark.parametrize(("handler", "written"), [("log_and_fail", 0), ("log_and_continue", 1)])
def test_a_value_that_the_sink_cannot_write_goes_to_the_production_handler(handler: str, written: int) -> None:
    topology = mapped(lambda value: object() if value["n"] == 0 else value)
    with TopologyTestDriver(topology, {"production.exception.handler": handler}) as driver:
        failure: HayaseError | None = None
        try:
            pipe(driver, ZERO, GOOD)
        except ProductionError as error:
            failure = error
        assert len(values(driver)) == written
        if handler == "log_and_fail":
            assert failure is not None
            assert failure.condition == "PRODUCTION_FAILED"
            assert {"topic": "in", "partition": 0, "offset": 0}.items() <= failure.context.items()
        else:
            assert failure is None
            assert driver.metrics.total(DROPPED_RECORDS) == 1


@FORMS
@pytest.mark.parametrize("caching", [0, 1_000_000])
def test_a_table_that_a_sink_cannot_write_dead_letters_the_record_that_changed_it(form: str, caching: int) -> None:
    builder = StreamsBuilder()
    table = builder.stream("in", READ).group_by_key().agg(Materialized.as_("t"), total=sum_("n"))
    table.to_stream().map_values({"n": pl.col("total") * 2**40}).map_values({"n": pl.col("n").cast(pl.Int32)}).to(
        "out", WRITE
    )
    config = {
        "processing.form": form,
        "statestore.cache.max.bytes": caching,
        "processing.exception.handler": "dead_letter",
        "errors.dead.letter.queue.topic.name": "dead",
    }
    with TopologyTestDriver(builder.build(), config) as driver:
        pipe(driver, GOOD, ZERO)
        assert [letter.value for letter in dead(driver).read_records_to_list()] == [GOOD[1], ZERO[1]]
        assert values(driver) == []


@FORMS
def test_a_key_that_a_repartition_cannot_write_goes_to_the_production_handler(form: str) -> None:
    builder = StreamsBuilder()
    value, key = Serdes.json(schema={"n": pl.Int64}), Serdes.json(schema={"share": pl.Float64})
    stream = builder.stream("in", Consumed.with_(TEXT, value))
    counts = stream.group_by(pl.struct(share=1 / pl.col("n")), Grouped.with_(key, value)).count()
    counts.to_stream().to("out", Produced.with_(key, Serdes.long()))
    config = {"processing.form": form, "production.exception.handler": "log_and_continue"}
    with TopologyTestDriver(builder.build(), config) as driver:
        pipe(driver, (b"k", b'{"n": 4}', 1), (b"k", b'{"n": 0}', 1), (b"k", b'{"n": 4}', 1))
        found = driver.create_output_topic("out", key, Serdes.long()).read_records_to_list()
        assert [(record.key, record.value) for record in found][-1] == ({"share": 0.25}, 2)
        assert driver.metrics.total(DROPPED_RECORDS) == 1


@pytest.mark.parametrize("handler", ["log_and_fail", "log_and_continue"])
def test_an_error_of_user_code_names_the_line_of_the_users_file_that_raised_it(
    handler: str, caplog: pytest.LogCaptureFixture
) -> None:
    prices: dict[str, int] = {}

    def price(value: dict[str, int]) -> int:
        return prices["GBP"]

    def priced(value: dict[str, int]) -> dict[str, int]:
        return {"n": price(value)}

    line = price.__code__.co_firstlineno + 1
    place = f"test_driver_failures.py:{line} in price: KeyError: 'GBP'"
    config = {"processing.exception.handler": handler}
    with TopologyTestDriver(mapped(priced), config) as driver:
        if handler == "log_and_fail":
            with pytest.raises(ProcessingError) as failed:
                pipe(driver, GOOD)
            assert place in failed.value.message
        else:
            pipe(driver, GOOD)
            assert place in caplog.text and "record dropped" in caplog.text


class _Fussy(PickleSerde):
    def to_bytes(self, value: Any) -> bytes:
        raise OverflowError("too much")


def test_an_error_of_a_sink_names_its_topic_and_the_line_of_the_users_serde() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).map_values(lambda value: value).to("out", Produced.with_(TEXT, _Fussy()))
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProductionError) as failed:
            pipe(driver, GOOD)
        assert failed.value.context["sink_topic"] == "out"
        assert failed.value.context["topic"] == "in"
        line = _Fussy.to_bytes.__code__.co_firstlineno + 1
        assert f"test_driver_failures.py:{line} in to_bytes: OverflowError: too much" in failed.value.message


@FORMS
def test_a_record_that_becomes_a_dead_letter_is_logged_as_one(form: str, caplog: pytest.LogCaptureFixture) -> None:
    config = {
        "processing.form": form,
        "deserialization.exception.handler": "dead_letter",
        "errors.dead.letter.queue.topic.name": "dead",
    }
    with TopologyTestDriver(copied(), config) as driver:
        pipe(driver, BAD)
    assert "deserialization failed, record sent to the dead letter topic dead: " in caplog.text
    assert "dropped" not in caplog.text


class LooksUp(FixedKeyProcessor[Any, Any, Any]):
    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        self.context, self.seen = context, context.get_state_store("seen")

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self.seen.put(record.key, record.timestamp_ms)
        self.context.forward(record)


def test_a_null_key_that_a_processor_gives_a_store_is_for_the_processing_handler() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("seen", TEXT, Serdes.long()))
    builder.stream("in", READ).process_values(LooksUp, "seen").to("out", WRITE)
    with TopologyTestDriver(builder.build(), {"processing.exception.handler": "log_and_continue"}) as driver:
        pipe(driver, (None, b'{"n": 1}', 1), (b"a", b'{"n": 2}', 2))
        assert [value["n"] for value in values(driver)] == [2]
        assert driver.metrics.total(DROPPED_RECORDS) == 1
