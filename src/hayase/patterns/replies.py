"""Replies to commands."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Status = Literal["accepted", "rejected", "conflict", "failed", "invalid"]


class EventPosition(NamedTuple):
    """A position in the partition of the events: everything that the reply is about lies before it.

    Attributes:
        topic: of the events.
        partition: of the topic.
        offset: behind the last event.
        topic_id: which topic of that name it is: one that is made again has another id. Empty in positions of earlier
            versions, which go by the name alone.
    """

    topic: str
    partition: int
    offset: int
    topic_id: str = ""


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The reply to a command.

    Attributes:
        status: `accepted`; `rejected` by `decide`; `conflict`: the aggregate has another version than was expected;
            `failed`: `decide`, `evolve` or a reaction raised; `invalid`: it is no command of this aggregate. Only
            `accepted` has recorded anything.
        aggregate: the name of the aggregate.
        aggregate_id: which one.
        command_id: of the command.
        command_type: of the command; empty if it is not known.
        version: of the aggregate after the command, how many events it has.
        events: how many events the command recorded.
        reason: why not, for a person; empty if accepted.
        code: why it is invalid, for programs: `UNKNOWN_TYPE`, `WRONG_AGGREGATE`, `TOO_LARGE`, `MALFORMED`,
            `INVALID_ATTRIBUTE`.
        request_digest: of the request that the command came by; a repeat gets that of the first.
        position: where its events are; filled in by the client that received an accepted reply.
    """

    status: Status
    aggregate: str
    aggregate_id: str
    command_id: str
    command_type: str = ""
    version: int = 0
    events: int = 0
    reason: str = ""
    code: str = ""
    request_digest: str = ""
    position: EventPosition | None = None

    @property
    def accepted(self) -> bool:
        """Whether the command was accepted; its events, if there are any, are recorded."""
        return self.status == "accepted"

    @property
    def versions(self) -> range:
        """The versions of the events that the command recorded."""
        return range(self.version - self.events + 1, self.version + 1)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Reply)


def encode_reply(reply: Reply) -> bytes:
    """The JSON of a reply."""
    return _ENCODER.encode(reply)


def decode_reply(data: bytes) -> Reply:
    """The reply of JSON; raises `msgspec.MsgspecError`."""
    return _DECODER.decode(data)
