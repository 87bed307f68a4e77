"""Reads the rows of tables again while their changes go on, chunk by chunk.

A chunk is read between two transactions of the stream and held back until the stream has passed everything that the
chunk sees. A row whose key turns up in the stream meanwhile is left out: its events say more. So every change is
published, and each row in its place among the changes of its key.

A chunk counts only if its snapshot sees every transaction that was published before it: a commit can be in the log
before other transactions see it. Otherwise an older row would follow a newer one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from hayase.connect.contracts import SerializedJson
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.model import SerializedRecords, SourceRecord
from hayase.connect.postgres.catalog import TypeRegistry
from hayase.connect.postgres.column_types import ColumnTypes
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.database import Database
from hayase.connect.postgres.events import Position, TableEvents
from hayase.connect.postgres.keys import KeyOrder
from hayase.connect.postgres.lsn import Snapshot
from hayase.connect.postgres.offsets import incremental_partition
from hayase.connect.postgres.read_rows import Cells, rendered_rows, row_records, table_events
from hayase.connect.postgres.refusals import Report
from hayase.connect.postgres.signals import IncrementalProgress, SignalTopic
from hayase.connect.postgres.snapshot import ChunkTransaction, read_cells, select_rows
from hayase.connect.postgres.stream import ChangeReader

_LOG = logging.getLogger(__name__)
_KNOWN_XIDS_MAX = 10_000
_Records = list[SourceRecord | SerializedRecords]


@dataclass(slots=True)
class _Window:
    """A chunk that is held back.

    Attributes:
        events: makes the events of its table.
        rows: by key.
        upper: its last key; `None`: it is the last chunk of its table.
        end_lsn: where the stream has passed everything that the chunk sees.
    """

    events: TableEvents
    rows: dict[tuple[object, ...], Cells]
    upper: tuple[str, ...] | None
    end_lsn: int


class IncrementalSnapshot:
    """Reads tables during one connection to the database.

    Args:
        config: the configuration.
        database: where the tables are.
        registry: the types of the database.
        progress: what is to be read; moved on as chunks are handed out.
        changes: the stream, which says which keys have changed.
        report: takes rows of which no record can be made.
        topic: where signals come from beside the stream; `None`: there is none.
        json: how events are written here; `None`: they are handed out as values.
        now_us: microseconds since 1970.
    """

    def __init__(
        self,
        config: CaptureConfig,
        database: Database,
        registry: TypeRegistry,
        progress: IncrementalProgress,
        changes: ChangeReader,
        report: Report,
        *,
        topic: SignalTopic | None = None,
        json: SerializedJson | None = None,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._config = config
        self._database = database
        self._registry = registry
        self._types = ColumnTypes(registry, config.modes)
        self._progress = progress
        self._changes = changes
        self._report = report
        self._topic = topic
        self._json = json
        self._now_us = now_us
        self._window: _Window | None = None
        self._chunk_rows = config.int("incremental.snapshot.chunk.size")
        self.rows_read = 0

    def take_signals(self, position: str) -> bool:
        """Do what the signals say; whether the progress has changed."""
        signals = self._changes.signals.take()
        moved = False
        if self._topic is not None:
            signals += self._topic.take()
            moved = self._topic.offset != self._progress.signal_offset
            self._progress.signal_offset = self._topic.offset
        if not signals:
            return moved
        tables = [table.full_name for table in self._database.captured_tables()]
        first = self._progress.requests[:1]
        changed = [self._progress.apply(signal, tables, position) for signal in signals]
        if self._progress.requests[:1] != first:
            self._close_window()
        return moved or any(changed)

    @property
    def signals_left_out(self) -> int:
        """How many signals could not be read, or name a type or a table that is not known."""
        topic = 0 if self._topic is None else self._topic.left_out
        return self._changes.signals.left_out + self._progress.left_out + topic

    def step(self, passed_lsn: int) -> _Records:
        """Between two transactions: read a chunk, or hand out the one that is held back; possibly nothing.

        Args:
            passed_lsn: every transaction that committed before was handled.
        """
        self._forget_visible()
        window = self._window
        if window is None:
            if self._progress.requests:
                self._open_window()
            return []
        if self._changes.emptied:
            window.rows.clear()
        for key in self._changes.touched:
            window.rows.pop(key, None)
        self._changes.touched.clear()
        self._changes.emptied = False
        if passed_lsn < window.end_lsn:
            return []
        self._close_window()
        return self._handed_out(window)

    def _open_window(self) -> None:
        request = self._progress.requests[0]
        table = self._database.captured_table(request.table)
        if table is None or not table.identity_key:
            self._leave_out("it is not captured any more" if table is None else "it has no key")
            return
        try:
            order = KeyOrder(table, self._registry, self._database.query)
            conditions = [] if self._progress.upper is None else [order.beyond()]
            if request.condition:
                conditions.append(f"({request.condition})")
            sql = select_rows(table, conditions) + f" ORDER BY {order.order_by()} LIMIT {self._chunk_rows + 1}"
            with ChunkTransaction(self._database) as (snapshot, lsn):
                if not all(snapshot.sees(xid) for xid in self._changes.xids):
                    return  # once more, with the next poll
                rows = read_cells(self._config, self._database, sql, self._progress.upper or ())
        except RetriableError:
            raise
        except ConnectError as error:  # the condition of a signal is its user's: the capture goes on without it
            self._leave_out(str(error))
            return
        last = len(rows) <= self._chunk_rows
        rows = rows[: self._chunk_rows]
        events = table_events(self._config, table, self._types)
        by_key: dict[tuple[object, ...], Cells] = {events.identity(cells): cells for cells in rows}
        upper = None if last else tuple(str(cell) for cell in events.identity(rows[-1]))
        self._window = _Window(events, by_key, upper, lsn)
        self._changes.watch(request.table)

    def _leave_out(self, why: str) -> None:
        """Give up reading the first table again."""
        _LOG.warning("the table %s is not read again: %s", self._progress.requests[0].table, why)
        self._progress.requests.pop(0)
        self._progress.upper = None
        self._progress.left_out += 1
        self._changes.offsets_changed = True

    def _close_window(self) -> None:
        self._window = None
        self._changes.watch(None)

    def _handed_out(self, window: _Window) -> _Records:
        self._progress.upper = window.upper
        if window.upper is None:
            self._progress.requests.pop(0)
        self._changes.offsets_changed = True
        rows = list(window.rows.values())
        self.rows_read += len(rows)
        if not rows:
            return []
        events, offset = window.events, self._changes.offset
        at = Position(offset.commit_lsn, offset.commit_lsn, None, self._now_us(), "incremental")
        partition = incremental_partition(self._config.prefix)
        stored = self._progress.to_offset() or {}
        if self._json is not None:
            placed = [(cells, at) for cells in rows]
            written = rendered_rows(events, self._json, placed, self._now_us(), partition, stored, self._report)
            return [] if written is None else [written]
        return [*row_records(events, [(cells, at, stored) for cells in rows], partition, self._report)]

    def _forget_visible(self) -> None:
        """Forget transactions that every later snapshot sees."""
        if len(self._changes.xids) > _KNOWN_XIDS_MAX:
            ((text,),) = self._database.query("SELECT pg_current_snapshot()::text")
            snapshot = Snapshot(text)
            self._changes.xids = {xid for xid in self._changes.xids if not snapshot.sees(xid)}
