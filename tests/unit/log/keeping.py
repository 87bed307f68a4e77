"""What the tests of retention, compaction and tiers share: a log on a clock of its own, and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from hayase.core.records import Headers, TopicPartition
from hayase.core.time import ManualClock
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch

WHERE = TopicPartition("t", 0)


class Row(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


@contextmanager
def kept_log(config: Mapping[str, str], folder: Path | None = None, now_ms: int = 0) -> Iterator[EmbeddedLog]:
    """A log without background cleaner, with a topic `t` of one partition."""
    with TemporaryDirectory() as temporary:
        place = str(folder if folder is not None else temporary)
        options = {"fsync": "false", "cleaner.interval.ms": "0"}
        log = EmbeddedLog(LogConfig("embedded", place, options), clock=ManualClock(now_ms))
        log.create_topic("t", 1, {**config, **({"remote.storage.url": f"{temporary}/old"} if _tiered(config) else {})})
        yield log
        log.close()


def _tiered(config: Mapping[str, str]) -> bool:
    return config.get("remote.storage.enable") == "true" and "remote.storage.url" not in config


def put(log: EmbeddedLog, *rows: tuple[bytes | None, bytes | None, int], headers: list[Headers] | None = None) -> None:
    """Append (key, value, timestamp) rows in one transaction."""
    keys, values, times = ([row[column] for row in rows] for column in range(3))
    log.writer().append([OutputBatch("t", keys, values, times, np.zeros(len(rows), dtype=np.int32), headers)])


def put_each(log: EmbeddedLog, *rows: tuple[bytes | None, bytes | None, int]) -> None:
    """Append (key, value, timestamp) rows, each in a transaction of its own: so each is a stored batch."""
    for row in rows:
        put(log, row)


def bounds(log: EmbeddedLog) -> tuple[int, int]:
    """First and end offset."""
    return log.start_offsets([WHERE])[WHERE], log.end_offsets([WHERE])[WHERE]


def rows(log: EmbeddedLog, start: int | None = None, end: int | None = None) -> list[Row]:
    """What a reader finds in a range, by default in all there is."""
    low, high = bounds(log)
    reader = log.reader()
    found: list[Row] = []
    for part in reader.fetch(WHERE, low if start is None else start, high if end is None else end):
        assert len(part)
        assert len(part.offsets) == len(part.timestamps_ms) == len(part.keys) == len(part)
        headers: Sequence[Headers] = part.headers if part.headers is not None else [()] * len(part)
        found += map(Row, part.offsets.tolist(), part.keys, part.values, part.timestamps_ms.tolist(), headers)
    reader.close()
    return found


def local_bytes(log: EmbeddedLog) -> int:
    """Size of what is in the log's folder, as the log says."""
    return log.storage("t")[0].local_bytes


def stored_bytes(log: EmbeddedLog) -> int:
    """Size of what is in the log's folder, counted."""
    with log._store.read() as tables:
        return sum(len(data) for _, data in tables.blobs(tables.partition(WHERE)[0], 0))


def clean_bytes(log: EmbeddedLog) -> int:
    """Size of the part that compaction calls clean."""
    with log._store.read() as tables:
        return tables.cleaned(tables.partition(WHERE)[0]).bytes
