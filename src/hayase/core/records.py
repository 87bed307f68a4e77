"""Records as they flow between nodes, and the names of where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple

import msgspec

from hayase.core.type_variables import KR, VR, K, V

Headers = tuple[tuple[str, bytes | None], ...]
"""Headers of a record in order; a name may occur more than once; a value may be null."""

UNREADABLE_HEADERS: Headers = (("hayase.headers.unreadable", None),)
"""What stands for headers that a client cannot read, as a name that is not UTF-8.

Counted as `unreadable-headers-total`.
"""
_HEADER_BYTES = 140
"""What a header costs in memory beside the bytes of its name and value."""


def headers_bytes(headers: Headers) -> int:
    """About how much memory the headers of a record take.

    Example:
        >>> headers_bytes((("trace", b"0123"),))
        149
    """
    return sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in headers)


class Record(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """One record between two nodes.

    Attributes:
        key: the key, `None` where there is none.
        value: the value; `None` is a delete on a table edge.
        timestamp_ms: event time, milliseconds since the epoch (UTC), never negative.
        headers: pairs of name and bytes.

    Example:
        >>> Record("k", 1, 5).with_value(2)
        Record(key='k', value=2, timestamp_ms=5, headers=())
    """

    key: K
    value: V
    timestamp_ms: int
    headers: Headers = ()

    def with_key(self, key: KR) -> Record[KR, V]:
        """A copy of the record under another key."""
        return Record(key, self.value, self.timestamp_ms, self.headers)

    def with_value(self, value: VR) -> Record[K, VR]:
        """A copy of the record with another value."""
        return Record(self.key, value, self.timestamp_ms, self.headers)

    def with_timestamp(self, timestamp_ms: int) -> Record[K, V]:
        """A copy of the record at another time."""
        return Record(self.key, self.value, timestamp_ms, self.headers)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """A copy of the record with other headers."""
        return Record(self.key, self.value, self.timestamp_ms, headers)


class Change(msgspec.Struct, Generic[V], frozen=True, gc=False):
    """An update of a table's row: the new value and, where asked for, the one before.

    `None` stands for "no row". `old` is `None` as well when no node downstream wants old values. `is_latest` is false
    for an update of a versioned table that came out of order: `new` went into the row's history, the row stays as it
    is.
    """

    new: V | None
    old: V | None = None
    is_latest: bool = True


class Window(NamedTuple):
    """A span of event time, milliseconds.

    Time windows are `[start_ms, end_ms)`, sessions and sliding ones `[start_ms, end_ms]`.
    """

    start_ms: int
    end_ms: int


class Windowed(NamedTuple, Generic[K]):
    """The key of a windowed table: the record key and its window."""

    key: K
    window: Window


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TaskId(NamedTuple):
    """One partition of one sub-topology; written `0_1` as in Kafka Streams."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """The id that `str` wrote.

        Example:
            >>> TaskId.parse("2_13")
            TaskId(subtopology=2, partition=13)
        """
        subtopology, _, partition = text.partition("_")
        return cls(int(subtopology), int(partition))


class RecordContext(NamedTuple):
    """The context of a record for functions that choose its topic: topic, partition, offset, time, headers.

    Attributes:
        topic: where the record being processed was read; `None` if it is sent by a cache at the end of an epoch.
        partition: of that topic, -1 if there is none.
        offset: in that partition, -1 if there is none.
        timestamp_ms: of the record that is written.
        headers: of the record that is written.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp_ms: int
    headers: Headers


class RecordMetadata(NamedTuple):
    """Where the record being processed was read from; absent in punctuations."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record as it was read, for handlers and dead letters."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
