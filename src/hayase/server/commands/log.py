"""The command topic: records with dense numbers, each written once, by one server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from hayase.core.errors import CheckpointError, HayaseError, LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import EpochWriter, Log, Marker, OutputBatch, is_superseded
from hayase.server.commands.backup import CommandBackup
from hayase.server.commands.records import Command, Record, damaged, decoded, encoded

_BUNDLE = "commands"
_CHECKPOINT = "commands"
_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1"}


class CommandLog:
    """Reads and writes the command topic of a server.

    Every record has a number. A record is written together with the number as a marker of the log: of two servers that
    write the same number, one is refused, however that came about.

    Args:
        log: that has the topic.
        topic: its name.
        now_ms: the wall clock, for the timestamps of records.
        backup_folder: where each record is copied to as well.
    """

    def __init__(self, log: Log, topic: str, now_ms: Callable[[], int], backup_folder: Path | None = None) -> None:
        self.topic = topic
        self._log = log
        self._now_ms = now_ms
        self._backup = None if backup_folder is None else CommandBackup(backup_folder / f"{topic}.jsonl", now_ms)
        self._writer: EpochWriter | None = None
        self._next_number = 0

    @property
    def next_number(self) -> int:
        """The number of the next record."""
        return self._next_number

    def open(self) -> list[Record]:
        """All records; the topic is made if there is none.

        Raises:
            LogError: `COMMANDS_DAMAGED`: records are missing, or are not ours.
        """
        self._log.prepare_markers(self.topic)
        last = self._log.marker(self.topic, _BUNDLE, plan_position=0)
        there = self._log.describe([self.topic]).get(self.topic)
        if there is None:
            if last is not None:
                raise damaged(f"it is gone, and had {last.epoch + 1} records")
            self._log.create_topic(self.topic, 1, _CONFIG)
        elif there.partitions != 1:
            raise damaged(f"it has {there.partitions} partitions instead of one")
        records = [] if there is None else self._read()
        for place, record in enumerate(records):
            if record.number != place:
                raise damaged(f"record {place} is missing; {record.number} follows")
        known = -1 if last is None else last.epoch
        if len(records) != known + 1:
            raise damaged(f"it has {len(records)} records instead of {known + 1}")
        self._next_number = len(records)
        if self._backup is not None:
            self._backup.complete([encoded(record) for record in records])
        return records

    def append(self, record: Record) -> None:
        """Write a record with the next number.

        Raises:
            LogError: `FENCED`: another server has written to the topic; others as the log raises them.
        """
        assert record.number == self._next_number, "records are numbered one after the other"
        self._publish(record)
        if self._backup is not None:
            self._backup.append(encoded(record))

    def _publish(self, record: Record) -> None:
        marker = Marker(_CHECKPOINT, record.number, hashlib.sha256(encoded(record)).hexdigest())
        if self._writer is None:
            self._writer = self._log.writer()
        try:
            self._writer.publish_epoch(self.topic, _BUNDLE, marker, [self._batch([record])], plan_position=0)
        except (CheckpointError, LogError) as error:
            if is_superseded(error):
                raise LogError(
                    "FENCED",
                    f"another server writes to {self.topic}: give each server a ksql.service.id of its own, and start "
                    "this one again",
                ) from error
            raise
        self._next_number += 1

    def _batch(self, records: Sequence[Record]) -> OutputBatch:
        now_ms = self._now_ms()
        return OutputBatch(self.topic, [*map(_key, records)], [*map(encoded, records)], [now_ms] * len(records))

    def may_have(self, record: Record, error: HayaseError) -> bool:
        """Whether the topic may have a record that could not be appended: a full disk is looked behind."""
        if error.condition != "DISK_FULL":
            return True
        try:
            last = self._log.marker(self.topic, _BUNDLE, plan_position=0)
        except HayaseError:
            return True
        return last is not None and last.epoch >= record.number

    def replace(self, lines: Sequence[bytes], where: str = "the backup") -> int:
        """Make the records of a backup those of the topic; how many there are.

        A replacement that is interrupted leaves a topic that counts as damaged, until it is done again.

        Args:
            lines: a record each.
            where: they are from, for errors.

        Raises:
            LogError: `BACKUP_DAMAGED`: they are no records of a command topic; nothing has changed.
        """
        records = _records_of(lines, where)
        self.close()  # a writer remembers the marker that it wrote last
        if self._log.describe([self.topic]):
            self._log.delete_topic(self.topic)
        self._log.create_topic(self.topic, 1, _CONFIG)
        self._writer = self._log.writer()
        self._writer.append([self._batch(records[:-1])])
        self._log.delete_markers(self.topic)  # behind the records, so that a topic without all of them has another one
        self._log.prepare_markers(self.topic)
        self._next_number = len(records) - 1
        self._publish(records[-1])
        return len(records)

    def close(self) -> None:
        """Let go of the connection; calling it again does nothing."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _read(self) -> list[Record]:
        partition = TopicPartition(self.topic, 0)
        start = self._log.start_offsets([partition])[partition]
        end = self._log.end_offsets([partition])[partition]
        reader = self._log.reader()
        try:
            return [decoded(value) for batch in reader.fetch(partition, start, end) for value in batch.values]
        finally:
            reader.close()


def _records_of(lines: Sequence[bytes], where: str) -> list[Record]:
    """The records of a backup; raises LogError `BACKUP_DAMAGED`."""
    records: list[Record] = []
    for place, line in enumerate(lines):
        try:
            record = decoded(line)
        except LogError as error:
            raise _bad_backup(
                f"line {place + 1} of {where} is no command: {error.__cause__ or error.message}"
            ) from error
        if record.number != place:
            raise _bad_backup(f"line {place + 1} of {where} has record {record.number} where {place} should be")
        records.append(record)
    if not records:
        raise _bad_backup(f"there are no records in {where}")
    return records


def _bad_backup(why: str) -> LogError:
    return LogError(
        "BACKUP_DAMAGED", f"{why}. Nothing was changed: restore another copy, such as one that a start has put aside"
    )


def _key(record: Record) -> bytes:
    return (record.id if isinstance(record, Command) else f"outcome/{record.sequence}").encode()
