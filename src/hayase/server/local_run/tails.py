"""New records of topics, read once for all who listen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from hayase.core.errors import HayaseError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, LogReader, RecordBatch

_LOG = logging.getLogger("hayase.server.tails")
POLL_EVERY_S = 0.02
_RETRY_AFTER_S = 1.0
Offsets = dict[TopicPartition, int]
OnBatch = Callable[[RecordBatch], None]
OnGone = Callable[[UnknownTopicError], None]


class Listening:
    """One listener's interest in topics; `close` ends it.

    Attributes:
        start: the offset of each partition from which on the listener gets records.
    """

    def __init__(self, tails: LogTails, topics: Sequence[str], on_batch: OnBatch, on_gone: OnGone) -> None:
        self.topics = frozenset(topics)
        self.start: Offsets = {}
        self._tails = tails
        self._on_batch = on_batch
        self._on_gone = on_gone

    def offer(self, batch: RecordBatch) -> None:
        """Hand over a batch: called in the tails' thread, so it must not wait."""
        self._on_batch(batch)

    def lose(self, error: UnknownTopicError) -> None:
        """A topic is gone: called in the tails' thread, so it must not wait."""
        self._on_gone(error)

    def close(self) -> None:
        """No more batches; calling it again does nothing."""
        self._tails.remove(self)


class LogTails:
    """Hands every new record of the topics that have listeners to all of them.

    One thread asks for end offsets while there are listeners, and fetches each record once.

    Args:
        log: of the topics.
        poll_every_s: how long it waits when there was nothing new.
    """

    def __init__(self, log: Log, poll_every_s: float = POLL_EVERY_S) -> None:
        self.log = log
        self._poll_every_s = poll_every_s
        self._listeners: list[Listening] = []
        self._positions: Offsets = {}
        self._topic_ids: dict[str, str] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def listen(self, topics: Sequence[str], on_batch: OnBatch, on_gone: OnGone = lambda error: None) -> Listening:
        """Get what is written to topics from now on.

        Args:
            topics: that exist.
            on_batch: called with the batches of each partition in order, in another thread; it must not wait.
            on_gone: called in that thread if a topic was deleted, whether or not there is one of its name again; it has
                no more records for this listener.

        Raises:
            UnknownTopicError: a topic does not exist.
        """
        listening = Listening(self, topics, on_batch, on_gone)
        wanted = self.partitions(topics)
        ids = self._ids(topics)
        with self._changed:
            self._topic_ids = {**ids, **self._topic_ids}
            unknown = [partition for partition in wanted if partition not in self._positions]
            if unknown:
                self._positions |= self.log.end_offsets(unknown)
            listening.start = {partition: self._positions[partition] for partition in wanted}
            self._listeners.append(listening)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="hayase-tails", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return listening

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        """All partitions of topics; raises UnknownTopicError."""
        infos = self.log.describe(list(topics))
        for topic in topics:
            if topic not in infos:
                raise UnknownTopicError("UNKNOWN_TOPIC", f"topic {topic!r} does not exist", topic=topic)
        return [TopicPartition(topic, number) for topic in topics for number in range(infos[topic].partitions)]

    def has_handed_over(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether listeners have got all records before these offsets, of partitions that have listeners."""
        with self._changed:
            return all(self._positions.get(partition, end) >= end for partition, end in ends.items())

    def remove(self, listening: Listening) -> None:
        """See `Listening.close`."""
        with self._changed:
            if listening in self._listeners:
                self._listeners.remove(listening)
            self._forget_unused()

    def close(self) -> None:
        """End the thread; listeners get nothing more."""
        with self._changed:
            self._closed = True
            self._listeners.clear()
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _forget_unused(self) -> None:
        used = {topic for listening in self._listeners for topic in listening.topics}
        self._positions = {place: offset for place, offset in self._positions.items() if place.topic in used}
        self._topic_ids = {topic: topic_id for topic, topic_id in self._topic_ids.items() if topic in used}

    def _run(self) -> None:
        reader = self.log.reader()
        try:
            while True:
                with self._changed:
                    while not self._listeners and not self._closed:
                        self._changed.wait()
                    if self._closed:
                        return
                    positions = dict(self._positions)
                pause_s = self._poll_every_s
                try:
                    if self._fetch(reader, positions):
                        continue
                except HayaseError as error:
                    _LOG.warning("new records cannot be read: %s; trying again", error)
                    pause_s = _RETRY_AFTER_S
                with self._changed:
                    if not self._closed:
                        self._changed.wait(pause_s)
        finally:
            reader.close()

    def _fetch(self, reader: LogReader, positions: Mapping[TopicPartition, int]) -> bool:
        """Fetch and hand over what is new; whether there was anything."""
        ends = self._ends(positions)
        for partition, end in ends.items():
            start = positions[partition]
            if end > start:
                for batch in reader.fetch(partition, start, end):
                    self._hand_over(partition, batch)
                self._move(partition, end)
        return any(end > positions[partition] for partition, end in ends.items())

    def _ends(self, positions: Mapping[TopicPartition, int]) -> Offsets:
        """End offsets; a topic that is gone has no more records, and those who listen to it get none."""
        try:
            ends = dict(self.log.end_offsets(list(positions)))
        except UnknownTopicError:
            ends = None
        if ends is None or any(end < positions[place] for place, end in ends.items()):
            self._lose_topics(positions)
            left = [place for place in positions if place in self._positions]
            ends = dict(self.log.end_offsets(left))
        return ends

    def _lose_topics(self, positions: Mapping[TopicPartition, int]) -> None:
        """Forget the topics that are gone, or are other ones now."""
        topics = sorted({place.topic for place in positions})
        there = self._ids(topics)
        with self._changed:
            for topic in topics:
                if there.get(topic) == self._topic_ids.get(topic):
                    continue
                error = UnknownTopicError("UNKNOWN_TOPIC", f"topic {topic!r} was deleted", topic=topic)
                for listening in [each for each in self._listeners if topic in each.topics]:
                    listening.lose(error)
                self._positions = {place: end for place, end in self._positions.items() if place.topic != topic}
                self._topic_ids.pop(topic, None)

    def _ids(self, topics: Sequence[str]) -> dict[str, str]:
        return {topic: info.topic_id for topic, info in self.log.describe(list(topics)).items()}

    def _hand_over(self, partition: TopicPartition, batch: RecordBatch) -> None:
        if not len(batch):
            return
        with self._changed:
            self._positions[partition] = int(batch.offsets[-1]) + 1
            listeners = [listening for listening in self._listeners if partition.topic in listening.topics]
            for listening in listeners:
                if int(batch.offsets[-1]) >= listening.start.get(partition, 0):
                    listening.offer(batch)

    def _move(self, partition: TopicPartition, end: int) -> None:
        with self._changed:
            if partition in self._positions:
                self._positions[partition] = max(end, self._positions[partition])
