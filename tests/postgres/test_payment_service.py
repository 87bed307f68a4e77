"""The payment service of the shop: what it does once, however often and in which order it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from hayase.cli.load import load_file
from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

FILE = Path(__file__).resolve().parents[2] / "examples" / "shop" / "payment_service.py"


@pytest.fixture
def service(postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("PAYMENTS_DATABASE", postgres_server.dsn(database))
    return load_file(FILE)


def ask(service: ModuleType, kind: str, command_id: str, body: dict[str, object], **more: str) -> None:
    event = {"subject": "17", "type": kind, "id": command_id, "correlationid": "visit", **more}
    service.settle({f"ce-{name}": value for name, value in event.items()}, json.dumps(body).encode())


def charge(service: ModuleType, command_id: str, card: str = "good") -> None:
    ask(service, "Charge", command_id, {"cents": 500, "card": card})


def rows(server: PostgresServer, database: str, sql: str) -> list[tuple[object, ...]]:
    with server.connect(database) as connection:
        return [tuple(row) for row in connection.execute(sql).fetchall()]


def replies(server: PostgresServer, database: str) -> dict[object, tuple[str, int]]:
    sql = "SELECT command_id, reply FROM command_inbox"
    found = {key: json.loads(str(text)) for key, text in rows(server, database, sql)}
    return {key: (reply["status"], reply.get("events", 0)) for key, reply in found.items()}


def test_a_repeated_command_counts_once_and_keeps_its_reply(
    service: ModuleType, postgres_server: PostgresServer, database: str
) -> None:
    for _ in range(3):
        charge(service, "c1")
    charge(service, "c2", card="stolen")
    assert rows(postgres_server, database, "SELECT * FROM payments") == [("17", 500)]
    kept = replies(postgres_server, database)
    assert kept == {"c1": ("accepted", 1), "c2": ("accepted", 1)}
    ask(service, "Refund", "u1", {}, undoes="c1")
    charge(service, "c1")  # it was undone
    assert rows(postgres_server, database, "SELECT * FROM payments") == [("17", 0)]
    assert replies(postgres_server, database) == {"c1": ("rejected", 0), "c2": ("accepted", 1), "u1": ("accepted", 1)}


def test_an_action_that_comes_after_its_undo_is_refused(
    service: ModuleType, postgres_server: PostgresServer, database: str
) -> None:
    ask(service, "Refund", "u1", {}, undoes="c1")
    charge(service, "c1")
    assert replies(postgres_server, database) == {"u1": ("accepted", 0), "c1": ("rejected", 0)}
    assert rows(postgres_server, database, "SELECT * FROM payments WHERE cents <> 0") == []
