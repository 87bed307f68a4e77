"""Tables that read models fill: in PostgreSQL, or in SQLite."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hayase.connect.contracts import TransactionalSinkTask
from hayase.connect.exceptions import RetriableError
from hayase.core.secrets import resolved
from hayase.patterns.read_models.rows import RowShape, invalid

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
Parameters = Sequence[object]
_SINK = {
    "insert.mode": "upsert",
    "delete.enabled": "true",
    "primary.key.mode": "record_key",
    "collection.name.format": "${topic}",
}


class Session(ABC):
    """A connection of a target; its SQL has `?` for parameters."""

    @abstractmethod
    def execute(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement gives."""

    @abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[object]:
        """All of it or nothing, and one at a time among those that switch versions."""

    @abstractmethod
    def columns(self, table: str) -> dict[str, str]:
        """The columns of a table with their types; empty if there is none."""

    @abstractmethod
    def create_view(self, name: str, table: str) -> None:
        """Make a view of all of a table, or change what it shows."""

    @abstractmethod
    def snapshot(self) -> contextlib.AbstractContextManager[object]:
        """Reads at one state of the database."""


class Target(ABC):
    """A table of a database, described by the type of its rows.

    Args:
        row: a dataclass, `msgspec.Struct` or Pydantic model: the columns.
        key: the columns of the primary key.
    """

    def __init__(self, row: type, key: Sequence[str] | str) -> None:
        self.shape = RowShape(row, [key] if isinstance(key, str) else key)
        for name in self.shape.columns:
            check_name(name)

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, without secrets."""

    @abstractmethod
    def sink_task(self) -> TransactionalSinkTask:
        """The task that writes."""

    @abstractmethod
    def sink_config(self) -> Mapping[str, str]:
        """The configuration of the sink's connector."""

    @abstractmethod
    def session(self) -> contextlib.AbstractContextManager[Session]:
        """A connection; raises RetriableError if the database is away."""

    @abstractmethod
    def column_type(self, declared: str) -> str:
        """The type of a column in this database."""


class PostgresTable(Target):
    """A table in PostgreSQL; needs the extra `postgres`.

    Args:
        row: the type of the rows: the columns.
        key: the columns of the primary key.
        url: `postgresql://HOST:PORT/DATABASE`.
        username: of the database.
        password: of the user; a reference to a secret, too.
        schema: of the table.

    Example:
        >>> PostgresTable(OrderRow, "order_id", "postgresql://127.0.0.1/shop")  # doctest: +SKIP
    """

    def __init__(
        self,
        row: type,
        key: Sequence[str] | str,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        schema: str = "public",
    ) -> None:
        super().__init__(row, key)
        self._schema = check_name(schema)
        given = {"connection.username": username, "connection.password": password}
        self._connection = {
            "connection.url": url,
            "connection.schema": schema,
            **{name: value for name, value in given.items() if value is not None},
        }

    @property
    def place(self) -> str:
        """See `Target.place`."""
        return f"PostgreSQL at {re.sub(r'//[^@/]*@', '//', self._connection['connection.url'])}, schema {self._schema}"

    def sink_task(self) -> TransactionalSinkTask:
        """See `Target.sink_task`."""
        from hayase.connect.sql.postgres_sink import PostgresSinkTask

        return PostgresSinkTask()

    def sink_config(self) -> Mapping[str, str]:
        """See `Target.sink_config`."""
        return {**_SINK, "primary.key.fields": ",".join(self.shape.key), **self._resolved()}

    def _resolved(self) -> dict[str, str]:
        return {name: str(value) for name, value in resolved(self._connection).items()}

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """See `Target.session`."""
        import psycopg

        from hayase.patterns.read_models.postgres_session import opened

        try:
            with opened(self.sink_config()) as session:
                yield session
        except psycopg.OperationalError as error:
            raise RetriableError("DATABASE_UNREACHABLE", f"the database is away: {str(error).strip()}") from error

    def column_type(self, declared: str) -> str:
        """See `Target.column_type`."""
        return declared


class SqliteTable(Target):
    """A table in a file of SQLite.

    Args:
        row: the type of the rows: the columns.
        key: the columns of the primary key.
        path: of the file; made if it is not there.
    """

    def __init__(self, row: type, key: Sequence[str] | str, path: str | Path) -> None:
        super().__init__(row, key)
        self._path = str(Path(path).absolute())

    @property
    def place(self) -> str:
        """See `Target.place`."""
        return f"SQLite in {self._path}"

    def sink_task(self) -> TransactionalSinkTask:
        """See `Target.sink_task`."""
        from hayase.connect.sql.sqlite_sink import SqliteSinkTask

        return SqliteSinkTask()

    def sink_config(self) -> Mapping[str, str]:
        """See `Target.sink_config`."""
        return {**_SINK, "primary.key.fields": ",".join(self.shape.key), "connection.path": self._path}

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """See `Target.session`."""
        try:
            database = sqlite3.connect(self._path, timeout=5, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise RetriableError("DATABASE_UNREACHABLE", f"{self._path} cannot be opened: {error}") from error
        try:
            database.execute("PRAGMA journal_mode = WAL")
            yield _SqliteSession(database)
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise RetriableError("DATABASE_BUSY", f"another process writes to {self._path}: {error}") from error
            raise
        finally:
            database.close()

    def column_type(self, declared: str) -> str:
        """See `Target.column_type`."""
        return _SQLITE_TYPES.get(declared, "TEXT")


_SQLITE_TYPES = {"boolean": "INTEGER", "bigint": "INTEGER", "double precision": "REAL", "bytea": "BLOB"}


class _SqliteSession(Session):
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def execute(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(statement, tuple(parameters)).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[object]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[object]:
        self._database.execute("BEGIN")
        try:
            yield self
        finally:
            self._database.execute("ROLLBACK")

    def columns(self, table: str) -> dict[str, str]:
        return {row[1]: row[2] for row in self._database.execute(f"PRAGMA table_info({table})")}

    def create_view(self, name: str, table: str) -> None:
        self._database.execute(f"DROP VIEW IF EXISTS {name}")
        self._database.execute(f"CREATE VIEW {name} AS SELECT * FROM {table}")


def check_name(name: str) -> str:
    """A name that needs no quotes in SQL; raises TopologyError `INVALID_READ_MODEL`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 55:
        raise invalid(
            f"{name!r} cannot name a table or column; use small letters, digits and '_', a letter first, 55 at most"
        )
    return name
