"""Where the input is cut into epochs changes no final result, and with caches off not even what a task sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Given, Result, merged, run, run_partitions

from hayase import (
    Consumed,
    EmitStrategy,
    Grouped,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    RecordContext,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    avg,
    count,
    left,
    max_,
    min_,
    right,
    sum_,
)
from hayase.compiler.build import source_topics
from hayase.core.metrics import DEAD_LETTERS, DROPPED_RECORDS, LATE_RECORDS, RECORDS_CONSUMED
from hayase.serde import SessionWindowedSerde, TimeWindowedSerde
from hayase.serde.murmur2 import partition_for_key
from hayase.testing import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("quiet")

TEXT, JSON = Serdes.string(), Serdes.json()
FIELDS = {"n": pl.Int64, "x": pl.Float64, "s": pl.String}
READ = Consumed.with_(TEXT, Serdes.json(schema=FIELDS))
WRITE = Produced.with_(TEXT, JSON)
EVERYTHING: dict[str, Any] = {
    "n": count(),
    "total": sum_("n"),
    "sum_x": sum_("x"),
    "low": min_("x"),
    "high": max_("s"),
    "mean": avg("n"),
}


def stateless(**_: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", READ).filter(pl.col("n") > 0).map_values({"m": pl.col("n") * 2, "s": pl.col("s")})
    stream.to("big", WRITE)
    others = stream.filter(pl.col("s").is_not_null()).select_key(pl.col("s"))
    others.merge(builder.stream("b", READ).map_values({"m": pl.col("n"), "s": pl.col("s")})).to("all", WRITE)
    return builder.build()


def aggregated(**_: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.stream("a", READ).group_by_key().agg(Materialized.as_("t"), **EVERYTHING)
    table.to_stream().to("out", WRITE)
    table.filter(pl.col("total") > 3).to_stream().to("large", WRITE)
    return builder.build()


def windowed(**_: Any) -> Topology:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(timedelta(milliseconds=20), timedelta(milliseconds=15))
    table = builder.stream("a", READ).group_by_key().windowed_by(windows).agg(Materialized.as_("w"), **EVERYTHING)
    table.to_stream().to("out", Produced.with_(TimeWindowedSerde(TEXT, 20), JSON))
    return builder.build()


def sessions(**_: Any) -> Topology:
    """Results on update, and on close, in a store of their own."""
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_and_grace(timedelta(milliseconds=4), timedelta(milliseconds=15))
    grouped = builder.stream("a", READ).group_by_key().windowed_by(windows)
    table = grouped.agg(Materialized.as_("u"), **EVERYTHING)
    written = Produced.with_(SessionWindowedSerde(TEXT), JSON)
    table.to_stream().to("out", written)
    table.filter(pl.col("total") > 3).to_stream().to("large", written)
    closed = grouped.emit_strategy(EmitStrategy.on_window_close()).agg(Materialized.as_("c"), **EVERYTHING)
    closed.to_stream().to("closed", written)
    return builder.build()


def sliding(**_: Any) -> Topology:
    """Results on update, and on close, in a store of their own."""
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(timedelta(milliseconds=9), timedelta(milliseconds=15))
    grouped = builder.stream("a", READ).group_by_key().windowed_by(windows)
    table = grouped.agg(Materialized.as_("u"), **EVERYTHING)
    written = Produced.with_(TimeWindowedSerde(TEXT, 9), JSON)
    table.to_stream().to("out", written)
    table.filter(pl.col("total") > 3).to_stream().to("large", written)
    closed = grouped.emit_strategy(EmitStrategy.on_window_close()).agg(Materialized.as_("c"), **EVERYTHING)
    closed.to_stream().to("closed", written)
    return builder.build()


def joined(**_: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", READ)  # first: `merged` breaks ties by topic, tasks by the order of their sources
    table = builder.table("b", READ, Materialized.as_("t"))
    fields = {"n": left("n"), "m": right("n"), "s": right("s")}
    stream.left_join(table, fields).to("left", WRITE)
    stream.join(table.filter(pl.col("n") > 1), fields).to("inner", WRITE)
    table.to_stream().to("changes", WRITE)
    return builder.build()


def rekeyed(**_: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", READ).filter(pl.col("s").is_not_null())
    table = stream.group_by(pl.col("s"), Grouped.with_(TEXT)).agg(
        Materialized.as_("t"), n=count(), total=sum_("n"), top=max_("x")
    )
    table.to_stream().to("out", WRITE)
    return builder.build()


def routed(**_: Any) -> Topology:
    """Two sinks that choose topics, and one that writes a topic which both may choose."""
    builder = StreamsBuilder()
    stream = builder.stream("a", READ).filter(pl.col("s").is_not_null() & (pl.col("n") > -4))
    words = stream.flat_map_values(pl.concat_list("s", pl.lit("p")))

    def named(key: str | None, word: str, context: RecordContext) -> str:
        return f"to-{word}" if context.offset % 2 else f"{context.topic}-{len(context.headers)}"

    words.to(named, Produced.with_(TEXT, TEXT))
    stream.map_values(pl.col("s")).to("to-p", Produced.with_(TEXT, TEXT))
    stream.to(pl.lit("to-") + pl.col("s"), Produced.with_(TEXT, JSON, partitioner=spread_out))
    return builder.build()


def spread_out(topic: str, key: str | None, value: dict[str, Any], partitions: int) -> Any:
    """By the sum: by key, to several, to one, to none."""
    return {0: None, 1: [partitions - 1, 0, 0], 2: 0}.get(value["n"] % 4, set())


class CountsPerTime(Processor[Any, Any, Any, Any]):
    """Sends the number of records of each key, and the time, every twelve milliseconds of stream time."""

    def init(self, context: Any) -> None:
        self.context, self.counts = context, context.get_state_store("counts")
        context.schedule(timedelta(milliseconds=12), PunctuationType.STREAM_TIME, self.send)

    def process(self, record: Record[Any, Any]) -> None:
        self.counts.put(str(record.key), (self.counts.get(str(record.key)) or 0) + 1)

    def send(self, now_ms: int) -> None:
        for key, number in list(self.counts.all()):
            self.context.forward(Record(key, {"n": number, "at": now_ms}, self.context.current_stream_time_ms()))
            self.counts.delete(key)


def processed(**_: Any) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("counts", TEXT, Serdes.long()))
    both = builder.stream("a", READ).merge(builder.stream("b", READ))
    both.process(CountsPerTime, "counts").to("out", WRITE)
    return builder.build()


ONE_TASK: dict[str, Callable[..., Topology]] = {
    "stateless": stateless,
    "routed": routed,
    "aggregated": aggregated,
    "windowed": windowed,
    "sessions": sessions,
    "sliding": sliding,
    "joined": joined,
}

ROWS_ONLY: dict[str, Callable[..., Topology]] = {"processed": processed}
EVERY_FORM = [(name, form) for name in ONE_TASK for form in ("rows", "columns")] + [
    (name, "rows") for name in ROWS_ONLY
]

MALFORMED = (b"nonsense", b'{"n": "text"}')


def without_times_of_malformed(found: list[Given]) -> list[Given]:
    """A record that cannot be decoded has no place in the merged order, so its time must not hold others back here."""
    return [record._replace(timestamp_ms=0) if record.value in MALFORMED else record for record in found]


keys = st.none() | st.sampled_from([b"k", b"l", b"m"])
rows = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-5, 9),
        "x": st.none() | st.sampled_from([0.1, 0.2, -0.3, 1e16, 2.0]),
        "s": st.none() | st.sampled_from(["p", "q", "r"]),
    }
)
values = st.none() | rows.map(lambda row: json.dumps(row).encode()) | st.sampled_from(MALFORMED)
headers = st.sampled_from([(), (), (), (("h", b"1"),)])
records = st.lists(
    st.builds(Given, st.sampled_from("ab"), st.just(0), keys, values, st.integers(0, 120), headers), max_size=30
).map(lambda found: merged(without_times_of_malformed(found)))
cuts = st.lists(st.integers(0, 30), max_size=5)

LENIENT = {
    "deserialization_exception_handler": "log_and_continue",
    "errors_dead_letter_queue_topic_name": "dead",
}
OFF: dict[str, Any] = {"statestore_cache_max_bytes": 0, **LENIENT}


def assert_same(one: Result, other: Result) -> None:
    """Dead letters are written when a partition is decoded, so only those of one partition are in order."""
    assert {t: plain(sent) for t, sent in one.sent.items() if t != "dead"} == {
        t: plain(sent) for t, sent in other.sent.items() if t != "dead"
    }
    assert dead_letters(one) == dead_letters(other)
    assert one.stores == other.stores
    assert one.metrics.rows() == other.metrics.rows()


@pytest.mark.long
@pytest.mark.parametrize(("name", "form"), EVERY_FORM)
@settings(max_examples=examples(20), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_with_caches_off_a_task_sends_the_same_wherever_its_input_is_cut(
    name: str, form: str, found: list[Given], at: list[int]
) -> None:
    topology = {**ONE_TASK, **ROWS_ONLY}[name]()
    whole = run(topology, found, processing_form=form, **OFF)
    assert_same(run(topology, found, at, processing_form=form, **OFF), whole)


@pytest.mark.long
@pytest.mark.parametrize("name", ONE_TASK)
@settings(max_examples=examples(20), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_rows_and_columns_send_the_same_and_keep_the_same_stores(name: str, found: list[Given], at: list[int]) -> None:
    topology = ONE_TASK[name]()
    for caching in (LENIENT, OFF):
        in_rows = run(topology, found, at, processing_form="rows", **caching)
        in_columns = run(topology, found, at, processing_form="columns", **caching)
        assert_same(in_columns, in_rows)


@pytest.mark.long
@pytest.mark.parametrize("name", ONE_TASK)
@settings(max_examples=examples(20), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_epochs_in_rows_and_in_columns_by_turns_send_and_keep_the_same(
    name: str, found: list[Given], at: list[int]
) -> None:
    topology = ONE_TASK[name]()
    for caching in (LENIENT, OFF):
        in_columns = run(topology, found, at, processing_form="columns", **caching)
        assert_same(run(topology, found, at, by_turns=True, **caching), in_columns)


@settings(max_examples=examples(30), deadline=None)
@given(found=records, at=cuts)
def test_both_forms_send_records_to_the_same_partitions(found: list[Given], at: list[int]) -> None:
    in_rows = run(routed(), found, at, processing_form="rows", sink_partitions=3, **OFF)
    in_columns = run(routed(), found, at, processing_form="columns", sink_partitions=3, **OFF)
    for topic in {*in_rows.sent, *in_columns.sent} - {"dead"}:
        assert in_columns.sent[topic] == in_rows.sent[topic], topic


def dead_letters(result: Result) -> dict[bytes | None, list[Any]]:
    """By source topic."""
    found: dict[bytes | None, list[Any]] = {}
    for record in result.sent.get("dead", []):
        found.setdefault(dict(record.headers)["__streams.errors.topic"], []).append(plain([record]))
    return found


def plain(sent: Iterable[Any]) -> list[Any]:
    """Without the trace of an error, which names the code of the form."""
    return [
        (record.key, record.value, record.timestamp_ms, [h for h in record.headers if not h[0].endswith("stacktrace")])
        for record in sent
    ]


@pytest.mark.long
@pytest.mark.parametrize(("name", "form"), EVERY_FORM)
@settings(max_examples=examples(20), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_with_caches_on_cuts_change_no_store_and_no_last_value(
    name: str, form: str, found: list[Given], at: list[int]
) -> None:
    topology = {**ONE_TASK, **ROWS_ONLY}[name]()
    whole = run(topology, found, processing_form=form, **OFF)
    cut = run(topology, found, at, processing_form=form, **LENIENT)
    assert cut.stores == whole.stores
    for topic in whole.sent.keys() - {"dead"}:
        kept = {key: value for key, value in whole.last(topic).items() if value is not None}
        assert {key: value for key, value in cut.last(topic).items() if value is not None} == kept, topic


@pytest.mark.long
@pytest.mark.parametrize(("name", "form"), EVERY_FORM)
@settings(max_examples=examples(12), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_the_test_driver_sends_what_epochs_send(name: str, form: str, found: list[Given], at: list[int]) -> None:
    topology = {**ONE_TASK, **ROWS_ONLY}[name]()
    result = run(topology, found, at, processing_form=form, **OFF)
    config = {key.replace("_", "."): value for key, value in {**OFF, "processing_form": form}.items()}
    with TopologyTestDriver(topology, config) as driver:
        for record in (r for r in found if r.topic in source_topics(topology)):
            driver.pipe(record.topic, record.key, record.value, record.timestamp_ms, record.headers)
        for topic in {*driver.produced_topic_names(), *result.sent} - {"dead"}:
            assert plain(driver.output_queue(topic)) == plain(result.sent.get(topic, [])), topic
        assert len(driver.output_queue("dead")) == len(result.sent.get("dead", []))
        for counter in (DROPPED_RECORDS, LATE_RECORDS, DEAD_LETTERS, RECORDS_CONSUMED):
            assert driver.metrics.total(counter) == result.metrics.total(counter)


def spread(found: list[Given], partitions: int) -> list[Given]:
    """The same records in partitions by key."""
    return merged([r._replace(partition=0 if r.key is None else partition_for_key(r.key, partitions)) for r in found])


@pytest.mark.parametrize("form", ["rows", "columns"])
@settings(max_examples=examples(15), deadline=None, print_blob=True)
@given(found=records, at=cuts, threads=st.integers(1, 3))
def test_a_shuffle_between_several_partitions_counts_the_same_wherever_the_input_is_cut(
    form: str, found: list[Given], at: list[int], threads: int
) -> None:
    found = spread([record for record in found if record.topic == "a"], 3)
    one = run_partitions(rekeyed(), {"a": 3}, found, processing_form=form, **OFF)
    other = run_partitions(rekeyed(), {"a": 3}, found, at, processing_form=form, threads=threads, **LENIENT)
    assert one.last("out") == other.last("out")
    assert without_clocks(one) == without_clocks(other)
    assert one.metrics.total(DROPPED_RECORDS) == other.metrics.total(DROPPED_RECORDS)


@settings(max_examples=examples(15), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_a_shuffle_in_rows_and_in_columns_sends_the_same(found: list[Given], at: list[int]) -> None:
    found = spread([record for record in found if record.topic == "a"], 3)
    in_rows = run_partitions(rekeyed(), {"a": 3}, found, at, processing_form="rows", **OFF)
    in_columns = run_partitions(rekeyed(), {"a": 3}, found, at, processing_form="columns", **OFF)
    assert plain(in_columns.sent.get("out", [])) == plain(in_rows.sent.get("out", []))
    assert in_columns.stores == in_rows.stores


def without_clocks(result: Result) -> dict[tuple[str, str], dict[bytes, bytes]]:
    return {place: rows for place, rows in result.stores.items() if place[1] != "__clocks"}
