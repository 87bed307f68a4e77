"""The blocks of docs/patterns.md that need a PostgreSQL run, too: outbox, inbox, command inbox."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from hayase.core.records import SourceRecord
from hayase.patterns import CommandInbox, CommandTarget, inbox, outbox
from hayase.patterns.inbox_records import create_inbox
from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

PAGE = Path(__file__).resolve().parents[2] / "docs" / "patterns.md"


@dataclass
class Captured:
    cents: int


@dataclass
class Charge:
    cents: int


@dataclass
class Refund:
    cents: int


def block_with(text: str) -> str:
    """The block of the page, marked text, that has it."""
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (found,) = (block for block in blocks if text in block)
    return str(found)


def run(text: str, dsn: str, **names: Any) -> dict[str, Any]:
    namespace = {"psycopg": psycopg, "dsn": dsn, **names}
    exec(compile(block_with(text), str(PAGE), "exec"), namespace)
    return namespace


def test_the_blocks_of_outbox_and_inbox_do_what_they_say(postgres_server: PostgresServer, database: str) -> None:
    dsn, record = postgres_server.dsn(database), SourceRecord("t", 0, 7, 1, b"k", b"v", ())
    with postgres_server.connect(database) as connection:
        outbox.create_table(connection)
        create_inbox(connection)
        connection.execute("CREATE TABLE payments (id text, captured int)")
        connection.execute("INSERT INTO payments VALUES ('17', 0)")
        connection.execute("CREATE TABLE stock (item text, amount int)")
        connection.execute("INSERT INTO stock VALUES ('book', 5)")
        run("outbox.publish(connection", dsn, outbox=outbox, Captured=Captured)
        for _ in range(2):
            run("inbox(connection, record)", dsn, inbox=inbox, record=record)
        assert connection.execute("SELECT captured FROM payments").fetchall() == [(1250,)]
        assert connection.execute("SELECT amount FROM stock").fetchall() == [(4,)]


def test_the_block_of_the_command_inbox_answers_a_command(postgres_server: PostgresServer, database: str) -> None:
    target = CommandTarget[Any]("payment", [Charge, Refund])
    with postgres_server.connect(database) as connection:
        CommandInbox(target).create_tables(connection)
    headers = {"ce-id": "c1", "ce-type": "Charge", "ce-subject": "17"}
    names = run(
        "payments.answer(",
        postgres_server.dsn(database),
        CommandInbox=CommandInbox,
        CommandTarget=CommandTarget,
        Charge=Charge,
        Refund=Refund,
        request=SimpleNamespace(headers=headers),
        body=b'{"cents": 5}',
        decide=lambda command: [Captured(command.cents)],
    )
    assert (names["reply"].status, names["reply"].events) == ("accepted", 1)
