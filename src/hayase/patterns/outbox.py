"""The transactional outbox: events that a service's own transaction records, captured from PostgreSQL in commit order.

`publish` writes an event inside the caller's transaction, so it is rolled back or committed with it. A
`PostgresConnector` with the transform `EventRouter` brings events to topics; `table_connector` and `message_connector`
give its configuration. There are two forms:

* a **table** with the columns that Debezium's `EventRouter` expects: `publish`. The row is inserted and deleted in one
  transaction, so the table stays empty while the change is captured;
* **messages** in the write-ahead log, by `pg_logical_emit_message`, without a table: `emit`.
"""

from __future__ import annotations

import inspect
import json
import re
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from hayase.core.errors import ConfigError, SerializationError
from hayase.patterns.personal_data import has_fields, personal_fields
from hayase.patterns.read_models.targets import check_name
from hayase.serde import Serdes
from hayase.serde.pydantic_models import is_model

MESSAGE_PREFIX = "hayase-outbox"
"""Prefix of messages in the write-ahead log."""
PUBLICATION = "hayase_outbox"
"""A publication of no table: messages need one, and one of all tables would refuse updates of those without a key."""
_TABLE = "outbox"
_ORIGIN = ("correlationid", "causationid")
"""Columns that Debezium does not have; what is not given is not written, so a table without them will do."""


class Connection(Protocol):
    """A connection of psycopg, or one or a session of SQLAlchemy."""

    def execute(self, statement: Any, parameters: Any = ...) -> Any:
        """Execute a statement."""
        ...


def create_table(connection: Connection, table: str = _TABLE) -> None:
    """Make the outbox table unless it is there: Debezium's columns, and two for what an event belongs to.

    An older table gets those two.

    Args:
        connection: to PostgreSQL.
        table: its name.
    """
    check_name(table)
    execute(
        connection,
        f"CREATE TABLE IF NOT EXISTS {table} (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, "
        "aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload text, correlationid text, "
        "causationid text)",
        {},
    )
    for column in _ORIGIN:
        execute(connection, f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} text", {})


def create_publication(connection: Connection) -> None:
    """Make the publication that captures messages alone, unless it is there; for `emit`.

    Args:
        connection: to PostgreSQL, of a user who may make publications.
    """
    there = execute(connection, "SELECT 1 FROM pg_publication WHERE pubname = :name", {"name": PUBLICATION})
    if there.fetchone() is None:
        execute(connection, f"CREATE PUBLICATION {PUBLICATION}", {})


def publish(
    connection: Connection,
    topic: str,
    key: str,
    event: object,
    *,
    event_type: str | None = None,
    event_id: str | None = None,
    correlation_id: str | None = None,
    causation_id: str | None = None,
    table: str = _TABLE,
) -> str:
    """Record an event in the outbox table, inside the caller's transaction.

    Nothing is seen of it if the transaction is rolled back. Events of one key come in the order in which their
    transactions commit, those of one transaction in the order of the calls.

    Args:
        connection: a connection of psycopg, a `Connection` or `Session` of SQLAlchemy; in a transaction.
        topic: where the event goes.
        key: of the record; what it is about.
        event: a dataclass, `msgspec.Struct`, Pydantic model, mapping, text or JSON as bytes.
        event_type: its name; default: that of its class.
        event_id: by which receivers count it once; default: a new UUID.
        correlation_id: what the event belongs to, by which `hayase trace` finds it.
        causation_id: what caused it: the id of the command that it answers.
        table: of the outbox.

    Returns:
        The id of the event.

    Raises:
        ConfigError: `NO_TRANSACTION`: the connection commits each statement by itself; `ASYNC_CONNECTION`.
        SerializationError: `INVALID_EVENT`: also an event with personal fields, which nothing here encrypts.

    Example:
        >>> with psycopg.connect(dsn) as connection:  # doctest: +SKIP
        ...     connection.execute("UPDATE accounts SET cents = cents - 5 WHERE id = 'a'")
        ...     outbox.publish(connection, "payments", "17", Captured(cents=5))
    """
    check_name(table)
    check_transaction(connection)
    values = _values(topic, key, event, event_type, event_id) | _origin(correlation_id, causation_id)
    others = [column for column in values if column != "id"]
    execute(
        connection,
        f"INSERT INTO {table} (id, {', '.join(others)}) "
        f"VALUES (CAST(:id AS uuid), {', '.join(f':{column}' for column in others)})",
        values,
    )
    execute(connection, f"DELETE FROM {table} WHERE id = CAST(:id AS uuid)", {"id": values["id"]})
    return values["id"]


def emit(
    connection: Connection,
    topic: str,
    key: str,
    event: object,
    *,
    event_type: str | None = None,
    event_id: str | None = None,
    correlation_id: str | None = None,
    causation_id: str | None = None,
    prefix: str = MESSAGE_PREFIX,
) -> str:
    """Record an event in the write-ahead log, without a table, inside the caller's transaction; as `publish`.

    Args:
        connection: a connection of psycopg, a `Connection` or `Session` of SQLAlchemy; in a transaction.
        topic: where the event goes.
        key: of the record; what it is about.
        event: a dataclass, `msgspec.Struct`, Pydantic model, mapping, text or JSON as bytes.
        event_type: its name; default: that of its class.
        event_id: by which receivers count it once; default: a new UUID.
        correlation_id: what the event belongs to, by which `hayase trace` finds it.
        causation_id: what caused it: the id of the command that it answers.
        prefix: of the messages.

    Returns:
        The id of the event.

    Raises:
        ConfigError: `NO_TRANSACTION`: the connection commits each statement by itself; `ASYNC_CONNECTION`.
        SerializationError: `INVALID_EVENT`: also an event with personal fields, which nothing here encrypts.
    """
    check_transaction(connection)
    values = _values(topic, key, event, event_type, event_id) | _origin(correlation_id, causation_id)
    content = json.dumps(values, ensure_ascii=False)
    execute(
        connection,
        "SELECT pg_logical_emit_message(true, CAST(:prefix AS text), CAST(:content AS text))",
        {"prefix": prefix, "content": content},
    )
    return values["id"]


def table_connector(database: Mapping[str, str], *, table: str = _TABLE, schema: str = "public") -> dict[str, str]:
    """The configuration of a connector that brings events of the table to their topics.

    Args:
        database: `database.hostname`, `database.dbname` and so on, `slot.name`, `topic.prefix`.
        table: of the outbox.
        schema: of the table.
    """
    return {
        "connector.class": "PostgresConnector",
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        "table.include.list": f"{schema}.{check_name(table)}",
        "message.prefix.exclude.list": ".*",
        "tombstones.on.delete": "false",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.route.topic.replacement": "${routedByValue}",
        "transforms.outbox.table.fields.additional.placement": (
            "id:header:ce_id,aggregateid:header:ce_subject,type:header:ce_type,"
            "correlationid:header:ce_correlationid,causationid:header:ce_causationid"
        ),
        "transforms.outbox.table.fields.additional.error.on.missing": "false",  # tables of Debezium's columns alone
        **_CONVERTERS,
        **database,
    }


def message_connector(database: Mapping[str, str], *, prefix: str = MESSAGE_PREFIX) -> dict[str, str]:
    """The configuration of a connector that brings events of messages to their topics; for `emit`.

    It needs `create_publication`, and PostgreSQL 14 or newer.

    Args:
        database: `database.hostname`, `database.dbname` and so on, `slot.name`, `topic.prefix`.
        prefix: of the messages.
    """
    return {
        "connector.class": "PostgresConnector",
        "plugin.name": "pgoutput",
        "publication.name": PUBLICATION,
        "publication.autocreate.mode": "disabled",
        "snapshot.mode": "no_data",
        "table.include.list": "hayase_no_schema[.]no_table",  # messages alone
        "message.prefix.include.list": re.escape(prefix),
        "transforms": "outbox",
        "transforms.outbox.type": "hayase.connect.transforms.OutboxMessage",
        "transforms.outbox.prefix": prefix,
        **_CONVERTERS,
        **database,
    }


_CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "header.converter": "org.apache.kafka.connect.storage.StringConverter",
}


def _values(topic: str, key: str, event: object, event_type: str | None, event_id: str | None) -> dict[str, str]:
    for what, value in (("topic", topic), ("key", key)):
        if not isinstance(value, str) or not value or "\0" in value or len(value) > 255:
            raise SerializationError(
                "INVALID_EVENT", f"the {what} of an event is {value!r:.200}; give a text of 1 to 255 characters"
            )
    if event_id is not None:
        try:
            event_id = str(uuid.UUID(event_id))
        except ValueError as error:
            raise SerializationError(
                "INVALID_EVENT", f"the id of an event is {event_id!r:.200}; give a UUID"
            ) from error
    return {
        "id": event_id or str(uuid.uuid4()),
        "aggregatetype": topic,
        "aggregateid": key,
        "type": event_type or type(event).__name__,
        "payload": _payload(event),
    }


def _origin(correlation_id: str | None, causation_id: str | None) -> dict[str, str]:
    given = zip(_ORIGIN, (correlation_id, causation_id), strict=True)
    return {column: value for column, value in given if value is not None}


def _payload(event: object) -> str:
    if isinstance(event, bytes):
        return event.decode()
    if isinstance(event, str):
        return event
    if isinstance(event, type) or not (has_fields(type(event)) or isinstance(event, Mapping)):
        raise SerializationError(
            "INVALID_EVENT",
            f"{event!r:.200} cannot be an event; give a dataclass, Struct, Pydantic model, mapping, text or bytes",
        )
    event_type: Any = type(event)
    if names := _personal_names(event_type):
        raise SerializationError(
            "INVALID_EVENT",
            f"{event_type.__name__} has personal fields, {', '.join(names)}: an outbox has no keys to encrypt them. "
            "Give an event without them, or what your own keys have encrypted, as a text",
        )
    try:
        if is_model(type(event)):
            return Serdes.json(type(event)).to_bytes(event).decode()
        return msgspec.json.encode(event).decode()
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise SerializationError("INVALID_EVENT", f"{event!r:.200} cannot be written as JSON: {error}") from error


@lru_cache(maxsize=256)
def _personal_names(event_type: type) -> tuple[str, ...]:
    return tuple(personal_fields(event_type)) if has_fields(event_type) else ()


def is_sqlalchemy(connection: object) -> bool:
    """Whether it is a connection or session of SQLAlchemy, without importing that."""
    return any(base.__module__.partition(".")[0] == "sqlalchemy" for base in type(connection).__mro__)


def check_transaction(connection: object) -> None:
    """Refuse a connection that commits each statement by itself; raises ConfigError `NO_TRANSACTION`.

    Also one of asyncio, whose statements would not be executed: `ASYNC_CONNECTION`.
    """
    _check_not_async(connection)
    driver: Any = connection
    if is_sqlalchemy(connection):
        driver = _connection_of(connection).connection.dbapi_connection  # whose mode SQLAlchemy sets
    if bool(getattr(driver, "autocommit", False)) and not _in_transaction(driver):
        raise ConfigError(
            "NO_TRANSACTION",
            "the connection commits each statement by itself, so the event would be seen whatever becomes of the rest; "
            "call it in a transaction: `with connection.transaction():`, or a connection without autocommit",
        )


def _check_not_async(connection: object) -> None:
    if inspect.iscoroutinefunction(getattr(connection, "execute", None)):
        raise ConfigError(
            "ASYNC_CONNECTION",
            f"{type(connection).__name__} is of asyncio, and nothing here awaits it, so nothing would be written. Give "
            "a connection without it; with SQLAlchemy: await session.run_sync(lambda sync: outbox.publish(sync, …))",
        )


def _in_transaction(connection: object) -> bool:
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    return getattr(status, "name", "IDLE") != "IDLE"


def execute(connection: Connection, statement: str, values: Mapping[str, str]) -> Any:
    """Execute a statement with `:name` parameters, as the driver psycopg takes them.

    A connection of SQLAlchemy passes it on to its driver.
    """
    _check_not_async(connection)
    statement = re.sub(r":(\w+)", r"%(\1)s", statement)
    if not is_sqlalchemy(connection):
        return connection.execute(statement, dict(values))
    return _connection_of(connection).exec_driver_sql(statement, dict(values))


def _connection_of(given: Any) -> Any:
    """The `Connection` of SQLAlchemy that a session uses, or that was given."""
    return given if hasattr(given, "exec_driver_sql") else given.connection()
