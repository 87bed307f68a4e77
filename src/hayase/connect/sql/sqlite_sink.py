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
from hayase.connect.generations import SupersededError
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.connect.sql.rows import RowChange, RowChangeKind, RowMapper, runs
from hayase.connect.sql.sink_config import InsertMode, SchemaEvolution, sql_sink_keys
from hayase.core.records import TopicPartition

_BUSY_S = 5.0
_OFFSETS = """CREATE TABLE IF NOT EXISTS hayase_offsets (
    consumer_group TEXT NOT NULL, connector TEXT NOT NULL, topic_id TEXT NOT NULL, kafka_partition INTEGER NOT NULL,
    topic TEXT NOT NULL, generation INTEGER NOT NULL, next_offset INTEGER,
    PRIMARY KEY (consumer_group, connector, topic_id, kafka_partition)
)"""
_WHERE = "consumer_group = ? AND connector = ? AND topic_id = ? AND kafka_partition = ?"
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


class SqliteSinkConnector(SinkConnector):
    """Writes records as rows, with the next offsets in the same transaction: exactly once."""

    delivery: ClassVar[SinkDelivery] = SinkDelivery.TRANSACTIONAL

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def start(self, props: Props) -> None:
        """See `Connector.start`."""
        self._props = dict(props)

    def task_class(self) -> type[TransactionalSinkTask]:
        """See `Connector.task_class`."""
        return SqliteSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """As many tasks as allowed; SQLite lets one of them write at a time."""
        return [dict(self._props) for _ in range(max_tasks)]

    def stop(self) -> None:
        """See `Connector.stop`."""

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Set the next offsets in the database."""
        name = props["name"]
        group = props.get("consumer.override.group.id", f"connect-{name}")
        database = sqlite3.connect(props["connection.path"], timeout=_BUSY_S)
        try:
            with database:
                database.execute(_OFFSETS)
                database.executemany(
                    "UPDATE hayase_offsets SET next_offset = ? "
                    "WHERE consumer_group = ? AND connector = ? AND topic = ? AND kafka_partition = ?",
                    [(offset, group, name, where.topic, where.partition) for where, offset in offsets.items()],
                )
        finally:
            database.close()
        return True


class SqliteSinkTask(TransactionalSinkTask):
    """Writes ranges, each with its next offset in one transaction."""

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        config = TypedConfig(_definition(), props)
        self._mapper = RowMapper(config)
        self._create = config.bool("auto.create")
        self._evolve = SchemaEvolution(config.string("schema.evolution").lower()) is SchemaEvolution.BASIC
        self._columns: dict[str, set[str]] = {}
        try:
            self._database = sqlite3.connect(
                config.string("connection.path"), timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(_OFFSETS)
        except sqlite3.OperationalError as error:
            raise _translated(error) from error

    def _place(self, partition: SinkPartition) -> tuple[str, str, str, int]:
        return self.context.group, self.context.connector, partition.topic_id, partition.partition

    def next_offsets(self, partitions: Sequence[SinkPartition]) -> Mapping[SinkPartition, int]:
        """See `TransactionalSinkTask.next_offsets`: from now on tasks of earlier generations write nothing."""
        found: dict[SinkPartition, int] = {}
        with _Transaction(self._database):
            for partition in sorted(partitions):
                place = self._place(partition)
                self._database.execute(
                    "INSERT INTO hayase_offsets VALUES (?, ?, ?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING",
                    (*place, partition.topic, self.context.generation),
                )
                generation, offset = self._database.execute(
                    f"SELECT generation, next_offset FROM hayase_offsets WHERE {_WHERE}", place
                ).fetchone()
                if generation > self.context.generation:
                    raise SupersededError(
                        "SUPERSEDED",
                        f"generation {generation} of the connector has written to this database, and this task is of "
                        f"generation {self.context.generation}",
                        topic=partition.topic,
                        partition=partition.partition,
                    )
                self._database.execute(
                    f"UPDATE hayase_offsets SET generation = ? WHERE {_WHERE}", (self.context.generation, *place)
                )
                if offset is not None:
                    found[partition] = offset
        return found

    def write(self, ranges: Sequence[SinkRange]) -> bool:
        """See `TransactionalSinkTask.write`."""
        changes = [change for each in ranges for record in each.records if (change := self._mapper.change(record))]
        try:
            with _Transaction(self._database) as transaction:
                for each in ranges:
                    moved = self._database.execute(
                        f"UPDATE hayase_offsets SET next_offset = ? WHERE {_WHERE} AND generation = ? "
                        "AND (next_offset = ? OR next_offset IS NULL)",
                        (each.end, *self._place(each.partition), self.context.generation, each.start),
                    )
                    if moved.rowcount != 1:
                        transaction.roll_back()
                        return False
                for run in runs(changes):
                    self._write_run(run)
        except sqlite3.Error as error:
            self._columns.clear()  # a table that was made is gone with the transaction
            raise _translated(error) from error
        except BaseException:
            self._columns.clear()
            raise
        return True

    def _write_run(self, run: Sequence[RowChange]) -> None:
        first = run[0]
        self._prepare_table(first)
        table, key, values = _quoted(first.table), list(first.key), list(first.values)
        same_key = " AND ".join(f"{_quoted(name)} = ?" for name in key)
        if first.kind is RowChangeKind.DELETE:
            self._execute(f"DELETE FROM {table} WHERE {same_key}", [list(each.key.values()) for each in run])
            return
        if self._mapper.insert_mode is InsertMode.UPDATE:
            if not key or not values:
                return
            assignments = ", ".join(f"{_quoted(name)} = ?" for name in values)
            rows = [[*each.values.values(), *each.key.values()] for each in run]
            self._execute(f"UPDATE {table} SET {assignments} WHERE {same_key}", rows)
            return
        names = [*key, *values]
        statement = (
            f"INSERT INTO {table} ({', '.join(map(_quoted, names))}) VALUES ({', '.join('?' * len(names))})"
            if names
            else f"INSERT INTO {table} DEFAULT VALUES"
        )
        if self._mapper.insert_mode is InsertMode.UPSERT and key:
            changed = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in values)
            action = f"UPDATE SET {changed}" if changed else "NOTHING"
            statement += f" ON CONFLICT ({', '.join(map(_quoted, key))}) DO {action}"
        self._execute(statement, [[*each.key.values(), *each.values.values()] for each in run])

    def _execute(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        self._database.executemany(statement, [[stored(value) for value in row] for row in rows])

    def _prepare_table(self, change: RowChange) -> None:
        known = self._columns.get(change.table)
        if known is None:
            described = self._database.execute(f"PRAGMA table_info({_quoted(change.table)})").fetchall()
            known = {row[1] for row in described}
            if not known:
                known = self._create_table(change)
            self._columns[change.table] = known
        lacking = [name for name in (*change.key, *change.values) if name not in known]
        if not lacking:
            return
        if not self._evolve:
            raise ConnectError(
                "UNKNOWN_COLUMN",
                f"the table {change.table} has no column {lacking[0]!r}; add it, or set schema.evolution=basic",
                table=change.table,
            )
        for name in lacking:
            self._database.execute(
                f"ALTER TABLE {_quoted(change.table)} ADD COLUMN {_quoted(name)} {_type(change, name)}"
            )
        known.update(lacking)

    def _create_table(self, change: RowChange) -> set[str]:
        if not self._create or change.kind is RowChangeKind.DELETE:
            raise ConnectError(
                "UNKNOWN_TABLE",
                f"the database has no table {change.table!r}; make it, or set auto.create=true",
                table=change.table,
            )
        names = [*change.key, *change.values]
        columns = [f"{_quoted(name)} {_type(change, name)}" for name in names]
        if change.key:
            columns.append(f"PRIMARY KEY ({', '.join(map(_quoted, change.key))})")
        self._database.execute(f"CREATE TABLE {_quoted(change.table)} ({', '.join(columns)})")
        return set(names)

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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
