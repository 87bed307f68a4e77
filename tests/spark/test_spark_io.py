"""Streaming Spark DataFrames as sources, Spark writers as sinks, on Spark: each row once, whatever happens."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.spark.place import Place, error_of, store_rows, until
from tests.spark.topologies import JSON, TEXT, WRITTEN

from hayase import (
    Consumed,
    Materialized,
    Produced,
    Serdes,
    State,
    StreamsBuilder,
    StreamThreadExceptionResponse,
    Topology,
    count,
    sum_,
)
from hayase.app.reset import reset_application
from hayase.core.config import StreamsConfig
from hayase.core.errors import ProcessingError, TopologyError
from hayase.core.records import TopicPartition

AMOUNT = Serdes.json(schema={"amount": pl.Int64})
REPLACE = StreamThreadExceptionResponse.REPLACE_THREAD


class Files:
    """A folder of JSON lines, which Spark's file source reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def put(self, *rows: tuple[str, int]) -> None:
        lines = "".join(json.dumps({"user": user, "amount": amount}) + "\n" for user, amount in rows)
        number = len(list(self.folder.iterdir()))
        hidden = self.folder / f".{number}.new"
        hidden.write_text(lines)
        hidden.rename(self.folder / f"{number:04d}.json")

    def frame(self, *columns: str, one_by_one: bool = True) -> Callable[[Any], Any]:
        folder = str(self.folder)

        def frame(spark: Any) -> Any:
            reader = spark.readStream.schema("user string, amount bigint")
            files = reader.option("maxFilesPerTrigger", 1) if one_by_one else reader
            return files.json(folder).selectExpr(*columns)

        return frame


class Written:
    """What a writer was given: a folder of Parquet files a number, replaced if it comes again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[int] = []
        self.fail_at: set[int] = set()

    def write(self, frame: Any, number: int) -> None:
        self.calls.append(number)
        if number in self.fail_at:
            self.fail_at.remove(number)
            raise ValueError("the disk of the archive is full")
        frame.write.mode("overwrite").parquet(str(self.folder / f"n={number}"))

    @property
    def numbers(self) -> list[int]:
        return sorted(int(folder.name[2:]) for folder in self.folder.glob("n=*"))

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for number in self.numbers:
            frames = [pl.read_parquet(file) for file in sorted((self.folder / f"n={number}").glob("*.parquet"))]
            found += [row for frame in frames for row in frame.to_dicts()]
        return found


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "clicks")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "archive")


def totals(frame: Callable[[Any], Any], write: Callable[[Any, int], None], **options: Any) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.from_spark("clicks", frame, Consumed.with_(TEXT, AMOUNT), partitions=2)
    table = clicks.group_by_key().agg(Materialized.as_("totals"), n=count(), total=sum_("amount"))
    table.to_stream().to_spark("archive", write, **options)
    return builder.build()


STRUCT = ("user AS key", "struct(amount) AS value")


def test_files_become_records_and_tables_become_files_run_after_run(
    place: Place, files: Files, written: Written
) -> None:
    topology = totals(files.frame(*STRUCT), written.write, max_records=3)
    files.put(("ada", 1), ("ben", 2), ("ada", 3))
    files.put(("cy", 4))
    app = place.run(topology)
    assert app.progress().consumed == 4
    assert store_rows(app, "totals") == {
        "ada": {"n": 2, "total": 4}, "ben": {"n": 1, "total": 2}, "cy": {"n": 1, "total": 4}
    }  # fmt: skip
    before = written.numbers
    assert before[0] == 0
    files.put(("ada", 5))
    app = place.run(topology)
    assert store_rows(app, "totals")["ada"] == {"n": 3, "total": 9}
    assert written.calls == list(range(len(written.calls)))  # nothing was written again
    last = written.rows()[-1]
    assert (last["key"], last["value"]) == ("ada", {"n": 3, "total": 9})
    assert {"timestamp", "partition", "offset", "headers"} < last.keys()
    places = Counter((row["partition"], row["offset"]) for row in written.rows())
    assert set(places.values()) == {1}
    assert place.run(topology).progress().consumed == 0


def test_keys_timestamps_headers_and_partitions_of_a_frame_are_those_of_the_records(place: Place, files: Files) -> None:
    place.topic("out", 2)
    frame = files.frame(
        "cast(user AS binary) AS key",
        "concat('<', user, '>') AS value",
        "timestamp_millis(amount) AS timestamp",
        "array(struct('trace' AS key, cast('t' AS binary) AS value)) AS headers",
        "1 AS partition",
    )
    builder = StreamsBuilder()
    clicks = builder.from_spark("clicks", frame, Consumed.with_(TEXT, TEXT), partitions=2)
    clicks.to("out", Produced.with_(TEXT, TEXT, partitioner=lambda topic, key, value, partitions: 0))
    files.put(("ada", 1_700_000_000_123), ("ben", 5))
    place.run(builder.build(), repartition_purge_interval_ms=3_600_000)
    assert sorted(place.rows("out")) == [("ada", b"<ada>", 1_700_000_000_123), ("ben", b"<ben>", 5)]
    assert place.headers("out") == [{"trace": "t"}] * 2
    assert [len(part) for part in place.partitions("app-clicks-from-spark")] == [0, 2]


def test_while_it_runs_it_takes_what_comes_and_close_waits_for_both(place: Place, written: Written) -> None:
    """The rate source numbers its rows, so a row that is lost or comes twice is seen."""
    place.topic("out", 1)

    def rate(spark: Any) -> Any:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
        return rows.selectExpr("cast(value % 3 AS string) AS key", "cast(value AS string) AS value")

    def topology() -> Topology:
        builder = StreamsBuilder()
        numbers = builder.from_spark("numbers", rate, Consumed.with_(TEXT, TEXT))
        numbers.to("out", Produced.with_(TEXT, TEXT))
        numbers.to_spark("archive", written.write, interval=timedelta(0))
        return builder.build()

    for _ in range(2):
        app = place.app(topology())
        seen = len(place.rows("out"))
        with app:
            app.start()
            until(lambda seen=seen: len(place.rows("out")) >= seen + 10, app, 300)
            assert app.close()
        assert app.state is State.NOT_RUNNING
        found = sorted(int(row.value) for row in place.rows("out"))
        assert found == list(range(len(found)))
    calls = len(written.calls)
    assert written.calls == list(range(calls))
    archived = sorted(int(row["value"]) for row in written.rows())
    assert archived == sorted(set(archived))
    assert len(archived) <= len(found)


def test_close_waits_for_a_write_that_takes_longer_than_the_query_needs_to_stop(
    place: Place, files: Files, written: Written
) -> None:
    begun = threading.Event()

    def slowly(frame: Any, number: int) -> None:
        begun.set()
        time.sleep(3)
        written.write(frame, number)

    files.put(("ada", 1))
    with place.app(totals(files.frame(*STRUCT), slowly)) as app:
        app.start()
        until(begun.is_set, app, 300)
        assert app.close()
    assert app.error is None
    assert written.calls == [0]
    place.run(totals(files.frame(*STRUCT), written.write))
    assert written.calls == [0]


def test_a_frame_with_state_goes_on_where_it_was(place: Place, files: Files) -> None:
    place.topic("out", 1)

    def counted(spark: Any) -> Any:
        rows = spark.readStream.schema("user string, amount bigint").json(str(files.folder))
        return rows.groupBy("user").count().selectExpr("user AS key", "cast(count AS string) AS value")

    builder = StreamsBuilder()
    clicks = builder.from_spark("clicks", counted, Consumed.with_(TEXT, TEXT), output_mode="update")
    clicks.to("out", Produced.with_(TEXT, TEXT))
    topology = builder.build()
    files.put(("ada", 1), ("ada", 1), ("ben", 1))
    place.run(topology)
    assert place.last("out") == {"ada": 2, "ben": 1}
    files.put(("ada", 1))
    place.run(topology)
    assert place.last("out") == {"ada": 3, "ben": 1}
    assert len(place.rows("out")) == 3


def test_a_writer_that_failed_gets_the_same_records_under_the_same_number(
    place: Place, files: Files, written: Written
) -> None:
    files.put(("ada", 1), ("ben", 2))
    written.fail_at = {0}
    app = place.app(totals(files.frame(*STRUCT), written.write))
    seen = []
    app.set_uncaught_exception_handler(lambda error: seen.append(error) or REPLACE)
    app.run_to_end()
    (error,) = seen
    assert isinstance(error, ProcessingError)
    assert error.condition == "SPARK_SINK_FAILED"
    assert "to_spark 'archive'" in error.message and "the disk of the archive is full" in error.message
    assert written.calls[:2] == [0, 0]
    assert sorted(row["key"] for row in written.rows()) == ["ada", "ben"]


def test_a_writer_that_fails_is_an_error_of_the_application_and_the_next_start_goes_on(
    place: Place, files: Files, written: Written
) -> None:
    files.put(("ada", 1))
    written.fail_at = {0}
    app = place.app(totals(files.frame(*STRUCT), written.write))
    error = error_of(app.run_to_end)
    assert error.condition == "SPARK_SINK_FAILED"
    assert "\n" not in str(error)
    assert app.state is State.ERROR
    place.run(totals(files.frame(*STRUCT), written.write))
    assert [row["key"] for row in written.rows()] == ["ada"]


@pytest.mark.parametrize(
    ("columns", "condition", "told"),
    [
        (("user AS key", "amount AS value"), "INVALID_SPARK_FRAME", "column value"),
        (("user AS key",), "INVALID_SPARK_FRAME", "no column 'value'"),
        (("nowhere AS key", "amount AS value"), "SPARK_SOURCE_FAILED", "nowhere"),
        (
            ("user AS key", "struct(cast(raise_error('boom') AS bigint) AS amount) AS value"),
            "SPARK_SOURCE_FAILED",
            "boom",
        ),
    ],
)
def test_what_is_wrong_with_a_frame_is_one_line_that_names_it(
    place: Place, files: Files, columns: tuple[str, ...], condition: str, told: str
) -> None:
    files.put(("ada", 1))
    app = place.app(totals(files.frame(*columns), lambda frame, number: None))
    error = error_of(app.run_to_end)
    assert error.condition == condition
    assert "from_spark 'clicks'" in str(error) and told in str(error)
    assert "\n" not in str(error)
    assert app.state is State.ERROR


def test_a_frame_that_is_not_streaming_is_refused(place: Place) -> None:
    topology = totals(lambda spark: spark.range(1), lambda frame, number: None)
    error = error_of(place.app(topology).start)
    assert isinstance(error, TopologyError)
    assert "not streaming" in error.message


@pytest.mark.slow
def test_what_is_through_is_deleted_from_both_topics(place: Place, files: Files, written: Written) -> None:
    for amount in range(4):
        files.put(("ada", amount))
    topology = totals(files.frame(*STRUCT), written.write, max_records=1)
    for _ in range(2):
        place.run(topology, repartition_purge_interval_ms=0)
        files.put(("ada", 9))
    for topic in ("app-clicks-from-spark", "app-archive-to-spark"):
        info = place.log.describe([topic])[topic]
        partitions = [TopicPartition(topic, number) for number in range(info.partitions)]
        assert sum(place.log.start_offsets(partitions).values()) > 0, topic


@pytest.mark.slow
def test_a_reset_forgets_what_spark_knew_and_what_was_written(place: Place, files: Files, written: Written) -> None:
    files.put(("ada", 1))
    topology = totals(files.frame(*STRUCT), written.write)
    place.run(topology)
    reset_application(StreamsConfig(place.settings()), place.log)
    assert place.log.topics() == []
    app = place.run(topology)
    assert store_rows(app, "totals") == {"ada": {"n": 1, "total": 1}}
    assert written.calls == [0, 0]


@pytest.mark.kafka
def test_on_kafka_each_row_comes_and_goes_once(kafka_place: Place, files: Files, written: Written) -> None:
    place = kafka_place
    name = place.topic("out", 2)
    builder = StreamsBuilder()
    clicks = builder.from_spark("clicks", files.frame(*STRUCT), Consumed.with_(TEXT, AMOUNT), partitions=2)
    clicks.to(name, WRITTEN)
    clicks.to_spark("archive", written.write, Produced.with_(TEXT, JSON))
    topology = builder.build()
    for run in range(2):
        files.put(*((f"u{n}", 10 * run + n) for n in range(5)))
        place.run(topology, repartition_purge_interval_ms=0)
    amounts = [10 * run + n for run in range(2) for n in range(5)]
    assert sorted(row.value["amount"] for row in place.rows("out")) == amounts
    assert sorted(row["value"]["amount"] for row in written.rows()) == amounts
