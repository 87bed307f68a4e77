"""Values on their way from the processors of aggregates and sagas to topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from hayase.core.errors import SerializationError
from hayase.core.records import Headers
from hayase.patterns.command_reading import Envelope
from hayase.patterns.type_names import Kind
from hayase.serde import Serde

MAX_BYTES = 900_000
"""The size of a command or an event at most, unless an aggregate says otherwise: with its headers, topics take it."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A value on its way to a topic.

    Attributes:
        data: its bytes.
        partition: of a reply, where its sender waits; -1: that of the key.
        topic: where a command goes; sinks of other values have one of their own.
    """

    data: bytes
    partition: int = -1
    topic: str = ""


class OutgoingSerde(Serde[Outgoing]):
    """Writes the bytes of outgoing values as they are."""

    def to_bytes(self, value: Outgoing) -> bytes:
        """See Serde."""
        return value.data

    def from_bytes(self, data: bytes) -> Outgoing:
        """See Serde."""
        return Outgoing(data)


def check_size(kind: Kind, name: str, data: bytes, max_bytes: int | None = None) -> None:
    """Refuse a command or an event that its topic would refuse: it would stop the partition.

    Args:
        kind: of what it is.
        name: of its type.
        data: its bytes.
        max_bytes: how large it may be, where an aggregate says it; default: `MAX_BYTES`.

    Raises:
        SerializationError: `TOO_LARGE`.
    """
    if len(data) > (MAX_BYTES if max_bytes is None else max_bytes):
        allowed = MAX_BYTES if max_bytes is None else f"{max_bytes} (max_bytes)"
        raise SerializationError("TOO_LARGE", f"the {kind} {name} has {len(data)} bytes; allowed are {allowed}")


def reply_partition(topic: str, key: bytes, value: Outgoing, partitions: int) -> int | None:
    """The partition in which the sender of a command waits; that of the key if it has named none."""
    return None if value.partition < 0 else value.partition % partitions


class Answered(Protocol):
    """A sender of commands in the topology of the aggregate, which gets answers without a detour through topics."""

    @property
    def commands_topic(self) -> str:
        """Where answers go."""
        ...

    def answers(
        self, command: Envelope, source: str, events: Sequence[tuple[str, str]], reply: bytes
    ) -> Iterator[tuple[bytes, bytes, Headers]]:
        """Key, value and headers of the answers to a command, in the order of what happened.

        Args:
            command: any command of the aggregate; those of other senders get none.
            source: the aggregate.
            events: ids and types of those that it caused.
            reply: to it.
        """
        ...
