"""One consumer on one partition at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from operator import itemgetter

import confluent_kafka
import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message

from hayase.core.errors import LogError, SourceRangeLostError
from hayase.core.records import UNREADABLE_HEADERS, Headers, TopicPartition
from hayase.log.kafka.access import why_unanswered
from hayase.log.kafka.clients import client_settings, kafka_error, log_error, open_consumer
from hayase.log.protocol import Int64Array, LogConfig, RecordBatch

# Few enough that the message objects stay in the cache and that the garbage collector does not see them pile up:
# twice as fast as taking 20,000 at a time.
_CHUNK = 256
_FIRST_CHUNK = 16
_BATCH_RECORDS = 32_768
_BATCH_BYTES = 8 << 20

_AHEAD_MIN = 1_000
"""So many records behind a range are read ahead of the next one. A consumer that waits for a few asks the broker two
hundred times a second; the next range costs it a millisecond."""
_WAIT_S = 0.002
_STALL_S = 0.5
_LOST_AFTER_S = 2.0
_REQUEST_S = 10.0

_value, _key, _timestamp, _error = Message.value, Message.key, Message.timestamp, Message.error
_offset: Callable[[Message], int] = Message.offset  # type: ignore[assignment] # what was consumed has one
_headers: Callable[[Message], list[tuple[str, bytes | None]] | None] = Message.headers  # type: ignore[assignment] # bytes
_second = itemgetter(1)
_UNREADABLE = (
    KafkaError._BAD_COMPRESSION,
    KafkaError._BAD_MSG,
    KafkaError._NOT_IMPLEMENTED,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
)
_PROBE = ("", object())
"""Equal to no header; comparing one that the client could not make with it raises SystemError."""
_LOG = logging.getLogger("hayase.log")


class _Columns:
    """Records on their way into a batch."""

    def __init__(self) -> None:
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets: list[Int64Array] = []
        self._timestamps: list[Int64Array] = []
        self._headers: list[Headers] | None = None
        self._bytes = 0

    def add(self, messages: list[Message]) -> int:
        """Take records over; returns their size in bytes, keys and headers not counted."""
        count = len(messages)
        headers = _headers_of(messages)
        if headers is not None:
            if self._headers is None:
                self._headers = [()] * len(self._values)
            self._headers.extend(headers)
        elif self._headers is not None:
            self._headers.extend([()] * count)
        self._keys.extend(map(_key, messages))
        self._values.extend(map(_value, messages))
        self._offsets.append(np.fromiter(map(_offset, messages), np.int64, count))
        self._timestamps.append(np.fromiter(map(_second, map(_timestamp, messages)), np.int64, count))
        size = sum(map(len, messages))
        self._bytes += size
        return size

    def __len__(self) -> int:
        return len(self._values)

    @property
    def full(self) -> bool:
        return len(self._values) >= _BATCH_RECORDS or self._bytes >= _BATCH_BYTES

    def batch(self, partition: TopicPartition) -> RecordBatch:
        return RecordBatch(
            partition.topic,
            partition.partition,
            np.concatenate(self._offsets),
            np.concatenate(self._timestamps),
            self._keys,
            self._values,
            self._headers,
        )


def _headers_of(messages: list[Message]) -> list[Headers] | None:
    """Headers of each record; `None` if none has any."""
    try:
        if not any(map(_headers, messages)):
            return None
    except (SystemError, UnicodeDecodeError):
        pass  # one of them below will say which
    return [_readable_headers(message) for message in messages]


def _readable_headers(message: Message) -> Headers:
    """The headers of a record.

    For a name that is not UTF-8 the client leaves an empty place in the tuple: only a comparison may touch it.
    """
    try:
        headers = _headers(message)
        if not headers:
            return ()
        if _PROBE not in headers:
            return tuple(headers)
    except (SystemError, UnicodeDecodeError):
        pass
    _LOG.warning(
        "the headers of the record in topic %s, partition %s, at offset %s cannot be read: a name is not UTF-8; the "
        "record goes on with the header %s in their place",
        message.topic(), message.partition(), message.offset(), UNREADABLE_HEADERS[0][0],
    )  # fmt: skip
    return UNREADABLE_HEADERS


class Cursor:
    """A consumer that reads ranges of one partition after the other.

    While there is much to read behind a range it goes on prefetching; near the end of the topic it stops asking.
    """

    def __init__(self, config: LogConfig, timeout_s: float, monotonic: Callable[[], float]) -> None:
        self.consumer = open_consumer(config)
        self._config = config
        self.partition: TopicPartition | None = None
        self.streaming = False
        """Whether the consumer is assigned and prefetches."""
        self._next = -1  # where the last range ended
        self._pending: list[Message] = []  # fetched, but behind the last range
        self._known_topics: set[str] = set()
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._at = -1  # behind the last record of the range that is being read
        self._chunk = _FIRST_CHUNK
        self._position_counts = False
        self._end_seen = -1
        self._halted = False

    def stands_at(self, partition: TopicPartition, offset: int) -> bool:
        """Whether a range that begins there continues the last one."""
        return self.partition == partition and self._next == offset

    def close(self) -> None:
        """Let go of the connection."""
        self.consumer.close()

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        """As `LogReader.fetch`, of a range that is not empty."""
        if not (self.streaming and self.stands_at(partition, start)):
            self._assign(partition, start)
        self._next = -1  # unknown until the range is read, in case it is given up half way
        self._at = start
        columns = _Columns()
        reached = False
        while not reached:
            messages = self._wait_for_chunk(partition, start, end)
            if messages is None:
                break
            if (last := _offset(messages[-1])) + 1 >= end:
                reached = True
                if last >= end:
                    messages = self._split(messages, end)
                    if not messages:
                        break
            size = columns.add(messages)
            # Large records are taken a few at a time.
            self._chunk = max(1, min(_CHUNK, _BATCH_BYTES * len(messages) // (2 * size + 1)))
            self._at = _offset(messages[-1]) + 1
            if columns.full:
                yield columns.batch(partition)
                columns = _Columns()
        if len(columns):
            yield columns.batch(partition)
        self._next = end
        self._stop_at_the_end(partition, end)

    def _assign(self, partition: TopicPartition, start: int) -> None:
        """Go to an offset. Asking first costs little; otherwise a topic that does not exist is waited for."""
        if self.streaming:
            self.consumer.unassign()
        self.streaming = False
        self._pending = []
        self.partition = partition
        if partition.topic not in self._known_topics:
            self._check_exists(partition)
        self._begin_at(partition, start)

    def _begin_at(self, partition: TopicPartition, offset: int) -> None:
        self.consumer.assign([confluent_kafka.TopicPartition(*partition, offset)])
        self.streaming = True
        self._position_counts = False
        self._end_seen = -1
        self._halted = False

    def _split(self, messages: list[Message], end: int) -> list[Message]:
        """Those before `end`; the others are kept for the next range."""
        count = next(index for index, message in enumerate(messages) if _offset(message) >= end)
        self._pending = messages[count:] + self._pending
        return messages[:count]

    def _wait_for_chunk(self, partition: TopicPartition, start: int, end: int) -> list[Message] | None:
        """The next records, or None when the position has reached `end` without one."""
        if self._pending:
            messages, self._pending = self._pending[:_CHUNK], self._pending[_CHUNK:]
            return messages
        messages = self._records_of(partition, self.consumer.consume(self._chunk, 0), end)
        began = checked = -1.0
        patience_s = _STALL_S
        while not messages:
            if self._end_seen >= end or self._position_reached(partition, end):
                return None
            now = self._monotonic()
            if began < 0:
                began = checked = now
            elif now - began > self._timeout_s:
                raise self._timed_out(partition, start, end)
            elif now - checked > patience_s:
                self._check_range(partition, start, end, end_must_be_there=now - began > _LOST_AFTER_S)
                checked = self._monotonic()
                patience_s *= 2
            # poll returns with the first message, consume would wait until it has all it may take
            message = self.consumer.poll(_WAIT_S)
            messages = self._records_of(partition, [message], end) if message is not None else []
        self._position_counts = True
        return messages

    def _position_reached(self, partition: TopicPartition, end: int) -> bool:
        """Whether the consumer is past everything before `end`: it also counts records that are not delivered.

        Right after a jump the position may still be that of the range before, so it counts only once it was seen
        before `end` or a record has come. If that never happens, the end-of-partition event ends the range.
        """
        position = self.consumer.position([confluent_kafka.TopicPartition(*partition)])[0].offset
        if position < end:
            self._position_counts = True
            return False
        return self._position_counts

    def _records_of(self, partition: TopicPartition, messages: list[Message], end: int) -> list[Message]:
        """The messages without events; errors among these are raised.

        That an offset is not there may be said of one outside of the range: by the range before a jump, or because
        the topic was recreated while the consumer was ahead. It halts the consumer, but is no error of this range.
        """
        if not any(map(_error, messages)):
            return messages
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                self._end_seen = _offset(message)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                offset = _offset(message)
                if not self._at <= offset < end:
                    self._halted = True
                    continue
                self._lose_position()
                raise self._lost(partition, f"offset {offset} is not there: {error.str()}", offset)
            elif error.code() in _UNREADABLE:
                raise self._damaged(partition, error)
            elif not error.retriable() and error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                self._lose_position()
                raise log_error(error, "reading", topic=partition.topic, partition=partition.partition)
        return [message for message in messages if message.error() is None]

    def _damaged(self, partition: TopicPartition, error: KafkaError) -> LogError:
        """What the client cannot read, it will not read the next time either: nothing is waited for."""
        offset = self._at
        self._lose_position()
        return LogError(
            "LOG_DAMAGED",
            f"the batch of records at offset {offset}, or the next that is there, cannot be read: {error.str()} "
            f"({error.name()}). It was damaged, or written by a client that does not keep to Kafka's protocol. To go "
            "on behind it, delete the records up to it (kafka-delete-records) and start with source.range.lost=reset",
            topic=partition.topic,
            partition=partition.partition,
            offset=offset,
        )

    def _check_range(self, partition: TopicPartition, start: int, end: int, *, end_must_be_there: bool) -> None:
        """Nothing came for a while: is the range still there? A broker that does not answer is waited for.

        A leader that has just taken over may know of less for a moment: see `end_must_be_there`.
        """
        try:
            self._check_exists(partition)
            low, high = self.consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(*partition), timeout=_REQUEST_S
            )
        except (KafkaException, LogError) as error:
            if isinstance(error, LogError) and error.condition != "BROKER_UNAVAILABLE":
                self._lose_position()
                raise
            return
        if start < low or (end > high and end_must_be_there):
            self._lose_position()
            where = start if start < low else end
            what = f"the range is [{start}, {end}), the committed records are in [{low}, {high})"
            raise self._lost(partition, what, where)
        if self._halted:
            self._begin_at(partition, self._at)

    def _check_exists(self, partition: TopicPartition) -> None:
        try:
            metadata = self.consumer.list_topics(partition.topic, timeout=_REQUEST_S).topics[partition.topic]
        except KafkaException as error:
            raise log_error(kafka_error(error), "looking for the topic", topic=partition.topic) from error
        if metadata.error is not None:
            raise log_error(metadata.error, "looking for the topic", topic=partition.topic)
        if partition.partition not in metadata.partitions:
            raise log_error(
                KafkaError(KafkaError._UNKNOWN_PARTITION),
                "looking for the partition",
                topic=partition.topic,
                partition=partition.partition,
            )
        self._known_topics.add(partition.topic)

    def _lost(self, partition: TopicPartition, what: str, offset: int) -> SourceRangeLostError:
        return SourceRangeLostError(
            "SOURCE_RANGE_LOST",
            f"a range that was to be read is gone: {what}. Was the topic recreated, or its retention shorter than "
            "the application was down? `hayase app reset` starts over with what is there",
            topic=partition.topic,
            partition=partition.partition,
            offset=offset,
        )

    def _timed_out(self, partition: TopicPartition, start: int, end: int) -> LogError:
        self._lose_position()
        error = LogError(
            "BROKER_UNAVAILABLE",
            f"nothing of the range [{start}, {end}) came for {self._timeout_s:g} s. Trying again is safe",
            topic=partition.topic,
            partition=partition.partition,
        )
        return why_unanswered(client_settings(self._config, "consumer"), error)

    def _lose_position(self) -> None:
        self._known_topics.clear()
        self._next = -1

    def _stop_at_the_end(self, partition: TopicPartition, end: int) -> None:
        """Stop asking the broker if there is little behind the range."""
        _, high = self.consumer.get_watermark_offsets(confluent_kafka.TopicPartition(*partition), cached=True)
        if high < end + _AHEAD_MIN or self._halted:
            self.consumer.unassign()
            self.streaming = False
