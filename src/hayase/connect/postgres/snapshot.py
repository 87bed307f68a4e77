"""Reads the rows that are there at the start, in chunks by key, each under a snapshot of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hayase.connect.contracts import SerializedJson
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.model import SerializedRecords, SourceRecord
from hayase.connect.postgres.catalog import Table, TypeRegistry
from hayase.connect.postgres.column_types import ColumnTypes
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.database import Database, unreachable
from hayase.connect.postgres.events import Position
from hayase.connect.postgres.keys import KeyOrder
from hayase.connect.postgres.lsn import Snapshot, parse_lsn
from hayase.connect.postgres.offsets import Chunk, SnapshotProgress, StreamOffset, chunk_partition, stream_partition
from hayase.connect.postgres.read_rows import Cells, rendered_rows, row_records, table_events
from hayase.connect.postgres.refusals import Report
from hayase.connect.postgres.replication import quoted

if TYPE_CHECKING:
    from psycopg import pq

_LOG = logging.getLogger(__name__)
_VISIBLE_S = 60.0


class SnapshotReader:
    """Reads tables chunk by chunk; a restart goes on behind the last chunk that was published.

    Args:
        config: the configuration.
        database: where the tables are.
        tables: which are read, in this order.
        registry: the types of the database.
        progress: chunks that were published; those that are read are added.
        stream: where the stream of changes begins behind the snapshot.
        report: takes rows of which no record can be made.
        sleep: waits that many seconds.
        now_us: microseconds since 1970.
        json: how events are written here; `None`: they are handed out as values.
    """

    def __init__(
        self,
        config: CaptureConfig,
        database: Database,
        tables: Sequence[Table],
        registry: TypeRegistry,
        progress: SnapshotProgress,
        stream: StreamOffset,
        report: Report,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        json: SerializedJson | None = None,
    ) -> None:
        self._config = config
        self._database = database
        self._registry = registry
        self._types = ColumnTypes(registry, config.modes)
        self.progress = progress
        self._stream = stream
        self._report = report
        self._sleep = sleep
        self._now_us = now_us
        self._json = json
        self._chunk_rows = config.int("incremental.snapshot.chunk.size")
        self._waiting = [table for table in tables if not progress.is_complete(table.full_name)]
        self.tables_total = len(tables)
        self.rows_read = 0
        self._first = not progress.chunks
        self.finished_chunks: list[tuple[dict[str, object], dict[str, object]]] = []

    @property
    def tables_left(self) -> int:
        """How many tables were not read to their end."""
        return len(self._waiting)

    def wait_until_visible(self, slot_snapshot: Snapshot) -> None:
        """Wait until a new snapshot sees everything that committed before the slot began.

        A commit is in the log a moment before other transactions see it, with synchronous standbys even long before.
        What is neither in the stream nor seen by a chunk would be lost.
        """
        waited_s = 0.0
        while True:
            ((text,),) = self._database.query("SELECT pg_current_snapshot()::text")
            if Snapshot(text).covers(slot_snapshot):
                return
            if waited_s > _VISIBLE_S:
                raise ConnectError(
                    "COMMIT_NOT_VISIBLE",
                    "transactions that committed before the slot began are not visible yet: look at the synchronous "
                    "standbys of the server, which they wait for",
                )
            self._sleep(0.02)
            waited_s += 0.02

    def next_chunk(self) -> list[SourceRecord | SerializedRecords] | None:
        """The records of the next chunk, possibly none; `None`: all tables were read."""
        if not self._waiting:
            return None
        table = self._waiting[0]
        try:
            return self._read_chunk(table) if table.identity_key else self._read_whole(table)
        except RetriableError:
            raise
        except ConnectError:
            now = self._database.captured_table(table.full_name)
            if now == table or (now is not None and now.identity_key != table.identity_key):
                raise
        if now is not None:
            _LOG.info("the columns of %s have changed; its snapshot goes on with those of now", table.full_name)
            self._waiting[0] = now
            return []
        _LOG.warning(
            "the table %s was dropped, renamed or taken out of the publication during its snapshot; the snapshot goes "
            "on without it, and what was read of it stays",
            table.full_name,
        )
        self._waiting.pop(0)
        return []

    def _read_chunk(self, table: Table) -> list[SourceRecord | SerializedRecords]:
        chunks = self.progress.chunks.setdefault(table.full_name, [])
        order = KeyOrder(table, self._registry, self._database.query)
        lower = chunks[-1].upper if chunks else None
        condition = [] if lower is None else [order.beyond()]
        sql = select_rows(table, condition) + f" ORDER BY {order.order_by()} LIMIT {self._chunk_rows + 1}"
        with ChunkTransaction(self._database) as (snapshot, lsn):
            rows = read_cells(self._config, self._database, sql, lower or ())
        last = len(rows) <= self._chunk_rows
        rows = rows[: self._chunk_rows]
        events = table_events(self._config, table, self._types)
        positions = self._positions(len(rows), begins=not chunks, ends=last)
        partition = chunk_partition(self._config.prefix, table.full_name, len(chunks))

        def chunk_to(cells: Cells | None) -> Chunk:
            upper = None if cells is None else tuple(str(cell) for cell in events.identity(cells))
            return Chunk(upper, snapshot, lsn, self._stream.slot_lsn)

        chunk = chunk_to(None if last else rows[-1])
        offset = chunk.to_offset()
        records: list[SourceRecord | SerializedRecords] = []
        if self._json is not None:
            placed = list(zip(rows, positions, strict=True))
            written = rendered_rows(events, self._json, placed, self._now_us(), partition, offset, self._report)
            if written is not None:
                records.append(written)
        else:  # a record may be the last that is published, so each has its own offset
            offsets = [*(chunk_to(cells).to_offset() for cells in rows[:-1]), offset][: len(rows)]
            records.extend(row_records(events, zip(rows, positions, offsets, strict=True), partition, self._report))
        if not records or records[-1].source_offset != offset:
            self.finished_chunks.append((partition, offset))
        chunks.append(chunk)
        if last:
            self._waiting.pop(0)
        self.rows_read += len(rows)
        return records

    def _read_whole(self, table: Table) -> list[SourceRecord | SerializedRecords]:
        """Read a table without a key: one chunk, which a restart reads again."""
        events = table_events(self._config, table, self._types)
        with ChunkTransaction(self._database) as (snapshot, lsn):
            rows = read_cells(self._config, self._database, select_rows(table, []), ())
        positions = self._positions(len(rows), begins=True, ends=True)
        partition = chunk_partition(self._config.prefix, table.full_name, 0)
        chunk = Chunk(None, snapshot, lsn, self._stream.slot_lsn)
        # Until all of them are published, the offset is the one before the first.
        before = self._stream.to_offset()
        placed = [(cells, position, before) for cells, position in zip(rows, positions, strict=True)]
        records = row_records(events, placed, stream_partition(self._config.prefix), self._report)
        self.finished_chunks.append((partition, chunk.to_offset()))
        self.progress.chunks[table.full_name] = [chunk]
        self._waiting.pop(0)
        self.rows_read += len(rows)
        return [*records]

    def _positions(self, count: int, *, begins: bool, ends: bool) -> list[Position]:
        """The positions of rows that follow each other: which records of the snapshot they are.

        Args:
            count: how many.
            begins: whether the first of them is the first of its table.
            ends: whether the last of them is the last of its table.
        """
        commit_us = self._now_us()
        flags = [
            self._flag(first_of_table=begins and number == 0, last_of_table=ends and number == count - 1)
            for number in range(count)
        ]
        by_flag = {
            flag: Position(self._stream.commit_lsn, None, self._stream.xid, commit_us, flag)
            for flag in dict.fromkeys(flags)
        }
        return [by_flag[flag] for flag in flags]

    def _flag(self, *, first_of_table: bool, last_of_table: bool) -> str:
        first, self._first = self._first, False
        if last_of_table and len(self._waiting) == 1:
            return "last"
        if first:
            return "first"
        if last_of_table:
            return "last_in_data_collection"
        return "first_in_data_collection" if first_of_table else "true"


def select_rows(table: Table, conditions: list[str]) -> str:
    """A statement that reads rows of a table, those that its publication has."""
    columns = ", ".join(quoted(column.name) for column in table.columns)
    if table.row_filter:
        conditions = [f"({table.row_filter})", *conditions]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    # Children of inheritance are tables of their own in a publication; partitions are not, below a published root.
    only = "" if table.partitioned else "ONLY "
    return f"SELECT {columns} FROM {only}{quoted(table.namespace)}.{quoted(table.name)}{where}"


def read_cells(
    config: CaptureConfig, database: Database, sql: str, parameters: Sequence[str]
) -> list[list[str | None]]:
    """Rows as the texts that the server writes, which are those of the stream.

    Raises:
        RetriableError: `DATABASE_UNREACHABLE`.
        ConnectError: `DATABASE_REFUSED`.
    """
    from psycopg import pq

    connection = database.connection.pgconn
    result = connection.exec_params(sql.encode(), [each.encode() for each in parameters], result_format=0)
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise _read_error(config, result)
    columns = range(result.nfields)
    get = result.get_value
    return [
        [None if (cell := get(row, column)) is None else cell.decode() for column in columns]
        for row in range(result.ntuples)
    ]


class ChunkTransaction:
    """A transaction that sees one snapshot; gives it, and a position behind everything that it sees."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> tuple[Snapshot, int]:
        self._database.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((snapshot, lsn),) = self._database.query(
            "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
        )
        return Snapshot(snapshot), parse_lsn(lsn)

    def __exit__(self, *_: object) -> None:
        if not self._database.connection.broken:
            self._database.query("COMMIT")


def _read_error(config: CaptureConfig, result: pq.abc.PGresult) -> Exception:
    from psycopg import pq

    message = result.get_error_message().strip()
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    if not state or state.startswith(("08", "57P", "53", "40")):  # connection, shutdown, resources, serialization
        return unreachable(config, ConnectionError(message))
    return ConnectError("DATABASE_REFUSED", f"PostgreSQL refuses to read a table: {message}", sqlstate=state)
