"""Commands for a service with a PostgreSQL of its own: answered as an aggregate answers them, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from hayase.core.errors import ConfigError, SerializationError
from hayase.patterns import CommandInbox, CommandTarget, Rejected, Reply
from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


@dataclass
class Charge:
    cents: int


@dataclass
class Refund:
    pass


@dataclass
class Captured:
    cents: int


class Payments:
    """A service whose outbox keeps what it publishes, so that it can be looked at."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.inbox = CommandInbox[Charge | Refund](CommandTarget("payment", [Charge, Refund]))
        self.decided = 0
        with connection.transaction():
            self.inbox.create_tables(connection)
            connection.execute("CREATE TABLE sent (topic text, type text, causationid text)")
            connection.execute(
                "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "INSERT INTO sent VALUES (NEW.aggregatetype, NEW.type, NEW.causationid); RETURN NEW; END $$"
            )
            connection.execute("CREATE TRIGGER keep AFTER INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION keep()")

    def ask(self, kind: str, command_id: str, body: bytes = b"{}", **more: str) -> Reply:
        event = {"Ce-Subject": "gr%C3%BCn", "ce-type": kind, "ce-id": command_id}
        headers = {**event, **{f"ce-{name}": value for name, value in more.items()}}
        if "ce-subject" in headers:
            del headers["Ce-Subject"]
        with self.connection.transaction():
            return self.inbox.answer(self.connection, headers, body, self._decide)

    def _decide(self, command: Charge | Refund) -> list[object] | Rejected:
        self.decided += 1
        if isinstance(command, Refund):
            return Rejected("nothing was paid")
        if command.cents == 13:
            raise RuntimeError("13 is unlucky")
        return [Captured(command.cents)] if command.cents else Rejected("nothing is to be paid")

    def sent(self) -> list[tuple[Any, ...]]:
        return self.connection.execute("SELECT topic, type, causationid FROM sent").fetchall()


@pytest.fixture
def payments(postgres_server: PostgresServer, database: str) -> Iterator[Payments]:
    with postgres_server.connect(database) as connection:
        yield Payments(connection)


def test_a_repeat_gets_the_reply_that_is_kept_and_records_nothing(payments: Payments) -> None:
    first = payments.ask("Charge", "c1", b'{"cents":5}')
    assert (first.status, first.events, first.aggregate_id) == ("accepted", 1, "grün")
    assert payments.ask("Charge", "c1", b'{"cents":7}') == first
    assert payments.ask("Charge", "c2", b'{"cents":0}').reason == "nothing is to be paid"
    assert payments.decided == 2
    reply = ("payment-replies", "Reply")
    assert payments.sent() == [("payment-events", "Captured", "c1"), (*reply, "c1"), (*reply, "c1"), (*reply, "c2")]


@pytest.mark.parametrize(
    "given",
    [
        {"command_id": "a%00b"},
        {"command_id": "c1", "undoes": "a%00b"},
        {"command_id": "c1", "correlationid": "a%00b"},
        {"command_id": "c" * 1_001},
        {"command_id": "c1", "undoes": "%C3%BC" * 501},
        {"command_id": "c1", "subject": "o" * 256},
    ],
)
def test_a_command_whose_ids_postgresql_cannot_keep_is_refused_in_words(
    payments: Payments, given: dict[str, str]
) -> None:
    with pytest.raises(SerializationError) as raised:
        payments.ask("Charge", given.pop("command_id"), b'{"cents":5}', **given)
    assert raised.value.condition == "NOT_A_COMMAND"
    assert payments.decided == 0 and payments.sent() == []


def test_the_longest_ids_that_are_taken_are_kept(payments: Payments) -> None:
    for _ in range(2):
        undo = payments.ask("Refund", "c" * 1_000, undoes="%C3%BC" * 500, subject="%F0%9F%9B%92" * 255)
        assert undo.status == "accepted"
    assert payments.decided == 1


def test_a_reply_says_which_request_it_answers_so_that_another_one_of_that_id_is_told_apart(payments: Payments) -> None:
    first = payments.ask("Charge", "c1", b'{"cents":5}', requestdigest="five")
    again = payments.ask("Charge", "c1", b'{"cents":7}', requestdigest="seven")
    assert (first.request_digest, again) == ("five", first)


def test_an_undo_of_nothing_succeeds_and_closes_its_action(payments: Payments) -> None:
    undo = payments.ask("Refund", "u1", undoes="c1")
    assert (undo.status, undo.events) == ("accepted", 0)
    late = payments.ask("Charge", "c1", b'{"cents":5}')
    assert (late.status, late.code) == ("rejected", "UNDONE")
    assert payments.ask("Refund", "u2", undoes="c1").status == "accepted"  # a second undo does nothing
    assert payments.decided == 1


def test_an_undo_that_is_refused_leaves_its_action_as_it_is(payments: Payments) -> None:
    payments.ask("Charge", "c1", b'{"cents":5}')
    assert payments.ask("Refund", "u1", undoes="c1").status == "rejected"
    assert payments.ask("Charge", "c1", b'{"cents":5}').status == "accepted"


def test_what_decide_raises_rolls_all_of_it_back_and_a_repeat_is_tried_again(payments: Payments) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="unlucky"):
            payments.ask("Charge", "c1", b'{"cents":13}')
    assert payments.sent() == []
    assert payments.ask("Charge", "c1", b'{"cents":5}').accepted


def test_a_command_that_is_none_of_the_service_is_answered_and_tried_again(payments: Payments) -> None:
    assert payments.ask("Sing", "c1").code == "UNKNOWN_TYPE"
    assert payments.ask("Charge", "c1", b'{"cents":"many"}').code == "MALFORMED"
    assert payments.ask("Charge", "c1", b'{"cents":5}').accepted


def test_a_request_without_id_and_a_connection_without_transaction_are_refused(payments: Payments) -> None:
    with pytest.raises(SerializationError, match="the request has no ce-id"):
        payments.ask("Charge", "")
    with pytest.raises(ConfigError, match="commits each statement"):
        payments.inbox.answer(payments.connection, {}, b"", lambda _: None)
