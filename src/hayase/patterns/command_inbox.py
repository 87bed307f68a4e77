"""`CommandInbox`: commands for a service with a PostgreSQL of its own, answered as an aggregate answers them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

import msgspec

from hayase.core.errors import SerializationError
from hayase.patterns import cloud_events, outbox
from hayase.patterns.command_reading import Envelope, InvalidCommandError, envelope_of, read_command
from hayase.patterns.decider import C, Rejected
from hayase.patterns.outbox import Connection, check_transaction, execute
from hayase.patterns.outgoing import MAX_BYTES
from hayase.patterns.reactions import CommandTarget, check_aggregate_id
from hayase.patterns.read_models.targets import check_name
from hayase.patterns.reasons import shortened
from hayase.patterns.replies import Reply, decode_reply, encode_reply
from hayase.patterns.undone_commands import UNDONE, refusal_of_undone

_TABLE = "command_inbox"
_AGGREGATE_ID_MAX, _COMMAND_ID_MAX_BYTES = 255, 1_000
"""What a column of the outbox holds, and what fits into the table's primary key, whose rows are 2.7 KB at most."""

Decide = Callable[[C], Sequence[object] | Rejected | None]
"""Changes the tables of the service, and gives the events that happened: none if there was nothing to do."""


class CommandInbox(Generic[C]):
    """Answers commands in the transaction of their effect, with the rules of an aggregate.

    An id counts once, and a repeat gets the reply that is kept. An undo (`ce-undoes`) closes its action: an action that
    arrives later is refused, and an undo of nothing succeeds. Events go to `<name>-events` and replies to
    `<name>-replies`, by the outbox.

    Args:
        target: the service, as the senders of its commands know it.
        table: of the replies that are kept. Old rows may be deleted once no command can come again.

    Example:
        >>> payments = CommandInbox(CommandTarget("payment", [Charge, Refund]))  # doctest: +SKIP
        >>> with psycopg.connect(dsn) as connection:  # doctest: +SKIP
        ...     payments.answer(connection, request.headers, body, partial(settle, connection))
    """

    def __init__(self, target: CommandTarget[C], *, table: str = _TABLE) -> None:
        self._target = target
        self._table = check_name(table)

    def create_tables(self, connection: Connection) -> None:
        """Make the table of replies and that of the outbox, unless they are there."""
        execute(
            connection,
            f"CREATE TABLE IF NOT EXISTS {self._table} (aggregate text, aggregate_id text, command_id text, "
            "reply text NOT NULL, received timestamptz NOT NULL DEFAULT now(), "
            "PRIMARY KEY (aggregate, aggregate_id, command_id))",
            {},
        )
        outbox.create_table(connection)

    def answer(self, connection: Connection, headers: Mapping[str, str], body: bytes, decide: Decide[C]) -> Reply:
        """Take one command: decide, record events and reply; nothing of it if the transaction is rolled back.

        Args:
            connection: a connection of psycopg, a `Connection` or `Session` of SQLAlchemy; in a transaction.
            headers: of the request: a CloudEvent in binary mode, as the HTTP sink sends it with `cloudevents=true`.
            body: of the request.
            decide: called with the command, unless it has been answered; what it raises rolls all of it back.

        Raises:
            ConfigError: `NO_TRANSACTION`: the connection commits each statement by itself.
            SerializationError: `NOT_A_COMMAND`: the headers do not say for whom it is, its id or its type, or say it
                in a way that PostgreSQL cannot keep. The same request is refused again, so answer it with 400.
        """
        check_transaction(connection)
        envelope = _envelope(headers)
        lock = f"{self._target.name}/{envelope.aggregate_id}"  # one command of an aggregate at a time
        execute(connection, "SELECT pg_advisory_xact_lock(hashtextextended(:lock, 0))", {"lock": lock})
        origin = {"correlation_id": envelope.correlation_id, "causation_id": envelope.command_id}
        reply = self._kept(connection, envelope, envelope.command_id)
        if reply is None:
            reply, events = self._decided(connection, envelope, body, decide)
            for event in events:
                outbox.publish(connection, self._target.events_topic, envelope.aggregate_id, event, **origin)
            self._keep(connection, envelope, reply)
        topic = self._target.replies_topic
        outbox.publish(connection, topic, envelope.aggregate_id, encode_reply(reply), event_type="Reply", **origin)
        return reply

    def _decided(
        self, connection: Connection, envelope: Envelope, body: bytes, decide: Decide[C]
    ) -> tuple[Reply, Sequence[object]]:
        made = Reply(
            status="accepted",
            aggregate=self._target.name,
            aggregate_id=envelope.aggregate_id,
            command_id=envelope.command_id,
            command_type=envelope.type,
            request_digest=envelope.request_digest,
        )
        undone = self._kept(connection, envelope, envelope.undoes) if envelope.undoes else None
        if undone is not None and undone.code == UNDONE:
            return made, ()
        types, topic = self._target.command_types, self._target.replies_topic
        try:
            command = read_command(envelope, body, types, topic, MAX_BYTES)
        except InvalidCommandError as error:
            return msgspec.structs.replace(made, status="invalid", reason=error.reason, code=error.code), ()
        decided = decide(command)
        if not isinstance(decided, Rejected):
            return msgspec.structs.replace(made, events=len(decided or ())), decided or ()
        if envelope.undoes and (undone is None or not undone.accepted):
            return made, ()  # there is nothing to undo
        return msgspec.structs.replace(made, status="rejected", reason=shortened(decided.reason)), ()

    def _keep(self, connection: Connection, envelope: Envelope, reply: Reply) -> None:
        if reply.status == "invalid":  # a repeat is tried again
            return
        replies = [reply]
        if envelope.undoes and reply.accepted:
            replies.append(refusal_of_undone(self._target.name, envelope, 0))
        for each in replies:
            execute(
                connection,
                f"INSERT INTO {self._table} (aggregate, aggregate_id, command_id, reply) "
                "VALUES (:aggregate, :aggregate_id, :command_id, :reply) "
                "ON CONFLICT (aggregate, aggregate_id, command_id) DO UPDATE SET reply = excluded.reply",
                {**self._key(envelope, each.command_id), "reply": encode_reply(each).decode()},
            )

    def _kept(self, connection: Connection, envelope: Envelope, command_id: str) -> Reply | None:
        found = execute(
            connection,
            f"SELECT reply FROM {self._table} WHERE aggregate = :aggregate AND aggregate_id = :aggregate_id "
            "AND command_id = :command_id",
            self._key(envelope, command_id),
        ).fetchone()
        return None if found is None else decode_reply(str(found[0]).encode())

    def _key(self, envelope: Envelope, command_id: str) -> dict[str, str]:
        return {"aggregate": self._target.name, "aggregate_id": envelope.aggregate_id, "command_id": command_id}


def _envelope(headers: Mapping[str, str]) -> Envelope:
    lower = {name.lower(): value for name, value in headers.items()}
    attributes: dict[str, Any] = {
        name.removeprefix("ce-"): urllib.parse.unquote(value) for name, value in lower.items() if name.startswith("ce-")
    }
    missing = [
        f"ce-{name}" for name in (cloud_events.SUBJECT, cloud_events.ID, cloud_events.TYPE) if not attributes.get(name)
    ]
    if missing:
        raise SerializationError(
            "NOT_A_COMMAND",
            f"the request has no {', '.join(missing)}; a command is a CloudEvent in binary mode, as HttpSink sends it "
            "with cloudevents=true",
        )
    _check_kept(attributes)
    check_aggregate_id(attributes[cloud_events.SUBJECT])
    subject, command_id = attributes[cloud_events.SUBJECT], attributes[cloud_events.ID]
    as_headers: dict[str, bytes | None] = {
        cloud_events.header_of(name): value.encode() for name, value in attributes.items()
    }
    return envelope_of(subject, command_id, as_headers)


def _check_kept(attributes: Mapping[str, str]) -> None:
    """Refuse what PostgreSQL cannot keep, before anything is done: a sender would repeat it without end."""
    nul = sorted(f"ce-{name}" for name, value in attributes.items() if "\0" in value)
    if nul:
        raise SerializationError("NOT_A_COMMAND", f"{', '.join(nul)} has a NUL in it, which PostgreSQL cannot keep")
    if len(attributes[cloud_events.SUBJECT]) > _AGGREGATE_ID_MAX:
        raise SerializationError("NOT_A_COMMAND", f"ce-subject has more than {_AGGREGATE_ID_MAX} characters")
    for name in (cloud_events.ID, cloud_events.UNDOES):
        if len(attributes.get(name, "").encode()) > _COMMAND_ID_MAX_BYTES:
            raise SerializationError("NOT_A_COMMAND", f"ce-{name} has more than {_COMMAND_ID_MAX_BYTES} bytes in UTF-8")
