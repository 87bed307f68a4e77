"""A connection in replication mode: slots, and the stream of messages, over the lowest layer of psycopg.

Psycopg has no replication protocol, and its authors plan none. Its `pq` layer is libpq as it is, which is all that is
needed.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.postgres.lsn import POSTGRES_EPOCH_US, format_lsn, parse_lsn

if TYPE_CHECKING:
    from psycopg import pq

_XLOG_DATA = struct.Struct("!q").unpack_from
_KEEPALIVE = struct.Struct("!qqB").unpack_from
_STATUS = struct.Struct("!cqqqqB").pack
_XLOG_HEADER = 25
_DATA, _ALIVE = b"wk"
_OPTIONS_VERSION = 150000
"""The first one that takes options of a slot in parentheses."""


class SystemIdentity(NamedTuple):
    """Which cluster a server belongs to, and where its log is."""

    system_id: str
    timeline: int
    wal_lsn: int


class WalMessage(NamedTuple):
    """A message of the output plug-in and where it is in the log."""

    lsn: int
    data: bytes


class ReplicationConnection:
    """Sends commands of the replication protocol, then receives changes and confirms them. Not thread-safe.

    Attributes:
        sent_up_to: every transaction that committed before this position was received before the last `receive`.
        confirmed: the position that was confirmed last.

    Args:
        conninfo: of libpq, with `replication=database`.
        wall_clock: seconds since 1970.
        monotonic: seconds of a clock that only goes forward.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        from psycopg import pq

        self._pq = pq
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._connection: pq.abc.PGconn = pq.PGconn.connect(conninfo.encode())
        if self._connection.status != pq.ConnStatus.OK:
            message = self._connection.get_error_message().strip()
            self._connection.finish()
            raise RetriableError("DATABASE_UNREACHABLE", f"PostgreSQL cannot be reached for replication: {message}")
        self.sent_up_to = 0
        self.confirmed = 0
        self._last_status = monotonic()

    @property
    def backend_pid(self) -> int:
        """Process id of the server's side."""
        return self._connection.backend_pid

    def query(self, sql: str) -> list[tuple[str | None, ...]]:
        """Run a command; its rows as text.

        Raises:
            ConnectError: `REPLICATION_REFUSED`: what the server says.
        """
        result = self._connection.exec_(sql.encode())
        status = self._pq.ExecStatus
        if result.status not in (status.TUPLES_OK, status.COMMAND_OK):
            raise self._refused(sql, result)
        return [
            tuple(
                None if (value := result.get_value(row, column)) is None else value.decode()
                for column in range(result.nfields)
            )
            for row in range(result.ntuples)
        ]

    def _refused(self, sql: str, result: pq.abc.PGresult) -> ConnectError:
        state = result.error_field(self._pq.DiagnosticField.SQLSTATE)
        return ConnectError(
            "REPLICATION_REFUSED",
            f"PostgreSQL refuses {sql.split(None, 2)[0:2]}: {result.get_error_message().strip()}",
            sqlstate=state.decode() if state else None,
        )

    def identify(self) -> SystemIdentity:
        """Which cluster this is."""
        ((system_id, timeline, lsn, _),) = self.query("IDENTIFY_SYSTEM")
        return SystemIdentity(str(system_id), int(timeline or 0), parse_lsn(str(lsn)))

    def create_slot(self, name: str) -> tuple[int, str]:
        """Make a logical slot; its first position, and the snapshot of what was committed before.

        The snapshot is read inside the transaction that has it, so no exported snapshot has to stay alive.
        """
        options = "(SNAPSHOT 'use')" if self._connection.server_version >= _OPTIONS_VERSION else "USE_SNAPSHOT"
        self.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            rows = self.query(f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput {options}")
            ((snapshot,),) = self.query("SELECT pg_current_snapshot()::text")
        finally:
            self.query("COMMIT")
        return parse_lsn(str(rows[0][1])), str(snapshot)

    def start(self, slot: str, lsn: int, publication: str, *, confirmed: int, messages: bool = False) -> None:
        """Begin to receive the changes of a publication behind a position.

        Args:
            slot: the replication slot.
            lsn: the position.
            publication: which tables.
            confirmed: the position that is durable here; 0: none.
            messages: whether logical decoding messages are sent as well (PostgreSQL 14 and newer).
        """
        options = f"proto_version '1', publication_names {literal(quoted(publication))}"
        if messages:
            options += ", messages 'true'"
        sql = f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {format_lsn(lsn)} ({options})"
        result = self._connection.exec_(sql.encode())
        if result.status != self._pq.ExecStatus.COPY_BOTH:
            raise self._refused(sql, result)
        self.confirmed = confirmed
        self._connection.nonblocking = 1

    def receive(self) -> WalMessage | None:
        """The next message; `None` if there is none yet.

        Raises:
            RetriableError: `DATABASE_UNREACHABLE`: the connection is gone.
        """
        while True:
            size, data = self._connection.get_copy_data(1)
            if size == 0:
                return None
            if size < 0:
                result = self._connection.get_result()
                message = result.get_error_message() if result else self._connection.get_error_message()
                raise RetriableError(
                    "DATABASE_UNREACHABLE", f"PostgreSQL ended the stream of changes: {message.strip()}"
                )
            kind = data[0]
            if kind == _DATA:
                (start,) = _XLOG_DATA(data, 1)
                return WalMessage(start, bytes(data[_XLOG_HEADER:]))
            if kind == _ALIVE:
                sent, _, reply = _KEEPALIVE(data, 1)
                self.sent_up_to = max(self.sent_up_to, sent)
                if reply:
                    self.send_status()

    def wait(self, timeout_s: float) -> bool:
        """Wait until something can be received; whether there is something."""
        ready, _, _ = select.select([self._connection.socket], [], [], timeout_s)
        if ready:
            try:
                self._connection.consume_input()
            except Exception as error:  # psycopg's OperationalError
                raise RetriableError("DATABASE_UNREACHABLE", f"the connection to PostgreSQL broke: {error}") from error
        return bool(ready)

    def confirm(self, lsn: int) -> None:
        """Say that everything up to a position is durable here: the server may forget it."""
        self.confirmed = max(self.confirmed, lsn)
        self.send_status()

    def keep_alive(self, interval_s: float) -> None:
        """Send the status again if the last one is old, or the server would take the connection for dead."""
        if self._monotonic() - self._last_status >= interval_s:
            self.send_status()

    def send_status(self) -> None:
        """Send the confirmed position."""
        clock = int(self._wall_clock() * 1_000_000) - POSTGRES_EPOCH_US
        lsn = self.confirmed
        try:
            self._connection.put_copy_data(_STATUS(b"r", lsn, lsn, lsn, clock, 0))
            self._connection.flush()
        except Exception as error:  # psycopg's OperationalError
            raise RetriableError("DATABASE_UNREACHABLE", f"the connection to PostgreSQL broke: {error}") from error
        self._last_status = self._monotonic()

    def close(self) -> None:
        """Close the connection."""
        self._connection.finish()


def quoted(name: str) -> str:
    """A name as SQL.

    Example:
        >>> quoted('odd"name')
        '"odd""name"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"
