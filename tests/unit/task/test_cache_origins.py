"""An error in what a cache sends at the end of an epoch names the record that made it, not the epoch's last one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from tests.unit.task.harness import Chunking, Given, Sent, run, run_partitions

from hayase import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows, Topology, sum_
from hayase.core.errors import HayaseError

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64}))
SHARES = Produced.with_(TEXT, Serdes.json(schema={"share": pl.Float64}))
HEADER = "__streams.errors."

FORMS = pytest.mark.parametrize("form", ["rows", "columns"])
CHUNKS = pytest.mark.parametrize("chunk", [None, Chunking(2), Chunking(3, 1 << 20, spill=False)], ids=str)


def aggregated(builder: StreamsBuilder) -> Any:
    """Sums per key."""
    return builder.stream("in", READ).group_by_key().agg(Materialized.as_("sums"), n=sum_("n"))


def read(builder: StreamsBuilder) -> Any:
    """The last value of each key."""
    return builder.table("in", READ, Materialized.as_("rows"))


def twice(builder: StreamsBuilder) -> Any:
    """Two caches, one behind the other."""
    kept = Materialized.as_("more").with_value_serde(Serdes.json(schema={"n": pl.Int64}))
    return aggregated(builder).map_values({"n": pl.col("n") * 1}, kept)


def windowed(builder: StreamsBuilder) -> Any:
    """Sums per key and window."""
    windows = TimeWindows.of_size_with_no_grace(timedelta(hours=1))
    return builder.stream("in", READ).group_by_key().windowed_by(windows).agg(Materialized.as_("windows"), n=sum_("n"))


def regrouped(builder: StreamsBuilder) -> Any:
    """A cache in the task that a shuffle leads to."""
    grouped = builder.stream("in", READ).group_by(
        pl.concat_str(pl.lit("of-"), pl.col("n").cast(pl.String)), Grouped.with_(TEXT)
    )
    return grouped.agg(Materialized.as_("by-n"), n=sum_("n"))


TABLES = pytest.mark.parametrize("table", [aggregated, read, twice, windowed], ids=lambda each: each.__name__)


def unprocessable(table: Callable[[StreamsBuilder], Any]) -> Topology:
    """What is sent fails in a node behind the cache where it is 100 or more."""
    builder = StreamsBuilder()
    stream = table(builder).to_stream()
    small = stream.map_values({"n": (pl.col("n") + 28).cast(pl.Int8)})
    small.select_key(pl.col("n").cast(pl.String)).to("out", Produced.with_(TEXT, Serdes.json(schema={"n": pl.Int8})))
    return builder.build()


def unwritable(table: Callable[[StreamsBuilder], Any]) -> Topology:
    """What is sent cannot be written where it is 0."""
    builder = StreamsBuilder()
    shares = table(builder).to_stream().map_values({"share": 1 / pl.col("n")})
    shares.select_key(pl.col("share").cast(pl.String)).to("out", SHARES)
    return builder.build()


def records(*rows: tuple[str, int]) -> list[Given]:
    return [
        Given("in", 0, key.encode(), json.dumps({"n": n}).encode(), 1_000 + at, (("at", b"%d" % at),))
        for at, (key, n) in enumerate(rows)
    ]


def letters(topology: Topology, given: list[Given], **settings: Any) -> list[Sent]:
    handlers = {f"{stage}_exception_handler": "dead_letter" for stage in ("processing", "production")}
    result = run(topology, given, errors_dead_letter_queue_topic_name="dead", **handlers, **settings)
    assert {record.value for record in result.sent["out"]}
    return result.sent["dead"]


def expect(found: list[Sent], given: list[Given], *offsets: int) -> None:
    assert [(sent.key, sent.value, sent.timestamp_ms) for sent in found] == [
        (given[offset].key, given[offset].value, given[offset].timestamp_ms) for offset in offsets
    ]
    told = [dict(sent.headers) for sent in found]
    assert [headers[HEADER + "offset"] for headers in told] == [b"%d" % offset for offset in offsets]
    assert [headers["at"] for headers in told] == [b"%d" % offset for offset in offsets]


@TABLES
@FORMS
@CHUNKS
def test_a_node_behind_a_cache_that_fails_dead_letters_the_record_that_made_the_update(
    table: Callable[[StreamsBuilder], Any], form: str, chunk: Chunking | None
) -> None:
    given = records(("a", 1), ("bad", 100), ("b", 2), ("worse", 101), ("bad", 100), ("c", 3), ("a", 1), ("d", 4))
    found = letters(unprocessable(table), given, processing_form=form, chunk=chunk)
    expect(found, given, 3, 4)


@TABLES
@FORMS
@CHUNKS
def test_a_sink_behind_a_cache_that_fails_dead_letters_the_record_that_made_the_update(
    table: Callable[[StreamsBuilder], Any], form: str, chunk: Chunking | None
) -> None:
    given = records(("a", 1), ("bad", 0), ("b", 2), ("worse", 0), ("bad", 0), ("c", 3), ("a", 1), ("d", 4))
    found = letters(unwritable(table), given, processing_form=form, chunk=chunk)
    expect(found, given, 3, 4)


@FORMS
@CHUNKS
def test_behind_a_shuffle_it_is_the_record_that_came_over_it(form: str, chunk: Chunking | None) -> None:
    given = records(("a", 1), ("b", 100), ("c", 2), ("d", 3))
    found = letters(unprocessable(regrouped), given, processing_form=form, chunk=chunk)
    assert [(sent.key, json.loads(sent.value or b"")) for sent in found] == [(b"of-100", {"n": 100})]


@pytest.mark.long
@FORMS
@CHUNKS
def test_behind_a_shuffle_no_two_records_of_a_partition_have_one_offset(form: str, chunk: Chunking | None) -> None:
    """Two origins send in each of three epochs. The offsets are the same however often an epoch is run."""
    numbers = [100, 101, 102, 1, 103, 104, 2, 105, 3, 106, 107]
    given = [Given("in", at % 2, b"k", b'{"n": %d}' % n, 1_000 + at) for at, n in enumerate(numbers)]

    def failed() -> list[dict[str, bytes | None]]:
        dead = "dead_letter"
        result = run_partitions(
            unprocessable(regrouped), {"in": 2}, given, [4, 8], processing_form=form, chunk=chunk,
            errors_dead_letter_queue_topic_name="dead", processing_exception_handler=dead,
        )  # fmt: skip
        return [dict(sent.headers) for sent in result.sent["dead"]]

    headers = failed()
    where = [[each[HEADER + name] for name in ("topic", "partition", "offset")] for each in headers]
    assert {topic for topic, _, _ in where} == {b"-by-n-repartition"}
    assert len({(partition, offset) for _, partition, offset in where}) == len(where) == 8
    epochs = [int(offset or b"") >> 32 for _, _, offset in where]
    assert epochs == sorted(epochs) and len(set(epochs)) == 3
    assert [each[HEADER + "offset"] for each in failed()] == [offset for _, _, offset in where]


@FORMS
def test_an_error_names_the_offset_of_the_record_that_made_the_update(form: str) -> None:
    given = records(("a", 1), ("bad", 100), ("b", 2))
    with pytest.raises(HayaseError) as failed:
        run(unprocessable(aggregated), given, processing_form=form)
    assert {"topic": "in", "partition": 0, "offset": 1}.items() <= failed.value.context.items()
