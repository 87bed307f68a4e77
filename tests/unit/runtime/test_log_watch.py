"""One look at the log for all topologies of a shared runtime."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.runtime.epochs.log_watch import LogWatch

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
