"""The cleaner: retention, compaction and tiers of all topics, by one process at a time that makes progress."""

from __future__ import annotations

import logging
import struct
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.embedded.cleaner_lock import CleanerLock
from hayase.log.embedded.compaction import compact
from hayase.log.embedded.partition import CleanedPartition
from hayase.log.embedded.retention import remove_before, remove_expired
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tiers import move_segment, remove_garbage
from hayase.log.protocol import TopicInfo

_LOG = logging.getLogger("hayase.log")
_CLEANED_AT = b"cleaned_at"
_CLOSE_S = 60.0
_TIME = struct.Struct(">q")


@dataclass(slots=True)
class CleaningReport:
    """What a cleaning did; all counts are 0 if there was nothing to do.

    Attributes:
        expired_records: removed by retention, local and remote.
        expired_bytes: the size of these.
        superseded_records: removed by compaction because a later one has the same key.
        tombstones: null values removed by compaction after `delete.retention.ms`.
        records_without_key: removed by compaction because it cannot keep them.
        compacted_bytes: what compaction freed.
        moved_records: moved to remote storage.
        moved_parts: files in which these are.
        removed_files: remote files of expired parts, removed topics and cleanings that did not end.
    """

    expired_records: int = 0
    expired_bytes: int = 0
    superseded_records: int = 0
    tombstones: int = 0
    records_without_key: int = 0
    compacted_bytes: int = 0
    moved_records: int = 0
    moved_parts: int = 0
    removed_files: int = 0

    def __bool__(self) -> bool:
        return any(getattr(self, count.name) for count in fields(self))

    def __str__(self) -> str:
        texts = [f"{getattr(self, count.name)} {count.name.replace('_', ' ')}" for count in fields(self)]
        return ", ".join(text for text in texts if not text.startswith("0 ")) or "nothing to clean"


class Cleaner:
    """Cleans the log of a store.

    Args:
        store: the log's transactions.
        new_id: makes names of remote files unique.
    """

    def __init__(self, store: LogStore, new_id: Callable[[], uuid.UUID]) -> None:
        self._store = store
        self._new_id = new_id
        self.lock = CleanerLock(store.path, store.settings.cleaner_timeout_ms)

    def clean(self, now_ms: int, stop: Callable[[], bool]) -> CleaningReport:
        """Clean all topics.

        A topic that cannot be cleaned does not keep the others from it.

        Args:
            now_ms: what ages are measured from.
            stop: asked between two steps; the cleaning ends early if it says so.

        Raises:
            LogError: `CLEANER_BUSY`: another process or thread cleans. `REMOTE_STORAGE_FAILED`, `DISK_FULL`, ...: the
                first failure, after everything else was cleaned.
        """
        with self.lock.held() as turn:
            return self._clean(now_ms, lambda: stop() or not turn.renew())

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None:
        """As `Log.delete_records`. Waits for no cleaner: each of its steps either sees what went, or is done again."""
        for where, offset in offsets.items():
            with self._store.read() as tables:
                info = tables.known_topic(where.topic)
                tables.partition(where)
            partition = CleanedPartition.of(self._store, info)[where.partition]
            while remove_before(partition, offset) is not None:
                pass

    def cleaned_at_ms(self) -> int | None:
        """When the log was last cleaned; `None` if it never was."""
        with self._store.read() as tables:
            raw = tables.get("meta", _CLEANED_AT)
        return None if raw is None else int.from_bytes(raw, "big", signed=True)

    def remove_garbage(self) -> None:
        """Remove files that nothing needs, if no cleaner is at work just now and they can be reached.

        Else a cleaner does so later.
        """
        try:
            with self.lock.held():
                remove_garbage(self._store)
        except LogError as error:
            _LOG.info("files of removed topics are left to the next cleaning: %s", error)

    def _clean(self, now_ms: int, stop: Callable[[], bool]) -> CleaningReport:
        report = CleaningReport()
        failure: LogError | None = None
        with self._store.read() as tables:
            topics = tables.topics()
        for topic in topics:
            for partition in CleanedPartition.of(self._store, topic):
                if stop():
                    return report
                try:
                    self._clean_partition(partition, now_ms, stop, report)
                except LogError as error:
                    _LOG.warning("partition %d of topic %s was not cleaned: %s", partition.number, topic.name, error)
                    failure = failure or _placed(error, topic, partition.number)
        try:
            report.removed_files = remove_garbage(self._store)
        except LogError as error:
            failure = failure or error
        self._store.write(lambda tables: tables.put("meta", _CLEANED_AT, _TIME.pack(now_ms)))
        if report:
            _LOG.info("cleaned the log: %s", report)
        if failure is not None:
            raise failure
        return report

    def _clean_partition(
        self, partition: CleanedPartition, now_ms: int, stop: Callable[[], bool], report: CleaningReport
    ) -> None:
        settings = partition.settings
        while settings.deletes and not stop() and (expired := remove_expired(partition, now_ms)) is not None:
            report.expired_records += expired.records
            report.expired_bytes += expired.bytes
        if settings.compacts and (compacted := compact(partition, now_ms, stop)) is not None:
            report.superseded_records += compacted.superseded
            report.tombstones += compacted.tombstones
            report.records_without_key += compacted.without_key
            report.compacted_bytes += compacted.bytes
        while (
            settings.remote_url and not stop() and (part := move_segment(partition, now_ms, self._new_id)) is not None
        ):
            report.moved_records += part.records
            report.moved_parts += 1


def _placed(error: LogError, topic: TopicInfo, partition: int) -> LogError:
    return type(error)(error.condition, error.message, **{"topic": topic.name, "partition": partition, **error.context})


class BackgroundCleaner:
    """A thread that cleans a log from time to time, unless another process has done so. It begins with the first wait.

    Args:
        cleaner: what cleans.
        interval_ms: how long to wait between two looks.
        now_ms: the clock.
    """

    def __init__(self, cleaner: Cleaner, interval_ms: int, now_ms: Callable[[], int]) -> None:
        self._cleaner = cleaner
        self._interval_ms = interval_ms
        self._now_ms = now_ms
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hayase-log-cleaner", daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Whether the thread lives."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End it; a cleaning that runs ends between two steps. One that hangs is left alone after a while."""
        self._stop.set()
        self._thread.join(_CLOSE_S)
        if self._thread.is_alive():
            _LOG.warning("a cleaning of the log does not end; it is left alone, and does nothing if it wakes up")

    def _run(self) -> None:
        while not self._stop.wait(self._interval_ms / 1000):
            try:
                self._clean_if_due()
            except LogError as error:
                if error.condition != "CLEANER_BUSY":
                    _LOG.warning("the log could not be cleaned, trying again later: %s", error)
            except Exception:  # a bug must not end the cleaning of a long-lived process
                _LOG.exception("the log could not be cleaned, trying again later")

    def _clean_if_due(self) -> None:
        now_ms, last_ms = self._now_ms(), self._cleaner.cleaned_at_ms()
        if last_ms is None or not 0 <= now_ms - last_ms < self._interval_ms:
            self._cleaner.clean(now_ms, self._stop.is_set)
