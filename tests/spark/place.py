"""Where a test's application lives: its topics, its settings, and what it left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from hayase import HayaseError, State, StreamsApp, Topology
from hayase.core.records import Headers, TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch


class Row(NamedTuple):
    """A record of an output topic as text."""

    key: str | None
    value: Any
    timestamp_ms: int


class Place:
    """Topics and folders of one test."""

    def __init__(self, folder: Path, config: LogConfig, prefix: str = "") -> None:
        self.folder = folder
        self.config = config
        self.prefix = prefix
        self.application_id = f"{prefix}app"
        self.log = open_log(config)
        self._writer = self.log.writer()

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self.log.close()

    def settings(self, **more: Any) -> dict[str, Any]:
        """Settings of the application; underscores in names stand for dots."""
        where = (
            {"log.dir": self.config.location}
            if self.config.kind == "embedded"
            else {"bootstrap.servers": self.config.location, **self.config.options}
        )
        return {
            "application.id": self.application_id,
            "state.dir": str(self.folder / "state"),
            "checkpoint.fsync": False,
            "commit.interval.ms": 0,
            "num.stream.threads": 2,
            **where,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def app(self, topology: Topology, **more: Any) -> StreamsApp:
        """The application, not started."""
        return StreamsApp(topology, self.settings(**more))

    def run(self, topology: Topology, **more: Any) -> StreamsApp:
        """The application after it has run to the end of its input."""
        app = self.app(topology, **more)
        app.run_to_end()
        return app

    def topic(self, name: str, partitions: int = 2) -> str:
        """Make a topic; its full name."""
        self.log.create_topic(self.prefix + name, partitions)
        return self.prefix + name

    def put(self, topic: str, rows: Iterable[tuple[str | None, Any, int]], headers: Headers = ()) -> None:
        """Append records; values that are no bytes become JSON."""
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        times: list[int] = []
        for key, value, timestamp_ms in rows:
            keys.append(None if key is None else key.encode())
            values.append(value if value is None or isinstance(value, bytes) else json.dumps(value).encode())
            times.append(timestamp_ms)
        all_headers = [headers] * len(keys) if headers else None
        self._writer.append([OutputBatch(self.prefix + topic, keys, values, times, None, all_headers)])

    def partitions(self, topic: str) -> list[list[Row]]:
        """The records of each partition of a topic, in order."""
        name = self.prefix + topic
        count = self.log.describe([name])[name].partitions
        return [self._partition(TopicPartition(name, number)) for number in range(count)]

    def rows(self, topic: str) -> list[Row]:
        """The records of all partitions, partition by partition."""
        return [row for partition in self.partitions(topic) for row in partition]

    def last(self, topic: str) -> dict[str | None, Any]:
        """The last value of each key."""
        return {row.key: row.value for row in self.rows(topic)}

    def headers(self, topic: str) -> list[dict[str, str]]:
        """The headers of all records."""
        found: list[dict[str, str]] = []
        for batch in self._batches(TopicPartition(self.prefix + topic, 0)):
            found += [{name: (data or b"").decode() for name, data in each} for each in batch.headers or []]
        return found

    def _partition(self, partition: TopicPartition) -> list[Row]:
        rows = []
        for batch in self._batches(partition):
            for key, value, time_ms in zip(batch.keys, batch.values, batch.timestamps_ms.tolist(), strict=True):
                rows.append(Row(None if key is None else key.decode(), _plain(value), time_ms))
        return rows

    def _batches(self, partition: TopicPartition) -> list[Any]:
        start, end = self.log.start_offsets([partition])[partition], self.log.end_offsets([partition])[partition]
        reader = self.log.reader()
        try:
            return list(reader.fetch(partition, start, end)) if start < end else []
        finally:
            reader.close()


def _plain(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return json.loads(value)
    except ValueError:
        return value


def until(condition: Callable[[], bool], app: StreamsApp | None = None, seconds: float = 60) -> None:
    """Wait until it is so; fails after that time, or when the application has."""
    deadline = time.monotonic() + seconds
    while not condition():
        if app is not None and app.state is State.ERROR and app.error is not None:
            raise app.error
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def error_of(run: Callable[[], object]) -> HayaseError:
    """The error that a call ends with."""
    try:
        run()
    except HayaseError as error:
        return error
    raise AssertionError("it did not fail")


def store_rows(app: StreamsApp, name: str) -> dict[Any, Any]:
    """All of a key-value store."""
    return {row.key: row.value for row in app.store(name).all()}


Totals = Mapping[str, Mapping[str, int]]
