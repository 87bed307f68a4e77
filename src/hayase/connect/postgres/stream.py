"""From messages of the stream to records: transactions, what was done before, and what a snapshot has already."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence

from hayase.connect.contracts import SerializedJson
from hayase.connect.exceptions import ConnectError, DataError
from hayase.connect.model import ConnectHeader, SerializedRecords, SourceRecord
from hayase.connect.postgres.catalog import Query, TypeRegistry
from hayase.connect.postgres.column_types import ColumnTypes
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.events import (
    MESSAGE_KEY_SCHEMA,
    MESSAGE_VALUE_SCHEMA,
    Position,
    TableEvents,
    message_value,
)
from hayase.connect.postgres.keys import KeyOrder
from hayase.connect.postgres.lsn import POSTGRES_EPOCH_US
from hayase.connect.postgres.offsets import SnapshotProgress, StreamOffset, stream_partition
from hayase.connect.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Cell,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    Truncate,
    Update,
    decode,
    only_row,
)
from hayase.connect.postgres.record_buffer import RecordBuffer
from hayase.connect.postgres.refusals import Report, refuse
from hayase.connect.postgres.relations import table_of
from hayase.connect.postgres.rendered import RenderedEvents
from hayase.connect.postgres.replication import WalMessage
from hayase.connect.postgres.signals import SignalTable

_LOG = logging.getLogger(__name__)
_CHANGES = (Insert, Update, Delete, Truncate)


@dataclasses.dataclass(frozen=True, slots=True)
class _StreamTable:
    """A table of the stream.

    `nullable` has columns that were null and cannot be by now, `order` is there while chunks of it may hold what the
    stream brings, `rendered` where events are written as JSON.
    """

    relation: Relation
    nullable: frozenset[str]
    events: TableEvents
    order: KeyOrder | None
    rendered: RenderedEvents | None


class ChangeReader:
    """Makes records of the messages of one stream, in order.

    Attributes:
        offset: where to go on behind them.
        in_transaction: whether the last message was inside of a transaction.
        signals: what users have asked for.
        xids: transactions that were handled; those that every later snapshot sees may be missing.
        touched: keys of the watched table that have changed, as text.
        emptied: whether keys of the watched table have changed that are not known: all of them, by TRUNCATE.
        offsets_changed: whether the offset of what is read again is to be published.

    Args:
        config: the configuration.
        offset: where the stream goes on.
        progress: chunks of the snapshot.
        registry: the types of the database.
        query: asks the database.
        report: takes changes of which no record can be made.
        now_us: microseconds since 1970.
        json: how events are written here; `None`: they are handed out as values.
    """

    def __init__(
        self,
        config: CaptureConfig,
        offset: StreamOffset,
        progress: SnapshotProgress,
        registry: TypeRegistry,
        query: Query,
        report: Report,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        json: SerializedJson | None = None,
    ) -> None:
        self._config = config
        self._json = json
        self.offset = dataclasses.replace(offset)
        self._progress = progress
        # Transactions that committed from here on are in no chunk.
        self._snapshot_end = progress.lsn()
        self._registry = registry
        self._types = ColumnTypes(registry, config.modes)
        self._query = query
        self._report = report
        self._now_us = now_us
        self._partition = stream_partition(config.prefix)
        self._tables: dict[int, _StreamTable | None] = {}
        self._records = RecordBuffer(self._partition)
        self.in_transaction = False
        self.skipped_changes = 0
        self._begin: Begin | None = None
        self._transaction: Position | None = None  # of its first new change, for all of them
        self._done = False  # the transaction was published before
        self._ordinal = 0
        self._skip = 0
        self._resume_lsn = 0  # messages up to here are done, in a transaction that was published in part
        self._skip_lsn = 0
        self._last_commit = None if offset.xid is None else offset.commit_lsn
        self._tombstones = config.bool("tombstones.on.delete")
        self._rendered_ops = {
            kind: op for kind, op in ((ord("I"), b"c"), (ord("U"), b"u")) if op.decode() not in config.skipped
        }
        self.signals = SignalTable(config.signal_table)
        self.xids: set[int] = set()
        self.touched: set[tuple[object, ...]] = set()
        self.emptied = False
        self.offsets_changed = False
        self._watched: str | None = None

    def watch(self, table: str | None) -> None:
        """Note from now on which keys of a table change; `None`: of none."""
        self._watched = table
        self.touched.clear()
        self.emptied = False

    @property
    def count(self) -> int:
        """How many records were made since `take`."""
        return self._records.count

    def take(self) -> list[SourceRecord | SerializedRecords]:
        """The records made since the last call; the last of them says where to go on."""
        return self._records.take(self._stored())

    def handle(self, message: WalMessage) -> None:
        """Take one message.

        Raises:
            ConnectError: `TOLERANCE_EXCEEDED`: a value cannot be captured; with table, column, key and position.
            SerializationError: the message cannot be read.
        """
        if (row := only_row(message.data)) is not None and self._handle_row(message, *row):
            return
        change = decode(message.data)
        if isinstance(change, _CHANGES):
            self._ordinal += 1
            if self._done or self._ordinal <= self._skip or (self._skip_lsn and self._was_seen(message.lsn)):
                return
            try:
                self._change(change, message.lsn)
            except DataError as error:
                table = None if isinstance(change, Truncate) else self._tables.get(change.relation)
                if table is None:
                    raise
                self._refuse(table, error)
        elif isinstance(change, Begin):
            self._begin_transaction(change)
        elif isinstance(change, Commit):
            self._commit(change)
        elif isinstance(change, Relation):
            self._tables[change.oid] = self._table(change)
            self.signals.look_at(change)
        elif isinstance(change, LogicalMessage):
            self._message(change)

    def _was_seen(self, lsn: int) -> bool:
        """Whether Debezium has captured a change; changes of one COPY share a position, and may come again."""
        if lsn > self._skip_lsn:
            return False
        if lsn == self._skip_lsn:
            self._skip_lsn = 0
        return True

    def _message(self, message: LogicalMessage) -> None:
        """A logical decoding message, inside of a transaction or alone."""
        begin = self._begin if self.in_transaction else None
        if begin is None:
            # Those outside of transactions come again after a restart, up to the next position that is confirmed.
            if message.lsn <= self.offset.message_lsn or message.lsn < self.offset.commit_lsn:
                return
            self.offset.message_lsn = message.lsn
        else:
            seen_lsn = max(self._skip_lsn, self._resume_lsn if self._ordinal <= self._skip else 0)
            if self._done or self._ordinal < self._skip or message.lsn <= seen_lsn:
                return
            self.offset.lsn, self.offset.xid = message.lsn, begin.xid
            self.offset.transaction_lsn, self.offset.ordinal = begin.final_lsn, self._ordinal
        if "m" in self._config.skipped or not self._config.messages.matches(message.prefix):
            return
        now_us = self._now_us()
        commit_us = now_us if begin is None else begin.commit_us + POSTGRES_EPOCH_US
        position = Position(message.lsn, self._last_commit, None if begin is None else begin.xid, commit_us)
        self._records.add(
            SourceRecord(
                source_partition=self._partition,
                source_offset=self._stored(),
                topic=self._config.topic("message"),
                key_schema=MESSAGE_KEY_SCHEMA,
                key={"prefix": message.prefix},
                value_schema=MESSAGE_VALUE_SCHEMA,
                value=message_value(self._config, position, message.prefix, message.content, now_us),
            )
        )

    def idle(self, sent_up_to: int) -> bool:
        """Nothing was sent up to a position, and no transaction is open; whether the offset has moved."""
        if self.in_transaction or sent_up_to <= self.offset.commit_lsn:
            return False
        self._advance(sent_up_to)
        return True

    def _begin_transaction(self, begin: Begin) -> None:
        self.in_transaction = True
        self._begin, self._transaction = begin, None
        self._ordinal = self._skip = self._skip_lsn = 0
        # A commit record may begin exactly where the stored position ends: that one is new.
        self._done = begin.final_lsn < self.offset.commit_lsn
        if self._done:
            return
        self._resume_lsn = 0
        if begin.final_lsn == self.offset.transaction_lsn:
            self._skip = self.offset.ordinal
            self._resume_lsn = self.offset.lsn
        elif self.offset.xid is not None and self.offset.xid & 0xFFFFFFFF == begin.xid:
            # Debezium stopped inside of this transaction: its offset has the position of the last change only.
            self._skip_lsn = self.offset.lsn

    def _commit(self, commit: Commit) -> None:
        self.in_transaction = False
        if self._begin is not None:
            self.xids.add(self._begin.xid)
        if self._done:
            return
        self._advance(commit.end_lsn)
        self._last_commit = commit.end_lsn

    def _advance(self, commit_lsn: int) -> None:
        self.offset.commit_lsn = commit_lsn
        self.offset.transaction_lsn = self.offset.ordinal = 0

    def _stored(self) -> dict[str, object]:
        return self.offset.to_offset()

    def _table(self, relation: Relation) -> _StreamTable | None:
        captured = self._config.captures(relation.namespace, relation.name)
        return self._stream_table(relation, frozenset()) if captured else None

    def _stream_table(self, relation: Relation, nullable: frozenset[str]) -> _StreamTable:
        table = table_of(self._query, relation, nullable)
        columns = [(column.name, column.type_oid, column.modifier) for column in relation.columns]
        events = TableEvents(self._config, table, columns, self._types, self._now_us)
        if events.left_out:
            _LOG.warning(
                "columns %s of %s have types that are not captured; include.unknown.datatypes=true captures them",
                ", ".join(events.left_out), table.full_name,
            )  # fmt: skip
        in_chunks = table.full_name in self._progress.chunks
        order = KeyOrder(table, self._registry, self._query) if in_chunks else None
        rendered = None if self._json is None else RenderedEvents(events, self._json)
        return _StreamTable(relation, nullable, events, order, rendered)

    def _handle_row(self, message: WalMessage, oid: int, at: int) -> bool:
        """Take an insert or update straight from its message if nothing depends on its values; whether it was."""
        table, begin = self._tables.get(oid), self._begin
        if table is None or table.rendered is None or begin is None or self._watched is not None:
            return False
        if self._done or self._skip or self._skip_lsn or oid in self.signals.oids:
            return False
        op = self._rendered_ops.get(message.data[0])
        if op is None or (table.order is not None and begin.final_lsn < self._snapshot_end):
            return False
        now_us, lsn = self._now_us(), message.lsn
        transaction = self._transaction or self._begin_changes(begin, lsn)
        written = table.rendered.record_of_message(op, message.data, at, lsn, transaction, now_us)
        if written is None:
            return False
        self._ordinal += 1
        self.offset.lsn, self.offset.ordinal = lsn, self._ordinal
        self._records.add_bytes(table.events.topic, *written, now_us // 1000)
        return True

    def _begin_changes(self, begin: Begin, lsn: int) -> Position:
        """The first change of a transaction that is new."""
        transaction = Position(lsn, self._last_commit, begin.xid, begin.commit_us + POSTGRES_EPOCH_US)
        self._transaction = transaction
        self.offset.xid, self.offset.commit_us = begin.xid, transaction.commit_us
        self.offset.transaction_lsn = begin.final_lsn
        return transaction

    def _change(self, change: Insert | Update | Delete | Truncate, lsn: int) -> None:
        begin = self._begin
        if begin is None:
            raise ConnectError("INVALID_REPLICATION_MESSAGE", "a change came outside of a transaction", lsn=lsn)
        offset = self.offset
        transaction = self._transaction or self._begin_changes(begin, lsn)
        offset.lsn, offset.ordinal = lsn, self._ordinal
        if isinstance(change, Update) and change.old is not None:
            change = change.completed()
        if self._watched is not None:
            self._touch(change)
        if isinstance(change, Truncate):
            if "t" not in self._config.skipped:
                for oid in change.relations:
                    self._truncate(self._tables.get(oid), transaction)
            return
        table = self._tables.get(change.relation)
        if isinstance(change, Insert) and change.relation in self.signals.oids:
            self.signals.take_insert(change)
        if table is None:
            self.skipped_changes += 1
        elif isinstance(change, Delete):
            self._delete(table, change.old, transaction)
        else:
            if None in change.new and (nulls := table.events.unexpected_nulls(change.new)):
                table = self._tables[change.relation] = self._stream_table(table.relation, table.nullable | nulls)
            if isinstance(change, Insert):
                self._insert(table, change.new, transaction)
            else:
                self._update(table, change, transaction)

    def _refuse(self, table: _StreamTable, error: DataError) -> None:
        refuse(self._report, error, table.events.topic, self.offset.lsn, self._partition, self._stored())

    def _touch(self, change: Insert | Update | Delete | Truncate) -> None:
        """Note the keys of the watched table that events are made of: not those whose change a chunk has already."""
        for oid in change.relations if isinstance(change, Truncate) else (change.relation,):
            table = self._tables.get(oid)
            if table is None or table.events.table.full_name != self._watched:
                continue
            if isinstance(change, Truncate):
                self.emptied = True
                continue
            old, new = getattr(change, "old", None), getattr(change, "new", None)
            for cells in (old, new):
                if cells is not None and not self._in_snapshot(table, cells):
                    key = table.events.identity(cells)
                    self.emptied = self.emptied or UNCHANGED in key  # a key too large to be sent
                    self.touched.add(key)

    def _in_snapshot(self, table: _StreamTable, cells: Sequence[Cell]) -> bool:
        """Whether the chunk that holds a row was read when the transaction was visible."""
        begin = self._begin
        if table.order is None or begin is None or begin.final_lsn >= self._snapshot_end:
            return False
        chunks = self._progress.chunks[table.events.table.full_name]
        chunk = table.order.chunk_of(table.events.identity(cells), chunks)
        return chunk is not None and chunk.snapshot.sees(begin.xid)

    def _truncate(self, table: _StreamTable | None, transaction: Position) -> None:
        """A table was emptied: not for chunks that were read afterwards.

        If it was emptied between two chunks, the rows of the later one are read again: the event empties them, too.
        """
        begin = self._begin
        if table is None or begin is None:
            return
        name = table.events.table.full_name
        chunks = self._progress.chunks.get(name, []) if begin.final_lsn < self._snapshot_end else []
        seen = [chunk.snapshot.sees(begin.xid) for chunk in chunks]
        if seen and all(seen):
            return
        self._emit(table, "t", None, None, None, transaction)
        if any(seen):
            self.signals.ask_for_snapshot(name)

    def _insert(self, table: _StreamTable, new: list[Cell], transaction: Position) -> None:
        if "c" in self._config.skipped or self._in_snapshot(table, new):
            return
        events, rendered = table.events, table.rendered
        if rendered is not None:
            now_us, lsn = self._now_us(), self.offset.lsn
            self._records.add_bytes(events.topic, *rendered.record("c", new, lsn, transaction, now_us), now_us // 1000)
            return
        self._emit(table, "c", events.key(new), None, events.row(new), transaction)

    def _delete(self, table: _StreamTable, old: list[Cell], transaction: Position) -> None:
        if "d" in self._config.skipped or self._in_snapshot(table, old):
            return
        events, rendered = table.events, table.rendered
        if rendered is not None:
            now_us, lsn = self._now_us(), self.offset.lsn
            try:
                key_bytes, value = rendered.record("d", old, lsn, transaction, now_us)
            except DataError as error:
                key_bytes = rendered.key(old)  # raises where the key is to blame: then there is no tombstone either
                self._refuse(table, error)
            else:
                self._records.add_bytes(events.topic, key_bytes, value, now_us // 1000)
            if self._tombstones and key_bytes is not None:
                self._records.add_bytes(events.topic, key_bytes, None, now_us // 1000)
            return
        key = events.key(old)
        self._emit_delete(table, key, old, transaction)
        self._tombstone(events, key)

    def _emit_delete(
        self,
        table: _StreamTable,
        key: dict[str, object] | None,
        old: list[Cell],
        transaction: Position,
        headers: tuple[ConnectHeader, ...] = (),
    ) -> None:
        """A row goes; if its values cannot be captured, what follows still comes: the tombstone, or the new row."""
        try:
            before = table.events.row(old)
        except DataError as error:
            self._refuse(table, error)
        else:
            self._emit(table, "d", key, before, None, transaction, headers)

    def _update(self, table: _StreamTable, change: Update, transaction: Position) -> None:
        events, old, new = table.events, change.old, change.new
        if old is not None and events.has_key and events.key(old) != events.key(new):
            self._move(table, old, new, transaction)
            return
        if "u" in self._config.skipped or (table.order is not None and self._in_snapshot(table, new)):
            return
        rendered = table.rendered
        if rendered is not None:
            now_us, lsn = self._now_us(), self.offset.lsn
            written = (
                rendered.record("u", new, lsn, transaction, now_us)
                if old is None
                else rendered.update(old, new, lsn, transaction, now_us)
            )
            self._records.add_bytes(events.topic, *written, now_us // 1000)
            return
        before = None if old is None else events.row(old)
        self._emit(table, "u", events.key(new), before, events.row(new), transaction)

    def _move(self, table: _StreamTable, old: list[Cell], new: list[Cell], transaction: Position) -> None:
        """A changed key: the old row goes, a new one comes; each is decided by its own key."""
        events = table.events
        old_key, new_key = events.key(old), events.key(new)
        if "d" not in self._config.skipped and not self._in_snapshot(table, old):
            header = ConnectHeader("__debezium.newkey", new_key, events.key_schema)
            self._emit_delete(table, old_key, old, transaction, (header,))
            self._tombstone(events, old_key, (header,))
        if "c" not in self._config.skipped and not self._in_snapshot(table, new):
            header = ConnectHeader("__debezium.oldkey", old_key, events.key_schema)
            self._emit(table, "c", new_key, None, events.row(new), transaction, (header,))

    def _emit(
        self,
        table: _StreamTable | None,
        op: str,
        key: dict[str, object] | None,
        before: dict[str, object] | None,
        after: dict[str, object] | None,
        transaction: Position,
        headers: tuple[ConnectHeader, ...] = (),
    ) -> None:
        if table is None:
            return
        events = table.events
        self._records.add(
            SourceRecord(
                source_partition=self._partition,
                source_offset=self._stored(),
                topic=events.topic,
                key_schema=events.key_schema if key is not None else None,
                key=key,
                value_schema=events.value_schema,
                value=events.envelope(op, before, after, transaction._replace(lsn=self.offset.lsn)),
                headers=headers,
            )
        )

    def _tombstone(
        self, events: TableEvents, key: dict[str, object] | None, headers: tuple[ConnectHeader, ...] = ()
    ) -> None:
        if self._tombstones and key is not None:
            self._records.add(
                SourceRecord(
                    source_partition=self._partition,
                    source_offset=self._stored(),
                    topic=events.topic,
                    key_schema=events.key_schema,
                    key=key,
                    headers=headers,
                )
            )
