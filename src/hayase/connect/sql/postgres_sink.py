"""`PostgresSinkConnector`: records as rows of a PostgreSQL database, exactly once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from hayase.connect.columns import RecordColumns
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
from hayase.connect.exceptions import TARGET_REFUSES, ConnectError, DataError, RetriableError
from hayase.connect.generations import bundle_name
from hayase.connect.simple_connector import SimpleConnector
from hayase.connect.sql.offset_table import OffsetTable
from hayase.connect.sql.postgres_writer import CopyColumns, RowWriter, copy_columns, executing, lock_tables
from hayase.connect.sql.row_change import RowChange
from hayase.connect.sql.rows import RowMapper
from hayase.connect.sql.sink_config import sql_sink_keys
from hayase.connect.sql.tables import quoted
from hayase.core.failpoints import reach
from hayase.core.records import TopicPartition

if TYPE_CHECKING:
    import psycopg

_OFFSETS = OffsetTable("%s", " FOR UPDATE")
# Connection lost, shutdown, too many clients or no memory, serialization and deadlock, lock not available, a standby
# that is not promoted yet, a transaction that the server has ended.
_PASSING = ("08", "57P", "53", "40", "55P03", "25006", "25P03", "25P04")

# No privilege, and no unique constraint for an upsert.
_NOT_OF_ROWS = ("42501", "42P10")


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
            _OFFSETS.alter(executing(connection), props, offsets)
        return True


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

    takes_columns: ClassVar[bool] = True
    _connection: psycopg.Connection[Any] | None = None

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        self._config = TypedConfig(_definition(), props)
        self._mapper = RowMapper(self._config)
        self._writer = RowWriter(self._config, self._mapper.insert_mode)

    def stop(self) -> None:
        """See `Task.stop`."""
        if self._connection is not None:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._writer.forget()
        if connection is not None:
            connection.close()

    def _database(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            connection = connect(self._config)
            with connection.transaction():
                lock_tables(executing(connection))
                _OFFSETS.create(executing(connection))
            self._connection = connection
        return self._connection

    def _translated(self, error: psycopg.Error) -> ConnectError:
        """The error for the worker; after a connection that broke or a statement that failed, nothing is known."""
        import psycopg

        state = error.sqlstate or ""
        # Without a state the driver has refused a value, or has lost the connection.
        broken = self._connection is None or self._connection.closed
        passing = broken or (not state and isinstance(error, psycopg.OperationalError)) or state.startswith(_PASSING)
        if isinstance(error, psycopg.errors.CardinalityViolation) and not self._writer.one_by_one:
            self._writer.one_by_one = passing = True  # the database takes two keys for one that are written otherwise
        self._disconnect()
        if passing:
            return RetriableError("DATABASE_UNREACHABLE", f"the write may be repeated: {str(error).strip()}")
        condition = TARGET_REFUSES if state in _NOT_OF_ROWS else "ROW_REFUSED"
        return ConnectError(condition, f"the database refuses the write: {str(error).strip()}", sqlstate=state)

    def prepare(self, columns: RecordColumns) -> CopyColumns | None:
        """See `TransactionalSinkTask.prepare`: the texts that COPY reads; `None`: records are read one by one."""
        try:
            rows = self._mapper.columns(columns)
            return None if rows is None else copy_columns(rows)
        except (DataError, ValueError, ArithmeticError):  # said of the one record that it is about
            return None

    def next_offsets(self, partitions: Sequence[SinkPartition]) -> Mapping[SinkPartition, int]:
        """See `TransactionalSinkTask.next_offsets`: from now on tasks of earlier generations write nothing."""
        import psycopg

        try:
            database = self._database()
            with database.transaction():
                return _OFFSETS.claim(executing(database), self.context, partitions)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def write(self, ranges: Sequence[SinkRange]) -> bool:
        """See `TransactionalSinkTask.write`."""
        import psycopg

        columns = self._columns(ranges)
        written = False
        try:
            database = self._database()
            execute = executing(database)
            if any(self._writer.keeps_order(database, each.rows.table, list(each.rows.key)) for each in columns or ()):
                columns = None
            changes: list[RowChange] = []
            if columns is None:
                changes = [
                    change for each in ranges for record in each.records if (change := self._mapper.change(record))
                ]
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
                for each in columns or ():
                    self._writer.write_columns(database, each)
                self._writer.write_rows(database, changes)
                reach("inside_sink_write", bundle=bundle_name(self.context.connector, self.context.task))
                written = True
            self._writer.one_by_one = False
        except psycopg.Error as error:
            raise self._translated(error) from error
        except ConnectError:
            self._writer.forget()  # what was made is gone with the transaction
            raise
        except (ValueError, ArithmeticError) as error:
            self._writer.forget()
            raise ConnectError("ROW_REFUSED", f"a value cannot be written: {error}") from error
        return written

    def _columns(self, ranges: Sequence[SinkRange]) -> list[CopyColumns] | None:
        """The changes of ranges by column; `None`: they are written row by row."""
        found: list[CopyColumns] = []
        for each in ranges:
            if not each.records:
                continue
            columns = each.prepared
            if not isinstance(columns, CopyColumns) or not self._writer.takes(columns):
                return None
            found.append(columns)
        return found
