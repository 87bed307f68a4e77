"""Topologies that run in the server's process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from hayase import Consumed, Grouped, Materialized, Produced, Repartitioned, Serdes, StreamsBuilder
from hayase.core.errors import StateError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch, RecordBatch
from hayase.server.local_run.query import LocalQuery
from hayase.server.local_run.run import LocalRun
from hayase.server.local_run.tails import LogTails
from hayase.state.stores.key_value import ReadOnlyKeyValueStore
from hayase.state.stores.views import as_kind, open_read_only_view
from hayase.topology.topology import Topology

_NO_CACHE = {"statestore.cache.max.bytes": 0}


def _counts() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("lines", Consumed.with_(Serdes.string(), Serdes.string())).map(
        lambda key, line: (line, line)
    )
    grouped = words.group_by_key(Grouped.with_(Serdes.string(), Serdes.string()))
    counts = grouped.count(Materialized.as_("counts").with_key_serde(Serdes.string()))
    counts.to_stream().to("counted", Produced.with_(Serdes.string(), Serdes.long()))
    return builder.build()


def _batch(partition: int, values: list[str], first: int = 0) -> RecordBatch:
    count = len(values)
    return RecordBatch(
        "lines",
        partition,
        np.arange(first, first + count),
        np.zeros(count, np.int64),
        [None] * count,
        [value.encode() for value in values],
    )


def _written(batches: list[OutputBatch]) -> list[tuple[str, int]]:
    return [
        (str(key, "utf-8"), Serdes.long().from_bytes(value))
        for batch in batches
        for key, value in zip(batch.keys, batch.values, strict=True)
        if key is not None and value is not None
    ]


@pytest.fixture
def log(tmp_path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(LogConfig("embedded", str(tmp_path), {"fsync": "false"}))
    yield log
    log.close()


@pytest.fixture
def tails(log: EmbeddedLog) -> Iterator[LogTails]:
    tails = LogTails(log, poll_every_s=0.002)
    yield tails
    tails.close()


def _append(log: EmbeddedLog, values: list[str]) -> None:
    writer = log.writer()
    writer.append([OutputBatch("lines", [None] * len(values), [v.encode() for v in values], [0] * len(values))])
    writer.close()


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class TestLocalRun:
    def test_records_of_all_partitions_reach_the_task_of_their_new_key(self) -> None:
        run = LocalRun(_counts(), _NO_CACHE, lambda _: 3)
        written = _written(run.run([_batch(0, ["a", "b"]), _batch(2, ["a"])]))
        assert sorted(written) == [("a", 1), ("a", 2), ("b", 1)]

    def test_state_lives_from_call_to_call(self) -> None:
        run = LocalRun(_counts(), _NO_CACHE, lambda _: 1)
        run.run([_batch(0, ["a"])])
        assert _written(run.run([_batch(0, ["a"], first=1)])) == [("a", 2)]

    def test_a_store_has_a_part_for_each_task(self) -> None:
        run = LocalRun(_counts(), _NO_CACHE, lambda _: 3)
        run.run([_batch(0, ["a", "b", "c"])])
        with run.lock:
            views = [
                as_kind(open_read_only_view(run.spec("counts"), part), ReadOnlyKeyValueStore)
                for part in run.store_partitions("counts")
            ]
            keys = [row.key for view in views for row in view.all()]
        assert len(views) == 3
        assert sorted(keys) == ["a", "b", "c"]

    def test_a_state_that_grows_too_large_is_an_error_with_advice(self) -> None:
        run = LocalRun(_counts(), _NO_CACHE, lambda _: 1, state_bytes_max=2_000)
        with pytest.raises(StateError, match="CREATE TABLE") as raised:
            run.run([_batch(0, [f"word {number}" for number in range(100)])])
        assert raised.value.condition == "LOCAL_STATE_TOO_LARGE"

    @pytest.mark.long
    def test_updates_of_few_keys_do_not_add_up(self) -> None:
        run = LocalRun(_counts(), _NO_CACHE, lambda _: 1, state_bytes_max=2_000)
        for number in range(100):
            run.run([_batch(0, ["a"], first=number)])
        assert _written(run.run([_batch(0, ["a"], first=100)])) == [("a", 101)]

    def test_what_is_written_to_a_repartition_topic_comes_back(self) -> None:
        builder = StreamsBuilder()
        stream = builder.stream("lines", Consumed.with_(Serdes.string(), Serdes.string()))
        again = stream.map(lambda key, line: (line, line)).repartition(
            Repartitioned.with_(Serdes.string(), Serdes.string())
        )
        again.to("out", Produced.with_(Serdes.string(), Serdes.string()))
        run = LocalRun(builder.build(), _NO_CACHE, lambda _: 2)
        (batch,) = run.run([_batch(1, ["a", "b"])])
        assert batch.topic == "out"
        assert sorted(key for key in batch.keys if key) == [b"a", b"b"]


class TestLogTails:
    def test_a_listener_gets_what_is_written_after_it_came(self, log: EmbeddedLog, tails: LogTails) -> None:
        log.create_topic("lines", 1)
        _append(log, ["before"])
        taken: list[bytes | None] = []
        listening = tails.listen(["lines"], lambda batch: taken.extend(batch.values))
        _append(log, ["after"])
        _wait_for(lambda: taken)
        listening.close()
        assert taken == [b"after"]

    def test_a_record_is_fetched_once_for_all_listeners(self, log: EmbeddedLog, tails: LogTails) -> None:
        log.create_topic("lines", 1)
        taken: list[RecordBatch] = []
        for _ in range(3):
            tails.listen(["lines"], taken.append)
        _append(log, ["x"])
        _wait_for(lambda: len(taken) == 3)
        assert taken[0] is taken[1] is taken[2]

    def test_an_unknown_topic_cannot_be_listened_to(self, tails: LogTails) -> None:
        with pytest.raises(UnknownTopicError):
            tails.listen(["nothing"], lambda batch: None)

    def test_listeners_of_other_topics_go_on_when_one_is_deleted(self, log: EmbeddedLog, tails: LogTails) -> None:
        log.create_topic("lines", 1)
        log.create_topic("gone", 1)
        taken: list[RecordBatch] = []
        tails.listen(["gone"], taken.append)
        tails.listen(["lines"], taken.append)
        log.delete_topic("gone")
        _append(log, ["x"])
        _wait_for(lambda: taken)
        assert taken[0].topic == "lines"

    @pytest.mark.parametrize("made_again", [True, False])
    def test_who_listens_to_a_topic_that_is_deleted_is_told(
        self, log: EmbeddedLog, tails: LogTails, made_again: bool
    ) -> None:
        log.create_topic("lines", 1)
        _append(log, ["x", "y"])
        told: list[UnknownTopicError] = []
        tails.listen(["lines"], lambda batch: None, told.append)
        log.delete_topic("lines")
        if made_again:
            log.create_topic("lines", 1)
        _wait_for(lambda: told)
        assert told[0].context["topic"] == "lines"


class TestLocalQuery:
    def test_from_the_beginning_nothing_is_missed_or_read_twice(self, log: EmbeddedLog, tails: LogTails) -> None:
        log.create_topic("lines", 2)
        _append(log, ["a"] * 50)
        written: list[OutputBatch] = []
        query = LocalQuery(_counts(), _NO_CACHE, tails, written.extend, "earliest")
        for _ in range(50):
            _append(log, ["a"])
        _wait_for(lambda: len(_written(written)) >= 100)
        query.close()
        assert [count for _, count in _written(written)] == list(range(1, 101))

    @pytest.mark.long
    def test_more_input_than_fits_is_read_from_the_log(self, log: EmbeddedLog, tails: LogTails) -> None:
        log.create_topic("lines", 1)
        written: list[OutputBatch] = []
        may_go_on = threading.Event()

        def slow(batches: list[OutputBatch]) -> None:
            may_go_on.wait(10)
            written.extend(batches)

        query = LocalQuery(_counts(), _NO_CACHE, tails, slow, "latest")
        for number in range(30):
            _append(log, [f"{number} " + "x" * 100_000])
        time.sleep(0.1)
        may_go_on.set()
        _wait_for(lambda: sum(map(len, written)) == 30)
        query.close()
        assert [key[:2].strip() for key, _ in _written(written)] == [str(number) for number in range(30)]

    def test_it_says_when_everything_is_processed(self, log: EmbeddedLog, tails: LogTails) -> None:
        log.create_topic("lines", 1)
        _append(log, ["a"])
        written: list[OutputBatch] = []
        query = LocalQuery(_counts(), _NO_CACHE, tails, written.extend, "earliest")
        ends = log.end_offsets([TopicPartition("lines", 0)])
        _wait_for(lambda: query.has_processed(ends))
        query.close()
        assert _written(written) == [("a", 1)]

    def test_an_error_ends_it_and_is_told(self, log: EmbeddedLog, tails: LogTails) -> None:
        log.create_topic("lines", 1)
        ended: list[BaseException] = []

        def fail(batches: list[OutputBatch]) -> None:
            raise UnknownTopicError("UNKNOWN_TOPIC", "the topic is gone")

        query = LocalQuery(_counts(), _NO_CACHE, tails, fail, "latest", on_end=ended.append)
        _append(log, ["a"])
        _wait_for(lambda: ended)
        query.close()
        assert query.error is ended[0]
