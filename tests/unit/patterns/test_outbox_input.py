"""What an outbox and an inbox refuse before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import psycopg
import pytest

from hayase.core.errors import ConfigError, SerializationError
from hayase.core.records import SourceRecord
from hayase.patterns import Personal, create_inbox, inbox, outbox


class Recorded:
    """A connection that notes what it is given."""

    autocommit = False

    def __init__(self) -> None:
        self.statements: list[str] = []

    def execute(self, statement: Any, parameters: Any = ()) -> Any:
        self.statements.append(statement)


class OfAsyncio:
    autocommit = False

    async def execute(self, statement: Any, parameters: Any = ()) -> Any:
        raise AssertionError("it is never awaited")


@dataclass(frozen=True)
class Captured:
    cents: int


@dataclass(frozen=True)
class Registered:
    customer: str
    email: Annotated[str, Personal(subject="customer")]


RECORD = SourceRecord("payments", 0, 7, 0, b"17", b"{}", ())


@pytest.mark.parametrize("connection", [OfAsyncio(), psycopg.AsyncConnection.__new__(psycopg.AsyncConnection)])
def test_connections_of_asyncio_are_refused_since_nothing_would_be_written(connection: Any) -> None:
    with pytest.raises(ConfigError, match="ASYNC_CONNECTION"):
        outbox.publish(connection, "payments", "17", Captured(5))
    with pytest.raises(ConfigError, match="ASYNC_CONNECTION"):
        outbox.emit(connection, "payments", "17", Captured(5))
    with pytest.raises(ConfigError, match="ASYNC_CONNECTION"):
        outbox.create_table(connection)
    with pytest.raises(ConfigError, match="ASYNC_CONNECTION"):
        create_inbox(connection)
    with pytest.raises(ConfigError, match="ASYNC_CONNECTION"), inbox(connection, RECORD):
        pass


@pytest.mark.parametrize("record", [outbox.publish, outbox.emit])
def test_an_event_with_personal_fields_is_not_written_in_the_clear(record: Any) -> None:
    connection = Recorded()
    with pytest.raises(SerializationError, match="Registered has personal fields, email"):
        record(connection, "accounts", "17", Registered("ada", "ada@example.org"))
    assert connection.statements == []
    record(connection, "payments", "17", Captured(5))
    assert connection.statements
