"""Shorthands of the log's behaviour suite; also what its child processes run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

import numpy as np

from hayase.core.records import Headers, TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, Marker, OutputBatch

Values = Sequence[bytes | None]


class Row(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def batch(
    topic: str,
    values: Values,
    *,
    keys: Values | None = None,
    times: Sequence[int] | None = None,
    partitions: Sequence[int] | None = None,
    headers: list[Headers] | None = None,
) -> OutputBatch:
    """Values for a topic; unless told otherwise to partition 0, without keys, at 1,000 ms and each a second later."""
    if partitions is None and keys is None:
        partitions = [0] * len(values)
    return OutputBatch(
        topic,
        list(keys) if keys is not None else [None] * len(values),
        list(values),
        list(times) if times is not None else [1_000 * (index + 1) for index in range(len(values))],
        None if partitions is None else np.array(partitions, dtype=np.int32),
        headers,
    )


def append(log: Log, *batches: OutputBatch) -> None:
    """Append with a writer of its own."""
    writer = log.writer()
    writer.append(batches)
    writer.close()


def publish(log: Log, application: str, bundle: str, marker: Marker, *batches: OutputBatch) -> bool:
    """Publish with a writer of its own."""
    writer = log.writer()
    written = writer.publish_epoch(application, bundle, marker, batches)
    writer.close()
    return written


def bounds(log: Log, topic: str, partition: int = 0) -> tuple[int, int]:
    """First and end offset of a partition."""
    where = TopicPartition(topic, partition)
    return log.start_offsets([where])[where], log.end_offsets([where])[where]


def fetch(log: Log, topic: str, start: int, end: int, partition: int = 0) -> list[Row]:
    """The rows of a range, after checking that the batches are what the protocol promises."""
    rows: list[Row] = []
    reader = log.reader()
    for part in reader.fetch(TopicPartition(topic, partition), start, end):
        assert (part.topic, part.partition) == (topic, partition)
        count = len(part)
        assert part.offsets.dtype == part.timestamps_ms.dtype == np.int64
        assert len(part.offsets) == len(part.timestamps_ms) == len(part.keys) == count
        assert part.headers is None or (len(part.headers) == count and any(part.headers))
        headers = part.headers or [()] * count
        rows += map(Row, part.offsets.tolist(), part.timestamps_ms.tolist(), part.keys, part.values, headers)
    reader.close()
    offsets = [row.offset for row in rows]
    assert offsets == sorted(set(offsets))
    assert all(start <= offset < end for offset in offsets)
    return rows


def everything(log: Log, topic: str, partition: int = 0) -> list[Row]:
    """All rows of a partition."""
    return fetch(log, topic, *bounds(log, topic, partition), partition)


def values(log: Log, topic: str, partition: int = 0) -> list[bytes | None]:
    """All values of a partition."""
    return [row.value for row in everything(log, topic, partition)]


def settled_values(log: Log, topic: str, partition: int = 0) -> list[bytes | None]:
    """All values of a partition after every transaction that ended before this call.

    The end offset of a Kafka partition moves a little after a commit has returned; it has moved when a record that was
    appended later can be seen. Such records are left out.
    """
    fence = b"fence-" + uuid.uuid4().bytes
    append(log, batch(topic, [fence], partitions=[partition]))
    deadline = time.monotonic() + 20
    while fence not in (found := values(log, topic, partition)):
        assert time.monotonic() < deadline, "the record appended last cannot be seen"
        time.sleep(0.01)
    return [value for value in found if value is None or not value.startswith(b"fence-")]


def answer_with_markers(config: LogConfig, application: str, answers: Connection) -> None:
    """Send an application's markers as another process sees them."""
    log = open_log(config)
    answers.send(log.markers(application))
    log.close()


def answer_with_values(config: LogConfig, topic: str, orders: Connection) -> None:
    """For every message that comes send what this process, which keeps its log and reader, finds in the topic."""
    log = open_log(config)
    where = TopicPartition(topic, 0)
    reader = log.reader()
    while orders.recv() is not None:
        end = log.end_offsets([where])[where]
        orders.send([value for part in reader.fetch(where, 0, end) for value in part.values])
    log.close()


def publish_at_once(
    config: LogConfig, application: str, topic: str, number: int, barrier: Barrier, answers: Connection
) -> None:
    """Publish epoch 7 at the same time as others do."""
    log = open_log(config)
    writer = log.writer()
    barrier.wait()
    outputs = [batch(topic, [b"%d-%d" % (number, index) for index in range(50)])]
    answers.send(writer.publish_epoch(application, "b0", Marker("L", 7, "d"), outputs))
    log.close()


def append_many(config: LogConfig, topic: str, number: int, count: int) -> None:
    """Append numbered transactions of two records."""
    log = open_log(config)
    writer = log.writer()
    for index in range(count):
        writer.append([batch(topic, [b"%d-%d" % (number, index), b"%d-%d" % (number, index)])])
    writer.close()
    log.close()
