"""Rows of the stores of an aggregate: its state, and where its events are."""

from __future__ import annotations

import struct
from typing import Any, Generic

import msgspec

from hayase.core.errors import SerializationError
from hayase.patterns.decider import S
from hayase.patterns.type_names import TypeNames
from hayase.serde import Serde


class AggregateState(msgspec.Struct, Generic[S], frozen=True):
    """The state of one aggregate.

    Attributes:
        id: of the aggregate.
        version: how many events it has; 0 before the first.
        state: after these events.
    """

    id: str
    version: int
    state: S


class _Row(msgspec.Struct):
    id: str
    version: int
    type: str
    state: msgspec.Raw


_ENCODE_ROW = msgspec.json.Encoder().encode
_DECODE_ROW = msgspec.json.Decoder(_Row).decode


class StateSerde(Serde[AggregateState[Any]]):
    """Rows of the store of states: JSON with `id`, `version`, `type` and `state`.

    The version of the states is part of the description by which a program is refused that cannot read them.
    """

    def __init__(self, states: TypeNames, state_version: int) -> None:
        self._states = states
        self._state_version = state_version

    def to_bytes(self, value: AggregateState[Any]) -> bytes:
        """See Serde."""
        name = self._states.name_of(value.state)
        data = self._states.seal(name, value.state, value.id)
        return _ENCODE_ROW(_Row(value.id, value.version, name, msgspec.Raw(data)))

    def from_bytes(self, data: bytes) -> AggregateState[Any]:
        """See Serde."""
        try:
            row = _DECODE_ROW(data)
        except msgspec.MsgspecError as error:
            raise SerializationError(
                "MALFORMED_VALUE", f"{data[:200]!r} is no state of an aggregate: {error}"
            ) from error
        return AggregateState(row.id, row.version, self._states.decode(row.type, bytes(row.state)))

    def description(self) -> dict[str, Any]:
        """What is compared when a program starts: another version of the states is another format."""
        state = {"type": "state", "format": f"a state of state_version {self._state_version}"}
        properties = {"id": {"type": "string"}, "version": {"type": "integer"}, "state": state}
        return {"serde": "JsonSerde", "schema": {"type": "object", "properties": properties}}


EVENT_VERSION_MAX = (1 << 63) - 1
"""More events than any aggregate has; keys of the index have 8 bytes for it."""


class EventKey(msgspec.Struct, frozen=True, gc=False):
    """The key of an event in the index: aggregate and version."""

    aggregate_id: str
    version: int


class EventKeySerde(Serde[EventKey]):
    """Keys of the index of events, ordered by aggregate and then by version."""

    def to_bytes(self, value: EventKey) -> bytes:
        """See Serde."""
        return value.aggregate_id.encode() + b"\0" + value.version.to_bytes(8, "big")

    def from_bytes(self, data: bytes) -> EventKey:
        """See Serde."""
        try:
            return EventKey(data[:-9].decode(), int.from_bytes(data[-8:], "big"))
        except UnicodeDecodeError as error:
            raise SerializationError("MALFORMED_VALUE", f"{data!r} is no key of an event") from error


class EventPlace(msgspec.Struct, frozen=True, gc=False):
    """Where an event is, and when it was recorded."""

    partition: int
    offset: int
    time_ms: int


_PLACE = struct.Struct(">iqq")


class EventPlaceSerde(Serde[EventPlace]):
    """Values of the index of events."""

    def to_bytes(self, value: EventPlace) -> bytes:
        """See Serde."""
        return _PLACE.pack(value.partition, value.offset, value.time_ms)

    def from_bytes(self, data: bytes) -> EventPlace:
        """See Serde."""
        try:
            return EventPlace(*_PLACE.unpack(data))
        except struct.error as error:
            raise SerializationError("MALFORMED_VALUE", f"{data!r} is no place of an event") from error


_TIME = struct.Struct(">q")


def stored_reply(time_ms: int, reply: bytes) -> bytes:
    """A reply as it is kept for repeats of its command."""
    return _TIME.pack(time_ms) + reply


def time_and_reply(data: bytes) -> tuple[int, bytes]:
    """What `stored_reply` put together."""
    return _TIME.unpack_from(data)[0], data[_TIME.size :]


def time_key(time_ms: int, rest: str) -> bytes:
    """A key that is ordered by time.

    Example:
        >>> time_and_rest(time_key(5, "a"))
        (5, 'a')
    """
    return time_ms.to_bytes(8, "big") + rest.encode()


def time_and_rest(data: bytes) -> tuple[int, str]:
    """What `time_key` put together."""
    return int.from_bytes(data[:8], "big"), data[8:].decode()
