"""`SqliteSinkConnector`: records as rows of an SQLite database, exactly once."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import non_empty
from hayase.connect.contracts import (
    Props,
    SinkConnector,
    SinkDelivery,
    SinkPartition,
    SinkRange,
    TransactionalSinkTask,
)
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.generations import bundle_name
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.connect.simple_connector import SimpleConnector
from hayase.connect.sql.offset_table import Execute, OffsetTable
from hayase.connect.sql.row_change import RowChange, RowChangeKind, runs
from hayase.connect.sql.rows import RowMapper
from hayase.connect.sql.sink_config import InsertMode, sql_sink_keys
from hayase.connect.sql.tables import Tables, quoted
from hayase.core.failpoints import reach
from hayase.core.records import TopicPartition

_BUSY_S = 5.0
_OFFSETS = OffsetTable("?")
_TYPES: Mapping[SchemaType, str] = {
    SchemaType.INT8: "INTEGER",
    SchemaType.INT16: "INTEGER",
    SchemaType.INT32: "INTEGER",
    SchemaType.INT64: "INTEGER",
    SchemaType.BOOLEAN: "INTEGER",
    SchemaType.FLOAT32: "REAL",
    SchemaType.FLOAT64: "REAL",
    SchemaType.BYTES: "BLOB",
}


def _definition() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "connection.path", ConfigType.STRING, validator=non_empty, importance=Importance.HIGH,
            documentation="File of the database; made if it does not exist.",
        )
        .embed(sql_sink_keys())
    )  # fmt: skip


class SqliteSinkConnector(SimpleConnector, SinkConnector):
    """Writes records as rows, with the next offsets in the same transaction: exactly once."""

    delivery: ClassVar[SinkDelivery] = SinkDelivery.TRANSACTIONAL

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[TransactionalSinkTask]:
        """See `Connector.task_class`."""
        return SqliteSinkTask

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Set the next offsets in the database."""
        database = sqlite3.connect(props["connection.path"], timeout=_BUSY_S)
        try:
            with database:
                _OFFSETS.alter(database.execute, props, offsets)
        finally:
            database.close()
        return True


class SqliteSinkTask(TransactionalSinkTask):
    """Writes ranges, each with its next offset in one transaction."""

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        config = TypedConfig(_definition(), props)
        self._mapper = RowMapper(config)
        self._tables = Tables(config, _columns_of, _type)
        path = config.string("connection.path")
        try:
            self._database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            _OFFSETS.create(self._database.execute)
        except sqlite3.OperationalError as error:
            if "unable to open" in str(error):
                raise ConnectError(
                    "DATABASE_NOT_OPENED",
                    f"the database cannot be opened: {error}. Its folder has to exist, and the worker needs the right "
                    "to write there (connection.path)",
                    path=path,
                ) from error
            raise _translated(error) from error

    def next_offsets(self, partitions: Sequence[SinkPartition]) -> Mapping[SinkPartition, int]:
        """See `TransactionalSinkTask.next_offsets`: from now on tasks of earlier generations write nothing."""
        with _Transaction(self._database):
            return _OFFSETS.claim(self._database.execute, self.context, partitions)

    def write(self, ranges: Sequence[SinkRange]) -> bool:
        """See `TransactionalSinkTask.write`."""
        changes = [change for each in ranges for record in each.records if (change := self._mapper.change(record))]
        try:
            with _Transaction(self._database) as transaction:
                for each in ranges:
                    if not _OFFSETS.move(self._database.execute, self.context, each):
                        transaction.roll_back()
                        return False
                for run in runs(changes):
                    self._write_run(run)
                reach("inside_sink_write", bundle=bundle_name(self.context.connector, self.context.task))
        except sqlite3.Error as error:
            self._tables.forget()  # a table that was made is gone with the transaction
            raise _translated(error) from error
        except (ValueError, ArithmeticError) as error:  # of the driver: a number of more than 64 bits
            self._tables.forget()
            raise ConnectError("ROW_REFUSED", f"a value cannot be written: {error}") from error
        except BaseException:
            self._tables.forget()
            raise
        return True

    def _write_run(self, run: Sequence[RowChange]) -> None:
        first = run[0]
        if not self._tables.prepare(self._database.execute, first):
            return
        table, key, values = quoted(first.table), list(first.key), list(first.values)
        same_key = " AND ".join(f"{quoted(name)} = ?" for name in key)
        if first.kind is RowChangeKind.DELETE:
            self._execute(f"DELETE FROM {table} WHERE {same_key}", [list(each.key.values()) for each in run])
            return
        if self._mapper.insert_mode is InsertMode.UPDATE:
            if not key or not values:
                return
            assignments = ", ".join(f"{quoted(name)} = ?" for name in values)
            rows = [[*each.values.values(), *each.key.values()] for each in run]
            self._execute(f"UPDATE {table} SET {assignments} WHERE {same_key}", rows)
            return
        names = [*key, *values]
        statement = (
            f"INSERT INTO {table} ({', '.join(map(quoted, names))}) VALUES ({', '.join('?' * len(names))})"
            if names
            else f"INSERT INTO {table} DEFAULT VALUES"
        )
        if self._mapper.insert_mode is InsertMode.UPSERT and key:
            changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in values)
            action = f"UPDATE SET {changed}" if changed else "NOTHING"
            statement += f" ON CONFLICT ({', '.join(map(quoted, key))}) DO {action}"
        self._execute(statement, [[*each.key.values(), *each.values.values()] for each in run])

    def _execute(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        self._database.executemany(statement, [[stored(value) for value in row] for row in rows])

    def stop(self) -> None:
        """See `Task.stop`."""
        if hasattr(self, "_database"):
            self._database.close()


class _Transaction:
    """A write transaction of SQLite."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._open = True

    def __enter__(self) -> _Transaction:
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise _translated(error) from error
        return self

    def roll_back(self) -> None:
        """Undo everything."""
        self._open = False
        self._database.execute("ROLLBACK")

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if self._open:
            self._database.execute("COMMIT" if kind is None else "ROLLBACK")


def _columns_of(execute: Execute, table: str) -> set[str]:
    found = execute("SELECT json_group_array(name) FROM pragma_table_info(?)", (table,)).fetchone()
    return set(json.loads(found[0]))


def _type(change: RowChange, name: str) -> str:
    schema: ConnectSchema | None = change.schemas.get(name)
    if schema is not None and schema.name is None:
        return _TYPES.get(schema.type, "TEXT")
    if schema is not None:
        return "TEXT"
    value = change.key.get(name, change.values.get(name))
    return "INTEGER" if isinstance(value, int) else "REAL" if isinstance(value, float) else "TEXT"


def stored(value: object) -> object:
    """A value as SQLite keeps it: decimals and times as text, structs, arrays and maps as JSON."""
    if value is None or type(value) in (int, str, float, bytes, bool):
        return value
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=stored, ensure_ascii=False)
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def _translated(error: sqlite3.Error) -> ConnectError:
    if isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error)):
        return RetriableError("DATABASE_BUSY", f"another process writes to the database: {error}")
    return ConnectError("ROW_REFUSED", f"the database refuses the write: {error}")
