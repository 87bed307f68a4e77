"""Commands as they arrive: read from records, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hayase.core.errors import SerializationError
from hayase.core.records import Headers, Record
from hayase.patterns import cloud_events
from hayase.patterns.reactions import AGGREGATE_ID_MAX_BYTES, AggregateCommand, check_aggregate_id
from hayase.patterns.type_names import TypeNames

ATTRIBUTE_MAX_BYTES = 20_000
"""Of a header of a command at most: replies and events have several of them, some twice."""
_SUBJECT, _REPLY_TOPIC, _REPLY_PARTITION, _EXPECTED_VERSION = map(
    cloud_events.header_of,
    (
        cloud_events.SUBJECT,
        cloud_events.REPLY_TOPIC,
        cloud_events.REPLY_PARTITION,
        cloud_events.EXPECTED_VERSION,
    ),
)
"""Headers that each command is asked for."""
_REPLY_TYPE = cloud_events.header(cloud_events.TYPE, "Reply")


class UnreadableCommandError(Exception):
    """A record without a readable id or key: there is no address for a reply, so it is a dead letter."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason


class InvalidCommandError(Exception):
    """A command that is none of this aggregate's; its sender is answered."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """What a command's record says beside the command: whom it is for, and what it belongs to.

    Attributes:
        aggregate_id: which aggregate it is for.
        command_id: of the command.
        type: of the command; empty if it is not said.
        headers: those of the record by name; see `attribute`.
        reply_partition: where its sender waits for the reply; -1: by the id of the command.
        correlation: what it belongs to, as a header has it: its own id, if it is the first of its kind.
        undoes: the id of the command that it takes back; empty if it is no undo.
        request_digest: of the request that the command came by; empty if it came by none.
    """

    aggregate_id: str
    command_id: str
    type: str
    headers: dict[str, bytes | None]
    reply_partition: int
    correlation: bytes
    undoes: str
    request_digest: str

    def attribute(self, name: str) -> str | None:
        """A CloudEvents attribute; `None` if it is not there."""
        return _text(self.headers, cloud_events.header_of(name))

    @property
    def correlation_id(self) -> str:
        """`correlation` as a text."""
        return self.correlation.decode()

    def expected_version(self) -> int | None:
        """The version that the aggregate must have; raises InvalidCommandError."""
        return _number(self.headers, _EXPECTED_VERSION)


def read_envelope(record: Record[bytes | None, bytes | None]) -> Envelope:
    """The envelope of a record.

    Raises:
        UnreadableCommandError: it has no id, or no key that is the id of an aggregate.
    """
    try:
        headers = cloud_events.attribute_values(record.headers)
    except UnicodeDecodeError as error:
        raise UnreadableCommandError("INVALID_HEADERS", f"a header is not UTF-8: {error}") from error
    if sum(map(len, filter(None, headers.values()))) > ATTRIBUTE_MAX_BYTES:
        _check_size(headers)
    command_id = (headers.get("ce_id") or b"").decode()
    if not command_id or "\0" in command_id:
        raise UnreadableCommandError("NO_COMMAND_ID", "the header ce_id is missing, empty, or has a NUL in it")
    try:
        aggregate_id = (record.key or b"").decode()
        check_aggregate_id(aggregate_id)
    except (UnicodeDecodeError, SerializationError) as error:
        raise UnreadableCommandError(
            "NO_AGGREGATE_ID",
            f"the key {record.key!r:.200} is no id of an aggregate: a text that is not empty, of "
            f"{AGGREGATE_ID_MAX_BYTES} bytes at most",
        ) from error
    try:
        partition = _number(headers, _REPLY_PARTITION)
    except InvalidCommandError:
        partition = None
    return envelope_of(aggregate_id, command_id, headers, -1 if partition is None else partition)


def envelope_of(
    aggregate_id: str, command_id: str, headers: dict[str, bytes | None], reply_partition: int = -1
) -> Envelope:
    """The envelope of a command with these headers, which are UTF-8."""
    undoes, digest = headers.get("ce_undoes"), headers.get("ce_requestdigest")
    return Envelope(
        aggregate_id,
        command_id,
        (headers.get("ce_type") or b"").decode(),
        headers,
        reply_partition,
        headers.get("ce_correlationid") or command_id.encode(),
        "" if undoes is None else undoes.decode(),
        "" if digest is None else digest.decode(),
    )


def read_command(envelope: Envelope, value: bytes | None, types: TypeNames, replies_topic: str, max_bytes: int) -> Any:
    """The command of a record.

    Raises:
        InvalidCommandError: with a code: see `Reply.code`.
    """
    headers = envelope.headers
    subject = _text(headers, _SUBJECT)
    if subject is not None and subject != envelope.aggregate_id:
        raise InvalidCommandError(
            "WRONG_AGGREGATE",
            f"its subject is {subject!r:.200}, and it was sent to {envelope.aggregate_id!r:.200} by its key",
        )
    reply_topic = _text(headers, _REPLY_TOPIC)
    if reply_topic is not None and reply_topic != replies_topic:
        raise InvalidCommandError(
            "INVALID_ATTRIBUTE", f"replies go to {replies_topic!r}, not to {reply_topic!r:.200} (ce_replytopic)"
        )
    if envelope.reply_partition < 0:  # else it is known to be a number
        _number(headers, _REPLY_PARTITION)
    if value is not None and len(value) > max_bytes:
        raise InvalidCommandError("TOO_LARGE", f"it has {len(value)} bytes; allowed are {max_bytes} (max_bytes)")
    if envelope.type not in types:
        raise InvalidCommandError(
            "UNKNOWN_TYPE", f"{envelope.type!r:.200} is no command; commands are {', '.join(types.types)} (ce_type)"
        )
    if value is None:
        raise InvalidCommandError("MALFORMED", "it has no value")
    try:
        return types.decode(envelope.type, value)
    except SerializationError as error:
        raise InvalidCommandError("MALFORMED", error.message) from error


def command_headers(
    command: AggregateCommand,
    command_id: str,
    source: str,
    time_ms: int,
    more: dict[str, str | int | None],
) -> Headers:
    """The headers of a command that is sent.

    Args:
        command: what is sent.
        command_id: its id.
        source: the sender.
        time_ms: when.
        more: further attributes.
    """
    return (
        *cloud_events.JSON_EVENT,
        ("ce_id", command_id.encode()),
        cloud_events.header(cloud_events.TYPE, command.type),
        cloud_events.header(cloud_events.SOURCE, source),
        ("ce_subject", command.aggregate_id.encode()),
        cloud_events.time_header(time_ms),
        *cloud_events.pairs(more),
    )


def reply_headers(envelope: Envelope, source: str, time_ms: int) -> Headers:
    """The headers of the reply to a command.

    Args:
        envelope: of the command.
        source: the aggregate or saga that replies.
        time_ms: when.
    """
    command_id = envelope.command_id.encode()
    return (
        *cloud_events.JSON_EVENT,
        ("ce_id", command_id),
        _REPLY_TYPE,
        cloud_events.header(cloud_events.SOURCE, source),
        ("ce_subject", envelope.aggregate_id.encode()),
        cloud_events.time_header(time_ms),
        ("ce_causationid", command_id),
        ("ce_correlationid", envelope.correlation),
    )


def check_command_id(command_id: str) -> None:
    """Refuse what cannot be the id of a command; raises SerializationError `INVALID_COMMAND_ID`."""
    if not isinstance(command_id, str) or not command_id or "\0" in command_id or not _fits(command_id):
        raise SerializationError(
            "INVALID_COMMAND_ID",
            f"{command_id!r:.200} cannot be the id of a command; give a text that is not empty, has no NUL in it, and "
            f"{ATTRIBUTE_MAX_BYTES} bytes at most",
        )


def check_attributes(attributes: Mapping[str, str | None]) -> None:
    """Refuse attributes that make a command a dead letter; raises SerializationError `INVALID_ATTRIBUTE`."""
    for name, value in attributes.items():
        if value is not None and not _fits(value):
            raise SerializationError(
                "INVALID_ATTRIBUTE",
                f"{name} is {value!r:.200}; allowed is a text of {ATTRIBUTE_MAX_BYTES} bytes in UTF-8 at most",
            )


def _fits(text: str) -> bool:
    try:
        return len(text.encode()) <= ATTRIBUTE_MAX_BYTES
    except UnicodeEncodeError:
        return False


def _check_size(headers: dict[str, bytes | None]) -> None:
    for name, value in headers.items():
        if value and len(value) > ATTRIBUTE_MAX_BYTES and name.startswith("ce_"):
            raise UnreadableCommandError(
                "INVALID_HEADERS", f"{name} has {len(value)} bytes; allowed are {ATTRIBUTE_MAX_BYTES}"
            )


def _text(headers: dict[str, bytes | None], header: str) -> str | None:
    value = headers.get(header)
    return None if value is None else value.decode()


def _number(headers: dict[str, bytes | None], header: str) -> int | None:
    value = headers.get(header)
    if value is None:
        return None
    text = value.decode()
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidCommandError("INVALID_ATTRIBUTE", f"{header} is {text!r:.200}; it is a whole number from 0 on")
    return int(text)
