"""The connection of a process that sends commands: writes them, and hands replies to those who wait for them."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError

import msgspec

from hayase.core.errors import HayaseError, SourceRangeLostError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch, TopicInfo
from hayase.patterns.replies import EventPosition, Reply, decode_reply
from hayase.serde import partition_for_key

_POLL_S = {"embedded": 0.004, "kafka": 0.02}
WaitKey = tuple[str, str]
"""Aggregate id and command id."""


class ReplyListener:
    """Sends commands and waits for replies in one partition of their topic. Of one process; threads may share it.

    It takes its position before a command is sent, so no reply is missed; while none waits it reads nothing.
    """

    def __init__(self, log: LogConfig, replies_topic: str, events_topic: str) -> None:
        self.process_id = os.getpid()
        self._log = open_log(log)
        self._poll_s = _POLL_S[log.kind]
        self._topics = {"replies": replies_topic, "events": events_topic}
        try:
            replies = self._info(replies_topic)
            self._info(events_topic)
        except BaseException:
            self._log.close()
            raise
        self._partition = TopicPartition(replies_topic, random.randrange(replies.partitions))
        self._reader, self._writer = self._log.reader(), self._log.writer()
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._waiting: dict[WaitKey, list[Future[Reply]]] = {}
        self._changed = threading.Condition()
        self._offset: int | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def reply_partition(self) -> int:
        """Where replies are waited for."""
        return self._partition.partition

    def append(self, batch: OutputBatch) -> None:
        """Write commands, and wait until the log has them."""
        with self._writing:
            self._writer.append([batch])

    def expect(self, keys: Sequence[WaitKey]) -> list[Future[Reply]]:
        """Futures of the replies to commands that are about to be sent."""
        futures: list[Future[Reply]] = [Future() for _ in keys]
        with self._reading, self._changed:
            if not self._waiting:
                self._offset = self._log.end_offsets([self._partition])[self._partition]
            for key, future in zip(keys, futures, strict=True):
                self._waiting.setdefault(key, []).append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._listen, name="hayase-replies", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return futures

    def forget(self, keys: Sequence[WaitKey], futures: Sequence[Future[Reply]]) -> None:
        """Wait no more for replies that have not come."""
        with self._changed:
            for key, future in zip(keys, futures, strict=True):
                waiting = self._waiting.get(key, [])
                if future in waiting:
                    waiting.remove(future)
                if not waiting:
                    self._waiting.pop(key, None)

    def close(self) -> None:
        """Stop listening; those who wait still get an error."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._fail(HayaseError("CLIENT_CLOSED", "the client was closed before the reply came; the outcome is unknown"))
        self._reader.close()
        self._writer.close()
        self._log.close()

    def _listen(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
            try:
                with self._reading:
                    self._poll()
            except Exception as error:  # those who wait get it; the next command begins again
                self._fail(error)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, timeout=self._poll_s)

    def _poll(self) -> None:
        start, end = self._offset, self._log.end_offsets([self._partition])[self._partition]
        if start is None or end <= start:
            return
        replies: list[Reply] = []
        try:
            for batch in self._reader.fetch(self._partition, start, end):
                for value in batch.values:
                    with contextlib.suppress(msgspec.MsgspecError):  # a record of others in the topic
                        replies.append(decode_reply(value or b""))
        except SourceRangeLostError:  # replies have expired meanwhile; those who wait for them run into their timeout
            replies = []
        self._offset = end
        with self._changed:
            expected = [each for each in replies if (each.aggregate_id, each.command_id) in self._waiting]
        self._deliver(self._with_positions(expected))

    def _with_positions(self, replies: list[Reply]) -> list[Reply]:
        accepted = {reply.aggregate_id for reply in replies if reply.accepted}
        if not accepted:
            return replies
        topic = self._topics["events"]
        info = self._info(topic)  # each time: it may have been made again
        partitions = {id_: TopicPartition(topic, partition_for_key(id_.encode(), info.partitions)) for id_ in accepted}
        ends = self._log.end_offsets(sorted(set(partitions.values())))
        positions = {
            id_: EventPosition(topic, each.partition, ends[each], info.topic_id) for id_, each in partitions.items()
        }
        return [
            msgspec.structs.replace(reply, position=positions[reply.aggregate_id]) if reply.accepted else reply
            for reply in replies
        ]

    def _info(self, topic: str) -> TopicInfo:
        info = self._log.describe([topic]).get(topic)
        if info is None:
            raise UnknownTopicError(
                "UNKNOWN_TOPIC",
                f"topic {topic!r} does not exist; PatternsApp makes the topics of its aggregates when it starts, "
                "or with create_topics()",
                topic=topic,
            )
        return info

    def _deliver(self, replies: list[Reply]) -> None:
        with self._changed:
            for reply in replies:
                for future in self._waiting.pop((reply.aggregate_id, reply.command_id), ()):
                    with contextlib.suppress(InvalidStateError):  # cancelled by its waiter
                        future.set_result(reply)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, {}
        for future in (future for futures in waiting.values() for future in futures):
            with contextlib.suppress(InvalidStateError):
                future.set_exception(error)
