"""Topics of the test driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol

import msgspec

from hayase.core.errors import ProcessingError
from hayase.core.records import Headers
from hayase.core.time import epoch_ms
from hayase.core.type_variables import K, V
from hayase.core.windows import to_ms
from hayase.serde.protocol import Serde


class TestRecord(msgspec.Struct, frozen=True):
    """A record for the test driver's input, or from its output."""

    __test__ = False

    key: Any = None
    value: Any = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class RawRecord(msgspec.Struct, frozen=True):
    """A record as bytes."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


class _Driver(Protocol):
    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> None: ...

    def output_queue(self, topic: str) -> deque[RawRecord]: ...


class TestInputTopic(Generic[K, V]):
    """Pipes records into a source topic; each is processed to its end before the call returns.

    Made by `TopologyTestDriver.create_input_topic`. Without a timestamp a record gets the topic's time, which then
    moves on by `auto_advance`.
    """

    __test__ = False

    def __init__(
        self,
        driver: _Driver,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        start_ms: int,
        auto_advance: timedelta,
    ) -> None:
        self._driver = driver
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._time_ms = start_ms
        self._advance_ms = to_ms("auto_advance", auto_advance)

    def pipe_input(
        self,
        key: K | None = None,
        value: V | None = None,
        timestamp_ms: datetime | int | None = None,
        headers: Headers = (),
    ) -> None:
        """Process one record; its time may be an aware datetime as well."""
        if timestamp_ms is None:
            timestamp_ms = self._time_ms
            self._time_ms += self._advance_ms
        key_bytes, value_bytes = self._key_serde.serialize(key), self._value_serde.serialize(value)
        self._driver.pipe(self._topic, key_bytes, value_bytes, epoch_ms(timestamp_ms), headers)

    def pipe_record_list(self, records: Iterable[TestRecord]) -> None:
        """Process records one after the other."""
        for record in records:
            self.pipe_input(record.key, record.value, record.timestamp_ms, record.headers)

    def pipe_key_value_list(self, pairs: Iterable[tuple[K | None, V | None]]) -> None:
        """Process `(key, value)` pairs one after the other at the topic's time."""
        for key, value in pairs:
            self.pipe_input(key, value)

    def pipe_value_list(self, values: Iterable[V | None]) -> None:
        """Process values with null keys one after the other at the topic's time."""
        for value in values:
            self.pipe_input(None, value)

    def advance_time(self, delta: timedelta) -> None:
        """Advance the time of the topic's next records."""
        self._time_ms += to_ms("delta", delta)


class TestOutputTopic(Generic[K, V]):
    """Reads what the topology wrote to a topic, in order, each record once."""

    __test__ = False

    def __init__(self, driver: _Driver, topic: str, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self._queue = driver.output_queue(topic)
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde

    def read_record(self) -> TestRecord:
        """The next record.

        Raises:
            ProcessingError: NO_MORE_RECORDS.
        """
        if not self._queue:
            raise ProcessingError("NO_MORE_RECORDS", f"nothing more was written to topic {self._topic!r}")
        raw = self._queue.popleft()
        return TestRecord(
            self._key_serde.deserialize(raw.key),
            self._value_serde.deserialize(raw.value),
            raw.timestamp_ms,
            raw.headers,
        )

    def read_key_value(self) -> tuple[K, V]:
        """Key and value of the next record."""
        record = self.read_record()
        return record.key, record.value

    def read_value(self) -> V:
        """Value of the next record."""
        return self.read_key_value()[1]

    def read_records_to_list(self) -> list[TestRecord]:
        """All records that are there."""
        return [self.read_record() for _ in range(len(self._queue))]

    def read_key_values_to_list(self) -> list[tuple[K, V]]:
        """Keys and values of all records that are there."""
        return [(record.key, record.value) for record in self.read_records_to_list()]

    def read_values_to_list(self) -> list[V]:
        """Values of all records that are there."""
        return [record.value for record in self.read_records_to_list()]

    def read_key_values_to_map(self) -> dict[K, V]:
        """The last value of each key among the records that are there; keys must be hashable."""
        return dict(self.read_key_values_to_list())

    def is_empty(self) -> bool:
        """Whether nothing is left to read."""
        return not self._queue

    def queue_size(self) -> int:
        """How many records are left to read."""
        return len(self._queue)
