"""The inbox: a record counts once for a service that writes to a database of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

from hayase.core.errors import ConfigError
from hayase.core.records import Headers
from hayase.patterns.outbox import Connection, check_transaction, execute
from hayase.patterns.read_models.targets import check_name

_TABLE = "inbox"


class InboxRecord(Protocol):
    """What is known of a record: that of a consumer, or `SourceRecord`."""

    @property
    def topic(self) -> str:
        """Where it is from."""
        ...

    @property
    def partition(self) -> int:
        """Of the topic."""
        ...

    @property
    def offset(self) -> int:
        """In the partition."""
        ...

    @property
    def headers(self) -> Headers:
        """Name and value of each."""
        ...


def create_inbox(connection: Connection, table: str = _TABLE) -> None:
    """Make the table of the inbox unless it is there.

    Args:
        connection: to PostgreSQL.
        table: its name.
    """
    check_name(table)
    execute(
        connection,
        f"CREATE TABLE IF NOT EXISTS {table} (receiver text NOT NULL, event_id text NOT NULL, "
        "received timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (receiver, event_id))",
        {},
    )


@contextlib.contextmanager
def inbox(
    connection: Connection, record: InboxRecord, *, receiver: str = "default", table: str = _TABLE
) -> Iterator[bool]:
    """Whether a record is new; it is noted in the caller's transaction, together with what it brings about.

    Two processes that have the same record wait for each other: the second finds it noted, or, if the first rolls back,
    new. If the body raises, the note is gone with the transaction, provided that the caller rolls it back.

    A record goes by `ce_id` with `ce_source`, else by the `id` of an outbox, else by topic, partition and offset.

    Args:
        connection: a connection of psycopg, a `Connection` or `Session` of SQLAlchemy, in a transaction; to PostgreSQL.
        record: which.
        receiver: a name; each receiver that shares the table counts for itself.
        table: of the inbox; see `create_inbox`. Old rows may be deleted once no record can come again.

    Raises:
        ConfigError: `NO_TRANSACTION`: the connection commits each statement by itself.

    Example:
        >>> with psycopg.connect(dsn) as connection, inbox(connection, record) as new:  # doctest: +SKIP
        ...     if new:
        ...         connection.execute("UPDATE stock SET amount = amount - 1 WHERE item = 'book'")
    """
    check_name(table)
    check_transaction(connection)
    result = execute(
        connection,
        f"INSERT INTO {table} (receiver, event_id) VALUES (:receiver, :event_id) ON CONFLICT DO NOTHING",
        {"receiver": receiver, "event_id": record_id(record)},
    )
    yield bool(result.rowcount)


def record_id(record: InboxRecord) -> str:
    """By what a record is recognized.

    Raises:
        ConfigError: `INVALID_RECORD`: it has no place and no id.
    """
    headers: dict[str, Any] = dict(record.headers or ())
    for names in (("ce_source", "ce_id"), ("id",)):
        values = [headers.get(name) for name in names]
        if values[-1]:
            return "/".join(value.decode() if isinstance(value, bytes) else str(value or "") for value in values)
    try:
        return f"{record.topic}-{record.partition}@{record.offset}"
    except AttributeError as error:
        raise ConfigError(
            "INVALID_RECORD", f"{record!r:.200} has no id among its headers, and no topic, partition and offset"
        ) from error
