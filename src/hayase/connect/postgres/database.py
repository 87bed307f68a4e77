"""Checks and questions to the database outside of the stream of changes."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.postgres.catalog import Table, published_tables, read_table, user_tables
from hayase.connect.postgres.config import APPLICATION_NAME, CaptureConfig
from hayase.connect.postgres.lsn import parse_lsn
from hayase.connect.postgres.replication import quoted

if TYPE_CHECKING:
    import psycopg

_LOG = logging.getLogger(__name__)
_TERMINATION_S = 20.0


@dataclass(frozen=True, slots=True)
class SlotState:
    """A replication slot.

    Attributes:
        plugin: its output plug-in.
        database: whose changes it has.
        active_pid: process that streams from it; `None`: none does.
        confirmed: position that was confirmed.
        lost: whether the server has removed log that it needs.
    """

    plugin: str
    database: str
    active_pid: int | None
    confirmed: int
    lost: bool


class Database:
    """A connection for questions. Not thread-safe.

    Args:
        config: where the database is.
        sleep: waits that many seconds.
    """

    def __init__(self, config: CaptureConfig, sleep: Callable[[float], None] = time.sleep) -> None:
        import psycopg

        self._config = config
        self._sleep = sleep
        self.application_name = f"{APPLICATION_NAME}:{config.prefix}"[:63]
        conninfo = config.conninfo(replication=False, application_name=f"{self.application_name}"[:60] + ":q")
        try:
            self.connection: psycopg.Connection[Any] = psycopg.connect(conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            raise unreachable(config, error) from error
        self.version = self.connection.info.server_version

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of a statement; none for one that gives none.

        Raises:
            RetriableError: `DATABASE_UNREACHABLE`.
            ConnectError: `DATABASE_REFUSED`.
        """
        import psycopg

        try:
            cursor = self.connection.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []
        except psycopg.OperationalError as error:
            raise unreachable(self._config, error) from error
        except psycopg.Error as error:
            raise ConnectError(
                "DATABASE_REFUSED", f"PostgreSQL refuses a statement: {error}".strip(), sqlstate=error.sqlstate
            ) from error

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def check(self) -> None:
        """Check that changes can be captured at all.

        Raises:
            ConnectError: `WAL_LEVEL`, `STANDBY`, `MISSING_PRIVILEGE`: with the statement that corrects it.
        """
        if self.version < 130000:
            raise ConnectError(
                "UNSUPPORTED_VERSION", f"the server is PostgreSQL {self.version // 10000}; 13 and newer are supported"
            )
        ((standby, level),) = self.query("SELECT pg_is_in_recovery(), current_setting('wal_level')")
        if standby:
            raise ConnectError("STANDBY", "the server is a standby; capture from the primary server")
        if level != "logical":
            raise ConnectError(
                "WAL_LEVEL",
                f"wal_level is {level!r}, and capture needs 'logical': run ALTER SYSTEM SET wal_level = 'logical' and "
                "restart the server",
            )
        ((allowed,),) = self.query(
            "SELECT rolsuper OR rolreplication OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname IN "
            "('rds_replication', 'rds_superuser', 'azure_pg_admin') AND pg_has_role(current_user, r.oid, 'member')) "
            "FROM pg_roles WHERE rolname = current_user"
        )
        user = self._config.string("database.user")
        if not allowed:
            raise ConnectError(
                "MISSING_PRIVILEGE",
                f"the user {user!r} may not replicate: run ALTER ROLE {quoted(user)} REPLICATION",
            )

    def slot(self) -> SlotState | None:
        """The replication slot; `None`: there is none.

        Raises:
            ConnectError: `SLOT_OF_OTHERS`: it is for another database or plug-in.
        """
        rows = self.query(
            "SELECT plugin, database, active_pid, confirmed_flush_lsn::text, wal_status = 'lost' "
            "FROM pg_replication_slots WHERE slot_name = %s",
            (self._config.slot,),
        )
        if not rows:
            return None
        plugin, database, pid, confirmed, lost = rows[0]
        if plugin != "pgoutput" or database != self._config.database:
            raise ConnectError(
                "SLOT_OF_OTHERS",
                f"the slot {self._config.slot!r} is for plug-in {plugin!r} and database {database!r}; set slot.name to "
                "another one",
            )
        return SlotState(plugin, database, pid, parse_lsn(confirmed or "0/0"), bool(lost))

    def free_slot(self) -> None:
        """End a stream of this connector that is left of a process before it.

        Raises:
            ConnectError: `SLOT_IN_USE`: the stream is another client's.
        """
        state = self.slot()
        if state is None or state.active_pid is None:
            return
        rows = self.query("SELECT application_name FROM pg_stat_activity WHERE pid = %s", (state.active_pid,))
        name = rows[0][0] if rows else self.application_name
        if name != self.application_name:
            raise ConnectError(
                "SLOT_IN_USE",
                f"the slot {self._config.slot!r} is in use by {name!r} (process {state.active_pid} of the server); "
                "stop that client, or set slot.name to another one",
            )
        _LOG.warning("the server still has a stream of this connector; it is ended (process %d)", state.active_pid)
        self.query("SELECT pg_terminate_backend(%s)", (state.active_pid,))
        waited_s = 0.0
        while (now := self.slot()) is not None and now.active_pid == state.active_pid:
            if waited_s > _TERMINATION_S:
                raise RetriableError("SLOT_IN_USE", f"the slot {self._config.slot!r} is still in use")
            self._sleep(0.05)
            waited_s += 0.05

    def drop_slot(self) -> None:
        """Remove the slot, if it is there."""
        self.free_slot()
        if self.slot() is not None:
            self.query("SELECT pg_drop_replication_slot(%s)", (self._config.slot,))

    def publication(self) -> int:
        """The number of the publication, another one after it was dropped and made again; 0: there is none."""
        rows = self.query("SELECT oid::int8 FROM pg_publication WHERE pubname = %s", (self._config.publication,))
        return int(rows[0][0]) if rows else 0

    def ensure_publication(self) -> int:
        """Make the publication, unless it is there; its number.

        Raises:
            ConnectError: `NO_PUBLICATION`: it is not there and must not be made.
        """
        name, mode = self._config.publication, self._config.string("publication.autocreate.mode")
        if number := self.publication():
            return number
        if mode == "disabled":
            raise ConnectError(
                "NO_PUBLICATION", f"there is no publication {name!r}: run CREATE PUBLICATION {quoted(name)} FOR TABLE …"
            )
        if mode == "all_tables":
            self.query(f"CREATE PUBLICATION {quoted(name)} FOR ALL TABLES")
            return self.publication()
        tables = self._matching()
        if not tables:
            raise ConnectError(
                "NO_TABLES",
                "no table matches table.include.list and its like; look at these settings",
                publication=name,
            )
        self.query(f"CREATE PUBLICATION {quoted(name)} FOR TABLE {', '.join(tables)}")
        return self.publication()

    def check_published(self) -> None:
        """Check that the publication has tables that are captured, if the database has any.

        Raises:
            ConnectError: `NO_TABLES`, with the statements that correct it.
        """
        matching = self._matching()
        if not matching or self.captured_tables():
            return
        name, tables = quoted(self._config.publication), ", ".join(matching)
        raise ConnectError(
            "NO_TABLES",
            f"the publication {name} has none of the tables that are to be captured: run ALTER PUBLICATION {name} ADD "
            f"TABLE {tables}; of a partitioned table it has the partitions, unless you run "
            f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true)",
            publication=self._config.publication,
        )

    def _matching(self) -> list[str]:
        """Tables of the database that are to be captured, as SQL."""
        return [
            f"{quoted(namespace)}.{quoted(table)}"
            for namespace, table in user_tables(self.query)
            if self._config.captures(namespace, table)
        ]

    def captured_tables(self) -> list[Table]:
        """The tables that are captured, with the columns and rows that the publication has of them."""
        return self._captured(None)

    def captured_table(self, full_name: str) -> Table | None:
        """One of `captured_tables`; `None`: it is none of them any more."""
        return next(iter(self._captured(full_name)), None)

    def _captured(self, wanted: str | None) -> list[Table]:
        tables = []
        for namespace, name, columns, row_filter in published_tables(
            self.query, self._config.publication, self.version
        ):
            if not self._config.captures(namespace, name) or wanted not in (None, f"{namespace}.{name}"):
                continue
            table = read_table(self.query, namespace, name)
            if table is not None:
                kept = table.columns if columns is None else [c for c in table.columns if c.name in columns]
                tables.append(dataclasses.replace(table, columns=tuple(kept), row_filter=row_filter))
        return tables

    def check_identity(self, tables: Sequence[Table]) -> None:
        """Check that changes say which row they are about.

        Raises:
            ConnectError: `NO_REPLICA_IDENTITY`, with the statement that corrects it.
        """
        without = [table for table in tables if table.identity != "f" and not table.identity_key]
        if without:
            statements = "; ".join(
                f"ALTER TABLE {quoted(table.namespace)}.{quoted(table.name)} REPLICA IDENTITY FULL" for table in without
            )
            raise ConnectError(
                "NO_REPLICA_IDENTITY",
                f"updates and deletes of {', '.join(table.full_name for table in without)} could not be captured, "
                f"since they have no primary key: add one, or run {statements}; or leave them out "
                "(table.exclude.list)",
            )

    def check_snapshot(self, tables: Sequence[Table]) -> None:
        """Check that each row of a snapshot comes once, where `exactly.once.support=required`.

        A table without a key has no chunks: if its snapshot is interrupted, all rows come again.

        Raises:
            ConnectError: `SNAPSHOT_AT_LEAST_ONCE`, with the statement that corrects it.
        """
        if not (self._config.exactly_once and self._config.reads_rows):
            return
        without = [table for table in tables if not table.identity_key]
        if without:
            statements = "; ".join(
                f"ALTER TABLE {quoted(table.namespace)}.{quoted(table.name)} "
                "ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
                for table in without
            )
            raise ConnectError(
                "SNAPSHOT_AT_LEAST_ONCE",
                f"rows of {', '.join(table.full_name for table in without)} could come twice if the snapshot is "
                f"interrupted, since a table without a key is read from its beginning again: add a primary key, for "
                f"example by {statements}; or set snapshot.mode=no_data or exactly.once.support=requested; or leave "
                "them out (table.exclude.list)",
            )


def unreachable(config: CaptureConfig, error: Exception) -> RetriableError:
    """The error for a database that cannot be reached; without the password."""
    text = str(error).strip()
    password = config.password("database.password")
    if password:
        text = text.replace(password, "[hidden]")
    return RetriableError(
        "DATABASE_UNREACHABLE",
        f"PostgreSQL at {config.string('database.hostname')}:{config.int('database.port')} cannot be used: {text}",
    )
