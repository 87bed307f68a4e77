"""Sessions of read models in PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.sql.postgres_sink import PostgresSinkConnector, connect
from hayase.patterns.read_models.rows import invalid
from hayase.patterns.read_models.targets import Parameters, Session

_SWITCHES = 4_715_002_711
"""Advisory lock of switches of versions."""


@contextlib.contextmanager
def opened(config: Mapping[str, str]) -> Iterator[Session]:
    """A session; raises RetriableError if the database is away."""
    connection = connect(TypedConfig(PostgresSinkConnector.config(), config))
    try:
        yield PostgresSession(connection)
    finally:
        connection.close()


class PostgresSession(Session):
    """See `Session`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """See `Session.execute`."""
        cursor = self._connection.execute(statement.replace("?", "%s"), parameters)
        return [] if cursor.description is None else cursor.fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[object]:
        """See `Session.transaction`."""
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SWITCHES,))
            yield self

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[object]:
        """See `Session.snapshot`."""
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield self

    def columns(self, table: str) -> dict[str, str]:
        """See `Session.columns`."""
        rows = self.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped",
            (table,),
        )
        return {row[0]: row[1].replace("timestamp with time zone", "timestamptz") for row in rows}

    def create_view(self, name: str, table: str) -> None:
        """See `Session.create_view`; privileges on the view stay."""
        try:
            with self._connection.transaction():
                self.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {table}")
            return
        except psycopg.errors.InvalidTableDefinition:
            grants = self.execute(
                "SELECT grantee::regrole::text, privilege_type FROM pg_class, aclexplode(relacl) "
                "WHERE oid = to_regclass(?) AND grantee <> relowner AND grantee <> 0",
                (name,),
            )  # of another shape: it can only be dropped and made
        try:
            self.execute(f"DROP VIEW {name}")
        except psycopg.errors.DependentObjectsStillExist as error:
            raise invalid(
                f"the view {name} has other columns now, and other views depend on it; drop them first: "
                f"{str(error).strip()}"
            ) from error
        self.execute(f"CREATE VIEW {name} AS SELECT * FROM {table}")
        for grantee, privilege in grants:
            self.execute(f"GRANT {privilege} ON {name} TO {grantee}")
