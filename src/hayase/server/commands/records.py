"""The records of the command topic: commands, and how each one ended."""

from __future__ import annotations

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import LogError
from hayase.sql.functions.uses import FunctionUse

VERSION = 1


class TopicSeen(msgspec.Struct, frozen=True):
    """What a statement saw of a topic."""

    partitions: int | None
    replicas: int


class DoomedTopic(msgspec.Struct, frozen=True):
    """A topic that a command deletes: this one, and none that has its name later.

    Attributes:
        name: of the topic.
        topic_id: of the topic; `None`: it is not there.
        subjects: of the schema registry that go with it.
    """

    name: str
    topic_id: str | None
    subjects: list[str] = []


class Command(msgspec.Struct, frozen=True, tag="command", tag_field="record"):
    """A statement that was checked, with all that its execution asked of others.

    Attributes:
        number: of the record in the topic, from 0.
        sequence: of the command, from 0: `commandSequenceNumber`.
        id: `type/entity/action`.
        statement: its text, without variables.
        settings: those that count for it.
        topics: what it saw of topics, by name.
        columns: what it took from the schema registry, as InferredColumns keeps it.
        first_number: the number that the first new query gets.
        plans: digests of the plans of the queries that it starts, by the query's id.
        functions: the user's functions that the queries call which it starts, or lets go on with others (RESUME).
        queries: the ids that TERMINATE, PAUSE or RESUME mean.
        deletes: topics that it deletes.
        hayase: the version that wrote it.
        version: of this format.
    """

    number: int
    sequence: int
    id: str
    statement: str
    settings: dict[str, str | int | float | bool | None] = {}
    topics: dict[str, TopicSeen] = {}
    columns: dict[str, list[list[str]]] = {}
    first_number: int = 0
    plans: dict[str, str] = {}
    functions: dict[str, list[FunctionUse]] = {}
    queries: list[str] = []
    deletes: list[DoomedTopic] = []
    hayase: str = ""
    version: int = VERSION


class Outcome(msgspec.Struct, frozen=True, tag="outcome", tag_field="record"):
    """A command was carried out, or could not be: all its effects are there, or none counts.

    Attributes:
        number: of the record in the topic.
        sequence: of the command.
        failed: its effects were refused: it changes nothing.
        message: for people.
        query_id: of the query that it has started.
    """

    number: int
    sequence: int
    failed: bool
    message: str
    query_id: str | None = None


Record = Command | Outcome


def encoded(record: Record) -> bytes:
    """A record as JSON."""
    return msgspec.json.encode(record)


def decoded(data: bytes | None) -> Record:
    """A record of the command topic.

    Raises:
        LogError: `COMMANDS_DAMAGED`: it is none.
    """
    try:
        record: Record = decode_json(data or b"", as_type=Record)
    except msgspec.MsgspecError as error:
        raise damaged(f"a record of it is no command: {error}") from error
    if isinstance(record, Command) and record.version > VERSION:
        raise damaged(f"command {record.sequence} was written by a newer Hayase ({record.hayase})")
    return record


def damaged(why: str) -> LogError:
    """The error that puts a server in the state DEGRADED."""
    return LogError(
        "COMMANDS_DAMAGED",
        f"the command topic cannot be used: {why}. Statements that change something are refused until it is restored: "
        "stop the server, run `hayase server restore FILE` with a backup, and start it again",
    )
