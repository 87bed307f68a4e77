"""One look at the log for all topologies of a shared runtime."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch, TopicInfo
from hayase.runtime.epochs import log_watch
from hayase.runtime.epochs.log_watch import REST_POLL_S, LogWatch, Watch
from hayase.runtime.epochs.poll_pace import BUSY_POLL_S
from hayase.runtime.epochs.source_log import SourceLog

WAIT_S = 10.0
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    opened = EmbeddedLog(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false", "cleaner.interval.ms": "0"}))
    for topic in ("a", "b"):
        opened.create_topic(topic, 1)
    yield opened
    opened.close()


def put(log: EmbeddedLog, topic: str) -> None:
    writer = log.writer()
    writer.append([OutputBatch(topic, [b"k"], [b"v"], [0], None, None)])
    writer.close()


@pytest.mark.long
def test_a_topology_is_woken_by_its_own_topics_only(log: EmbeddedLog) -> None:
    watch = LogWatch(log)
    try:
        mine, other = watch.add([A]), watch.add([B])
        assert mine.wait(WAIT_S) and other.wait(WAIT_S)  # what was there before is news to it
        mine.clear()
        other.clear()
        put(log, "a")
        assert mine.wait(WAIT_S)
        assert not other.wait(0.2)
    finally:
        watch.close()


def test_what_comes_between_clear_and_wait_is_not_missed(log: EmbeddedLog) -> None:
    watch = LogWatch(log)
    try:
        mine = watch.add([A])
        assert mine.wait(WAIT_S)
        for _ in range(5):
            mine.clear()
            put(log, "a")
            assert mine.wait(WAIT_S)
    finally:
        watch.close()


def test_a_topology_that_waits_again_is_told_at_once_what_has_moved_meanwhile(log: EmbeddedLog) -> None:
    watch = LogWatch(log)
    try:
        mine = watch.add([A])
        assert mine.wait(WAIT_S)
        mine.clear()
        mine.rest(time.monotonic() + 3600)
        put(log, "a")
        assert mine.wait(WAIT_S)
    finally:
        watch.close()


def test_the_log_is_looked_at_right_before_a_topology_goes_on_though_it_was_not_to_be_looked_at_for_longer(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_watch, "REST_POLL_S", 3600.0)
    watch = LogWatch(log)
    try:
        mine = watch.add([A])
        assert mine.wait(WAIT_S)
        mine.rest()
        time.sleep(0.2)  # it is to look again in an hour
        put(log, "a")
        mine.rest(time.monotonic() + 0.1)
        deadline = time.monotonic() + WAIT_S
        while watch.known_ends([A]) != {A: 1}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        watch.close()


def test_a_topic_that_is_gone_wakes_its_readers_who_find_out_why(log: EmbeddedLog) -> None:
    watch = LogWatch(log)
    try:
        mine = watch.add([A])
        assert mine.wait(WAIT_S)
        mine.clear()
        log.delete_topic("a")
        assert mine.wait(WAIT_S)
    finally:
        watch.close()


def test_a_topic_that_grows_or_is_made_again_wakes_its_readers(log: EmbeddedLog) -> None:
    watch = LogWatch(log)
    try:
        mine, other = watch.add([A]), watch.add([B])
        assert mine.wait(WAIT_S) and other.wait(WAIT_S)
        watch.look_at_topics()
        mine.clear()
        other.clear()
        watch.look_at_topics()
        assert not mine.wait(0)
        log.delete_topic("a")
        log.create_topic("a", 1)
        watch.look_at_topics()
        assert mine.wait(0) and not other.wait(0)
    finally:
        watch.close()


@pytest.mark.long
def test_partitions_of_a_removed_topology_are_not_asked_for(log: EmbeddedLog) -> None:
    watch = LogWatch(log)
    try:
        gone = watch.add([A])
        mine = watch.add([B])
        watch.remove(gone)
        log.delete_topic("a")
        assert mine.wait(WAIT_S)
        mine.clear()
        assert not mine.wait(0.3)
        put(log, "b")
        assert mine.wait(WAIT_S)
    finally:
        watch.close()
    assert not any(thread.name == "hayase-log-watch" and thread.is_alive() for thread in threading.enumerate())


class _Hooked:
    """A log that calls a function while it is asked for ends, and remembers what it was asked."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self.asked: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append("ends")
        ends = self._log.end_offsets(partitions)
        self.meanwhile()
        return ends

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append("starts")
        return self._log.start_offsets(partitions)

    def describe(self, topics: Sequence[str]) -> dict[str, TopicInfo]:
        self.asked.append("topics")
        return self._log.describe(topics)


class _Looks:
    """A watch that looks when it is told to, by a clock that is set."""

    def __init__(self, log: EmbeddedLog) -> None:
        self.now_s = 100.0
        self.log = _Hooked(log)
        self.watch = LogWatch(self.log, lambda: self.now_s)  # type: ignore[arg-type]
        self.watch.close()
        self.sources = SourceLog(self.log, self.watch)  # type: ignore[arg-type]

    def look(self) -> None:
        self.watch.look()
        self.watch.look_at_topics()
        self.log.asked.clear()


@pytest.fixture
def looks(log: EmbeddedLog) -> _Looks:
    return _Looks(log)


def test_while_no_topology_would_do_anything_about_it_the_log_is_looked_at_less_often(looks: _Looks) -> None:
    mine, other = looks.watch.add([A]), looks.watch.add([B])
    now_s = looks.now_s

    def pause_s() -> float:
        return looks.watch.due_s(now_s, BUSY_POLL_S) - now_s

    mine.rest()
    assert pause_s() == pytest.approx(BUSY_POLL_S)  # the other one would
    other.rest()
    assert pause_s() == pytest.approx(REST_POLL_S)
    other.rest(now_s + 0.03)
    assert BUSY_POLL_S < pause_s() < 0.03
    other.rest()
    mine.wait(0)
    assert pause_s() == pytest.approx(BUSY_POLL_S)


def test_what_was_seen_within_a_second_is_not_asked_for_again(log: EmbeddedLog, looks: _Looks) -> None:
    put(log, "a")
    looks.watch.add([A])
    looks.look()
    looks.now_s += 0.9
    assert looks.sources.end_offsets({A: 0}, latest=False) == {A: 1}
    assert looks.sources.start_offsets([A]) == {A: 0}
    assert looks.sources.topic_ids({"a": 1}, None) == {"a": log.describe(["a"])["a"].topic_id}
    assert looks.log.asked == []


def test_what_was_seen_longer_ago_or_not_at_all_is_asked_for(looks: _Looks) -> None:
    looks.watch.add([A])
    looks.look()
    looks.sources.end_offsets({A: 0, B: 0}, latest=False)
    looks.sources.topic_ids({"b": 1}, None)
    assert looks.log.asked == ["ends", "topics"]
    looks.now_s += 1.1
    looks.sources.end_offsets({A: 0}, latest=False)
    looks.sources.start_offsets([A])
    looks.sources.topic_ids({"a": 1}, None)
    assert looks.log.asked == ["ends", "topics", "ends", "starts", "topics"]


def test_an_end_before_the_position_of_a_topology_is_asked_for(log: EmbeddedLog, looks: _Looks) -> None:
    """It has read further elsewhere, before this runtime had it."""
    looks.watch.add([A])
    looks.look()
    put(log, "a")
    assert looks.sources.end_offsets({A: 0}, latest=False) == {A: 0}
    assert looks.sources.end_offsets({A: 1}, latest=False) == {A: 1}
    assert looks.sources.end_offsets({A: 0}, latest=True) == {A: 1}


def test_a_topology_that_comes_during_a_look_is_woken_by_what_it_sees(log: EmbeddedLog, looks: _Looks) -> None:
    looks.watch.add([A])
    looks.look()
    put(log, "a")
    added: list[Watch] = []
    planned: list[dict[TopicPartition, int]] = []

    def come() -> None:
        added.append(looks.watch.add([A]))
        planned.append(looks.sources.end_offsets({A: 0}, latest=False))

    looks.log.meanwhile = come
    looks.watch.look()
    assert planned == [{A: 0}]
    assert added[0].wait(0)


def test_a_topic_of_which_the_end_goes_back_is_looked_at_anew(log: EmbeddedLog, looks: _Looks) -> None:
    put(log, "a")
    looks.watch.add([A])
    looks.look()
    before = log.describe(["a"])["a"].topic_id
    log.delete_topic("a")
    log.create_topic("a", 1)
    looks.watch.look()
    assert looks.sources.topic_ids({"a": 1}, None) != {"a": before}


def test_nothing_counts_as_known_behind_a_look_that_has_failed(log: EmbeddedLog) -> None:
    watch = LogWatch(log)
    try:
        mine = watch.add([A, B])
        assert mine.wait(WAIT_S)
        assert watch.known_ends([A, B]) is not None
        mine.clear()
        log.delete_topic("b")
        assert mine.wait(WAIT_S)
        assert watch.known_ends([A]) is None and watch.known_topics(["a"]) is None
    finally:
        watch.close()


@pytest.mark.long
def test_topics_are_known_all_the_time_while_anything_moves(log: EmbeddedLog) -> None:
    watch = LogWatch(log)
    try:
        watch.add([A])
        until = time.monotonic() + 3.5
        unknown = 0
        while (now := time.monotonic()) < until:
            put(log, "a")
            unknown += now > until - 2.0 and watch.known_topics(["a"]) is None
            time.sleep(0.02)
        assert unknown == 0
    finally:
        watch.close()
