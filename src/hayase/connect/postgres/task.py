"""The task that captures a database: snapshot, then the stream of changes."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hayase.connect.contracts import Props, SourceTask
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.generations import bundle_name
from hayase.connect.model import SerializedRecords, SourceRecord
from hayase.connect.postgres.catalog import TypeRegistry
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.database import Database
from hayase.connect.postgres.events import HEARTBEAT_KEY_SCHEMA, HEARTBEAT_VALUE_SCHEMA
from hayase.connect.postgres.incremental import IncrementalSnapshot
from hayase.connect.postgres.lsn import Snapshot, format_lsn
from hayase.connect.postgres.offsets import SnapshotProgress, StreamOffset, incremental_partition, stream_partition
from hayase.connect.postgres.replication import ReplicationConnection, SystemIdentity
from hayase.connect.postgres.signals import IncrementalProgress, SignalTopic
from hayase.connect.postgres.snapshot import SnapshotReader
from hayase.connect.postgres.stream import ChangeReader
from hayase.core.failpoints import reach

_LOG = logging.getLogger(__name__)
_STOP_S = 10.0
_COLLECT_S = 0.02
"""For how long a poll goes on to collect what arrives."""
_MESSAGES_VERSION = 140000
_Records = list[SourceRecord | SerializedRecords]


@dataclass(slots=True)
class _Session:
    """What one connection to the database has; made again after it broke."""

    database: Database
    registry: TypeRegistry
    replication: ReplicationConnection
    snapshot: SnapshotReader | None = None
    changes: ChangeReader | None = None
    incremental: IncrementalSnapshot | None = None

    def close(self) -> None:
        self.replication.close()
        self.database.close()


class PostgresSourceTask(SourceTask):
    """Captures one database through one replication slot.

    Args:
        sleep: waits that many seconds.
        wall_clock: seconds since 1970.
        monotonic: seconds of a clock that only goes forward.
    """

    def __init__(
        self,
        *,
        sleep: Callable[[float], None] = time.sleep,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep = sleep
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._session: _Session | None = None
        self._offset: StreamOffset | None = None  # behind what was polled
        self._progress = SnapshotProgress()
        self._polled_lsn = 0
        self._polls = 0
        self._waiting: deque[tuple[int, int]] = deque()  # polls, and the position behind what they have handed out
        self._stopped = False
        self._polling = threading.Lock()

    def start(self, props: Props) -> None:
        """Take the configuration; the database is connected to by the first `poll`, which can be repeated."""
        self._config = CaptureConfig(props)
        self._partition = stream_partition(self._config.prefix)
        reader = self.context.offset_storage_reader
        stored = reader.offset(self._partition)
        self._offset = None if stored is None else StreamOffset.from_offset(stored)
        self._durable_lsn = 0 if self._offset is None else self._offset.commit_lsn
        self._progress = SnapshotProgress.load(self._config.prefix, reader.offsets())
        self._read_again = IncrementalProgress.from_offset(reader.offset(incremental_partition(self._config.prefix)))
        self._heartbeat_s = self._config.int("heartbeat.interval.ms") / 1000
        self._next_heartbeat = self._monotonic() + self._heartbeat_s
        self._idle_s = self._config.int("status.update.interval.ms") / 1000
        self._next_idle = self._next_publication = self._monotonic()

    def stop(self) -> None:
        """End; a poll that runs returns soon, and its connections are closed."""
        self._stopped = True
        if self._polling.acquire(timeout=_STOP_S):
            try:
                self._disconnect()
            finally:
                self._polling.release()

    def poll(self) -> list[SourceRecord | SerializedRecords] | None:
        """The next records: of a chunk of the snapshot, or of the stream."""
        with self._polling:
            if self._stopped:
                return None
            try:
                records = self._next(self._session or self._connect())
                self._polls += 1
                if self._polled_lsn != (self._waiting[-1][1] if self._waiting else self._durable_lsn):
                    self._waiting.append((self._polls, self._polled_lsn))
                return records or None
            except BaseException:  # also of the interpreter: a connection must not stay half-way in the stream
                self._disconnect()
                raise

    def commit(self) -> None:
        """Confirm all that was polled: it is durable now."""
        self.commit_polled(self._polls)

    def commit_polled(self, polls: int) -> None:
        """Confirm what the first polls have handed out: it is durable now."""
        while self._waiting and self._waiting[0][0] <= polls:
            self._durable_lsn = max(self._durable_lsn, self._waiting.popleft()[1])
        session = self._session
        if session is not None and session.changes is not None and self._durable_lsn > session.replication.confirmed:
            self._reach("before_confirm")
            session.replication.confirm(self._durable_lsn)
            self._reach("after_confirm")

    def _reach(self, failpoint: str) -> None:
        reach(failpoint, bundle=bundle_name(self.context.connector, self.context.task))

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _connect(self) -> _Session:
        database = Database(self._config, self._sleep)
        replication: ReplicationConnection | None = None
        try:
            database.check()
            replication = ReplicationConnection(
                self._config.conninfo(replication=True, application_name=database.application_name),
                wall_clock=self._wall_clock,
                monotonic=self._monotonic,
            )
            session = _Session(database, TypeRegistry(database.query), replication)
            self._prepare(session)
        except BaseException:
            if replication is not None:
                replication.close()
            database.close()
            raise
        self._session = session
        return session

    def _prepare(self, session: _Session) -> None:
        identity = session.replication.identify()
        session.database.free_slot()
        slot_snapshot: Snapshot | None = None
        if self._offset is None or self._offset.snapshot or not self._can_go_on(session, identity):
            slot_snapshot = self._begin(session, identity)
        assert self._offset is not None, "it was stored, or made just now"
        self._offset.publication = session.database.ensure_publication()
        self._offset.system_id, self._offset.timeline = identity.system_id, identity.timeline
        if self._offset.snapshot:
            self._prepare_snapshot(session, slot_snapshot)
        else:
            self._begin_stream(session)

    def _can_go_on(self, session: _Session, identity: SystemIdentity) -> bool:
        """Whether the server still has everything behind the offset; raises `SLOT_LOST`, unless a snapshot helps."""
        offset, slot = self._offset, session.database.slot()
        assert offset is not None
        lost = None
        if (other := self._other_history(session, identity)) is not None:
            lost = other
        elif slot is None:
            lost = f"the slot {self._config.slot!r} is gone"
        elif slot.lost:
            lost = f"the server has removed log that the slot {self._config.slot!r} needs"
        elif slot.confirmed > offset.commit_lsn:
            lost = (
                f"the slot {self._config.slot!r} stands at {format_lsn(slot.confirmed)}, beyond the offset "
                f"{format_lsn(offset.commit_lsn)}: changes between were confirmed by another client"
            )
        if lost is None:
            return True
        if self._config.string("snapshot.mode") == "when_needed":
            _LOG.warning("a new snapshot is taken: %s", lost)
            self._offset = None
            return False
        raise ConnectError(
            "SLOT_LOST",
            f"changes are lost: {lost}. Read the tables again: delete the offsets of the connector, or set "
            "snapshot.mode=when_needed",
            slot=self._config.slot,
        )

    def _other_history(self, session: _Session, identity: SystemIdentity) -> str | None:
        """Why the offset means something else here, or changes behind it were not published; `None`: no reason."""
        offset = self._offset
        assert offset is not None
        if offset.publication and session.database.publication() != offset.publication:
            return (
                f"the publication {self._config.publication!r} was dropped: what changed until it was made again was "
                "not published"
            )
        return offset.other_history(identity)

    def _begin(self, session: _Session, identity: SystemIdentity) -> Snapshot | None:
        """Begin, or go on with a snapshot that was interrupted; the snapshot of a slot that was made."""
        wants_rows = self._config.reads_rows
        slot = session.database.slot()
        if self._offset is not None and self._offset.snapshot and self._offset.slot_lsn:
            lost = self._other_history(session, identity)
            if slot is None or slot.lost or slot.confirmed > self._offset.commit_lsn:
                lost = f"the slot {self._config.slot!r} is gone"
            if lost is None:
                return None
            _LOG.warning("a snapshot that was interrupted begins again: %s", lost)
        publication = session.database.ensure_publication()  # changes before it is there are not published
        session.database.check_published()
        if slot is not None and not wants_rows and not slot.lost:
            self._offset = StreamOffset(slot.confirmed, slot_lsn=slot.confirmed)
            return None
        if slot is not None:
            session.database.drop_slot()
        lsn, text = session.replication.create_slot(self._config.slot)
        self._reach("after_slot")
        self._polled_lsn = self._durable_lsn = 0  # positions of another slot, perhaps of another cluster
        self._waiting.clear()
        self._offset = StreamOffset(
            lsn, snapshot=wants_rows, slot_lsn=lsn, commit_us=int(self._wall_clock() * 1_000_000),
            system_id=identity.system_id, timeline=identity.timeline, publication=publication,
        )  # fmt: skip
        self.context.publish_offsets(self._partition, self._offset.to_offset())
        return Snapshot(text)

    def _prepare_snapshot(self, session: _Session, slot_snapshot: Snapshot | None) -> None:
        offset = self._offset
        assert offset is not None
        self._progress = self._progress.of_slot(offset.slot_lsn)
        tables = session.database.captured_tables()
        session.database.check_identity(tables)
        waiting = [table for table in tables if not self._progress.is_complete(table.full_name)]
        session.database.check_snapshot(waiting)
        if slot_snapshot is None:
            # The slot is of a process before; what it saw is visible by now, unless a standby holds a commit up.
            ((text,),) = session.database.query("SELECT pg_current_snapshot()::text")
            slot_snapshot = Snapshot(text)
        session.snapshot = SnapshotReader(
            self._config,
            session.database,
            tables,
            session.registry,
            self._progress,
            offset,
            self.context.report,
            sleep=self._sleep,
            json=self.context.serialized_json,
        )
        session.snapshot.wait_until_visible(slot_snapshot)

    def _begin_stream(self, session: _Session) -> None:
        offset = self._offset
        assert offset is not None
        if self._config.string("snapshot.mode") == "initial_only":
            return
        session.changes = ChangeReader(
            self._config,
            offset,
            self._progress.of_slot(offset.slot_lsn),
            session.registry,
            session.database.query,
            self.context.report,
            json=self.context.serialized_json,
        )
        # What was handed out and is not published yet must not be confirmed by a new connection.
        session.replication.start(
            self._config.slot,
            offset.commit_lsn,
            self._config.publication,
            confirmed=self._durable_lsn,
            messages=session.database.version >= _MESSAGES_VERSION,
        )
        session.incremental = IncrementalSnapshot(
            self._config,
            session.database,
            session.registry,
            self._read_again,
            session.changes,
            self.context.report,
            topic=self._signal_topic(),
            json=self.context.serialized_json,
        )

    def _signal_topic(self) -> SignalTopic | None:
        topic, context = self._config.signal_topic, self.context
        if topic is None:
            return None
        return SignalTopic(
            topic, self._config.prefix, self._read_again.signal_offset, context.read_topic, self._monotonic
        )

    def _next(self, session: _Session) -> list[SourceRecord | SerializedRecords]:
        if session.snapshot is not None:
            return self._next_of_snapshot(session, session.snapshot)
        if session.changes is None:  # initial_only
            self._sleep(self._config.int("poll.interval.ms") / 1000)
            return []
        return self._next_of_stream(session, session.changes)

    def _next_of_snapshot(self, session: _Session, snapshot: SnapshotReader) -> _Records:
        records = snapshot.next_chunk()
        self.polls_ahead = records is not None
        self._reach("after_last_chunk" if records is None else "after_chunk")
        metrics = self.context.metrics
        metrics["TotalTableCount"] = snapshot.tables_total
        metrics["RemainingTableCount"] = snapshot.tables_left
        metrics["TotalNumberOfEventsSeen"] = snapshot.rows_read
        metrics["SnapshotRunning"] = float(records is not None)
        metrics["SnapshotCompleted"] = float(records is None)
        for partition, offset in snapshot.finished_chunks:
            self.context.publish_offsets(partition, offset)
        snapshot.finished_chunks.clear()
        if records is None:
            assert self._offset is not None
            self._offset.snapshot = False
            self._publish_position()
            session.snapshot = None
            self._begin_stream(session)
            return []
        self._end_transaction()
        return records

    def _next_of_stream(self, session: _Session, changes: ChangeReader) -> _Records:
        replication = session.replication
        limit = self._config.int("max.batch.size")
        receive, handle, begun = replication.receive, changes.handle, self._monotonic()
        deadline = begun + self._config.int("poll.interval.ms") / 1000
        while changes.count < limit and not self._stopped:
            message = receive()
            if message is not None:
                handle(message)
                continue
            now = self._monotonic()
            # libpq reads a few kilobytes at a time: a batch of what they hold would cost more than its records.
            if now - begun < _COLLECT_S and replication.wait(0):
                continue
            if changes.count and not changes.in_transaction:
                break
            if now >= deadline or not replication.wait(deadline - now):
                break
        # While it keeps up, changes that come during a publication are to be together in the next one.
        self.polls_ahead = changes.count >= limit
        records = changes.take()
        replication.keep_alive(self._idle_s)
        self._check_publication(session)
        if not records:
            self._idle(session, changes)
        records.extend(self._heartbeat(changes))
        if records:
            self._hand_out(changes.offset)
        if session.incremental is not None:
            records.extend(self._next_again(session, session.incremental, changes))
        if not changes.in_transaction:
            self._end_transaction()
        behind_us = int(self._wall_clock() * 1_000_000) - changes.offset.commit_us if records else 0
        self.context.metrics["MilliSecondsBehindSource"] = max(behind_us, 0) / 1000
        self.context.metrics["TotalNumberOfEventsSkipped"] = changes.skipped_changes
        return records

    def _next_again(self, session: _Session, incremental: IncrementalSnapshot, changes: ChangeReader) -> _Records:
        """Rows that are read again, behind what was polled; with the offset that says how far."""
        if incremental.take_signals(format_lsn(changes.offset.commit_lsn)):
            changes.offsets_changed = True
        records: _Records = []
        if not changes.in_transaction:
            records = incremental.step(max(changes.offset.commit_lsn, session.replication.sent_up_to))
        if changes.offsets_changed:
            changes.offsets_changed = False
            self.context.publish_offsets(incremental_partition(self._config.prefix), self._read_again.to_offset())
        metrics = self.context.metrics
        metrics["IncrementalSnapshotRunning"] = float(bool(self._read_again.requests))
        metrics["IncrementalSnapshotTablesLeft"] = len(self._read_again.requests)
        metrics["IncrementalSnapshotRowsRead"] = incremental.rows_read
        metrics["SignalsLeftOut"] = incremental.signals_left_out
        return records

    def _check_publication(self, session: _Session) -> None:
        """Look now and then: newer servers go on without a word when the publication is dropped.

        Raises:
            RetriableError: `PUBLICATION_DROPPED`; a new connection sees what is lost.
        """
        now = self._monotonic()
        if now < self._next_publication:
            return
        self._next_publication = now + self._idle_s
        if self._offset is not None and session.database.publication() != self._offset.publication:
            raise RetriableError("PUBLICATION_DROPPED", f"the publication {self._config.publication!r} was dropped")

    def _idle(self, session: _Session, changes: ChangeReader) -> None:
        """Move on while only others write, or the server would keep its log forever."""
        before = changes.offset.commit_lsn
        now = self._monotonic()
        if now < self._next_idle:
            return
        self._next_idle = now + self._idle_s
        moved = changes.idle(session.replication.sent_up_to)
        if moved or before > session.replication.confirmed:
            self._hand_out(changes.offset)
            self._publish_position()

    def _heartbeat(self, changes: ChangeReader) -> list[SourceRecord]:
        if not self._heartbeat_s or changes.in_transaction or self._monotonic() < self._next_heartbeat:
            return []
        self._next_heartbeat = self._monotonic() + self._heartbeat_s
        changes.idle(changes.offset.commit_lsn)
        return [
            SourceRecord(
                source_partition=self._partition,
                source_offset=changes.offset.to_offset(),
                topic=f"{self._config.string('topic.heartbeat.prefix')}.{self._config.prefix}",
                key_schema=HEARTBEAT_KEY_SCHEMA,
                key={"serverName": self._config.prefix},
                value_schema=HEARTBEAT_VALUE_SCHEMA,
                value={"ts_ms": int(self._wall_clock() * 1000)},
            )
        ]

    def _hand_out(self, offset: StreamOffset) -> None:
        """Records up to an offset, or the offset itself, are handed out: a new connection goes on behind them.

        What a poll has read when it fails is not handed out, and comes again.
        """
        self._offset = dataclasses.replace(offset)
        self._polled_lsn = offset.commit_lsn

    def _publish_position(self) -> None:
        assert self._offset is not None
        self.context.publish_offsets(self._partition, self._offset.to_offset())
        self._end_transaction()

    def _end_transaction(self) -> None:
        """With `transaction.boundary=connector`, transactions of the log end where those of the database do."""
        if self.context.transaction_context is not None:
            self.context.transaction_context.commit_transaction()
