"""`PostgresSinkConnector`: records as rows of a PostgreSQL database, exactly once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

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
from hayase.connect.simple_connector import SimpleConnector
from hayase.connect.sql.offset_table import Execute, OffsetTable
from hayase.connect.sql.postgres_types import column_type, storable
from hayase.connect.sql.rows import RowChange, RowChangeKind, RowMapper, runs
from hayase.connect.sql.sink_config import InsertMode, sql_sink_keys
from hayase.connect.sql.tables import Tables, quoted
from hayase.core.failpoints import reach
from hayase.core.records import TopicPartition

if TYPE_CHECKING:
    import psycopg

_OFFSETS = OffsetTable("%s", " FOR UPDATE")
# Connection lost, shutdown, too many clients or no memory, serialization and deadlock, lock not available.
_PASSING = ("08", "57P", "53", "40", "55P03")


def _definition() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "connection.url", ConfigType.STRING, validator=non_empty, importance=Importance.HIGH,
            documentation="Where the database is: postgresql://HOST:PORT/DATABASE; jdbc: may stand before it.",
        )
        .define("connection.username", ConfigType.STRING, None, None, Importance.HIGH, "User of the database.")
        .define("connection.password", ConfigType.PASSWORD, None, None, Importance.HIGH, "Its password.")
        .define("connection.schema", ConfigType.STRING, "public", non_empty, Importance.MEDIUM, "Schema of the tables.")
        .embed(sql_sink_keys())
    )  # fmt: skip


class PostgresSinkConnector(SimpleConnector, SinkConnector):
    """Writes records as rows, with the next offsets in the same transaction: exactly once."""

    delivery: ClassVar[SinkDelivery] = SinkDelivery.TRANSACTIONAL

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[TransactionalSinkTask]:
        """See `Connector.task_class`."""
        return PostgresSinkTask

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Set the next offsets in the database."""
        with connect(TypedConfig(_definition(), props)) as connection, connection.transaction():
            _OFFSETS.alter(_executing(connection), props, offsets)
        return True


def _executing(database: psycopg.Connection[Any]) -> Execute:
    """Statements without parameters are sent as they are: a name may hold `%`."""
    return lambda statement, params: database.execute(statement, params or None)


def connect(config: TypedConfig) -> psycopg.Connection[Any]:
    """A connection by the settings of the sink; raises RetriableError if the database cannot be reached."""
    import psycopg

    url = config.string("connection.url").removeprefix("jdbc:")
    password = config.password("connection.password")
    settings = {"user": config.optional_string("connection.username"), "password": password}
    try:
        schema = _option_value(config.string("connection.schema"))
        connection = psycopg.connect(
            url,
            autocommit=True,
            **{name: value for name, value in settings.items() if value is not None},  # type: ignore[arg-type]  # texts
            application_name="hayase-sink",
            connect_timeout=10,
            options=f"-c search_path={schema} -c TimeZone=UTC -c DateStyle=ISO",
        )
    except psycopg.Error as error:
        text = str(error).strip()
        text = text.replace(password, "[hidden]") if password else text
        raise RetriableError("DATABASE_UNREACHABLE", f"the database cannot be reached: {text}") from error
    return connection


def _option_value(identifier: str) -> str:
    r"""An identifier as the server's `options` take it: quoted, and with each space and backslash escaped.

    Example:
        >>> print(_option_value('my "schema" -c x'))
        "my\ ""schema""\ -c\ x"
    """
    return re.sub(r"([\\\s])", r"\\\1", quoted(identifier))


class PostgresSinkTask(TransactionalSinkTask):
    """Writes ranges, each with its next offset in one transaction; rows by COPY and one statement for each table."""

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        self._config = TypedConfig(_definition(), props)
        self._mapper = RowMapper(self._config)
        self._connection: psycopg.Connection[Any] | None = None
        self._tables = Tables(self._config, _columns_of, _type)
        self._stages: dict[tuple[str, tuple[str, ...]], str] = {}

    def stop(self) -> None:
        """See `Task.stop`."""
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = getattr(self, "_connection", None), None
        self._stages = {}
        if hasattr(self, "_tables"):
            self._tables.forget()
        if connection is not None:
            connection.close()

    def _database(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            connection = connect(self._config)
            _OFFSETS.create(_executing(connection))
            self._connection = connection
        return self._connection

    def _translated(self, error: psycopg.Error) -> ConnectError:
        """The error for the worker; after a connection that broke or a statement that failed, nothing is known."""
        state = error.sqlstate or ""
        self._disconnect()
        if not state or state.startswith(_PASSING):
            return RetriableError("DATABASE_UNREACHABLE", f"the write may be repeated: {str(error).strip()}")
        return ConnectError("ROW_REFUSED", f"the database refuses the write: {str(error).strip()}", sqlstate=state)

    def next_offsets(self, partitions: Sequence[SinkPartition]) -> Mapping[SinkPartition, int]:
        """See `TransactionalSinkTask.next_offsets`: from now on tasks of earlier generations write nothing."""
        import psycopg

        try:
            database = self._database()
            with database.transaction():
                return _OFFSETS.claim(_executing(database), self.context, partitions)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def write(self, ranges: Sequence[SinkRange]) -> bool:
        """See `TransactionalSinkTask.write`."""
        import psycopg

        changes = [change for each in ranges for record in each.records if (change := self._mapper.change(record))]
        written = False
        try:
            database = self._database()
            execute = _executing(database)
            with database.transaction() as transaction:
                missed = [
                    each
                    for each in sorted(ranges, key=lambda each: each.partition)
                    if not _OFFSETS.move(execute, self.context, each)
                ]
                if missed:
                    # A commit whose answer was lost has moved them all; another task's has moved them elsewhere.
                    written = len(missed) == len(ranges) and all(
                        _OFFSETS.has_moved(execute, self.context, each) for each in missed
                    )
                    raise psycopg.Rollback(transaction)
                for run in self._runs(changes):
                    self._write_run(database, run)
                reach("inside_sink_write", bundle=bundle_name(self.context.connector, self.context.task))
                written = True
        except psycopg.Error as error:
            raise self._translated(error) from error
        except ConnectError:
            self._stages = {}
            self._tables.forget()  # what was made is gone with the transaction
            raise
        return written

    def _runs(self, changes: list[RowChange]) -> list[list[RowChange]]:
        """Changes that one statement can make, in order; of upserts of one shape the last of each key is enough."""
        if self._mapper.insert_mode is not InsertMode.UPSERT or any(not change.key for change in changes):
            return list(runs(changes))
        shapes: dict[str, set[tuple[str, ...]]] = {}
        for change in changes:
            if change.kind is RowChangeKind.WRITE:
                shapes.setdefault(change.table, set()).add((*change.key, "", *change.values))
        if any(len(each) > 1 for each in shapes.values()):
            return list(runs(changes))
        last: dict[tuple[object, ...], RowChange] = {}
        for change in changes:
            last[(change.table, *map(repr, change.key.values()))] = change
        by_kind: dict[tuple[object, ...], list[RowChange]] = {}
        for change in last.values():
            by_kind.setdefault(change.shape, []).append(change)
        return list(by_kind.values())

    def _write_run(self, database: psycopg.Connection[Any], run: Sequence[RowChange]) -> None:
        first = run[0]
        self._tables.prepare(_executing(database), first)
        table, key, values = quoted(first.table), list(first.key), list(first.values)
        deletes = first.kind is RowChangeKind.DELETE
        mode = self._mapper.insert_mode
        names = key if deletes else [*key, *values]
        if not names:
            for _ in run:
                database.execute(f"INSERT INTO {table} DEFAULT VALUES")
            return
        columns = ", ".join(map(quoted, names))
        if not deletes and (mode is InsertMode.INSERT or not key):
            self._copy(database, table, names, run)
            return
        if not deletes and mode is InsertMode.UPSERT:
            # Of several rows with one key in a statement only the last may be there.
            run = list({tuple(map(repr, each.key.values())): each for each in run}.values())
        stage = self._stage(database, first.table, names)
        self._copy(database, stage, names, run)
        same_key = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)
        if deletes:
            database.execute(f"DELETE FROM {table} t USING {stage} s WHERE {same_key}")
        elif mode is InsertMode.UPDATE:
            assignments = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in values)
            if assignments:
                database.execute(f"UPDATE {table} t SET {assignments} FROM {stage} s WHERE {same_key}")
        else:
            changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in values)
            action = f"UPDATE SET {changed}" if changed else "NOTHING"
            database.execute(
                f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {stage} "
                f"ON CONFLICT ({', '.join(map(quoted, key))}) DO {action}"
            )
        database.execute(f"TRUNCATE {stage}")

    def _stage(self, database: psycopg.Connection[Any], table: str, names: Sequence[str]) -> str:
        """A temporary table with these columns of a table."""
        where = (table, tuple(names))
        stage = self._stages.get(where)
        if stage is None:
            stage = f"hayase_stage_{len(self._stages)}"
            columns = ", ".join(map(quoted, names))
            database.execute(f"DROP TABLE IF EXISTS pg_temp.{stage}")
            database.execute(f"CREATE TEMP TABLE {stage} AS SELECT {columns} FROM {quoted(table)} WITH NO DATA")
            self._stages[where] = stage
        return f"pg_temp.{stage}"

    @staticmethod
    def _copy(database: psycopg.Connection[Any], table: str, names: Sequence[str], run: Sequence[RowChange]) -> None:
        schemas = run[0].schemas
        key = run[0].key
        stored = [(name, name in key, storable(schemas.get(name))) for name in names]
        with (
            database.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(map(quoted, names))}) FROM STDIN") as copy,
        ):
            for change in run:
                row = []
                for name, in_key, convert in stored:
                    value = (change.key if in_key else change.values)[name]
                    row.append(None if value is None else convert(value))
                copy.write_row(row)


def _columns_of(execute: Execute, table: str) -> set[str]:
    statement = (
        "SELECT array_agg(attname::text) FROM pg_attribute "
        "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
    )
    return set(execute(statement, (quoted(table),)).fetchone()[0] or ())


def _type(change: RowChange, name: str) -> str:
    return column_type(change.schemas.get(name), change.key.get(name, change.values.get(name)))
