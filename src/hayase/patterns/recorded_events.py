"""Events as they are recorded: read from the topic, brought up to date, and folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from hayase.core.errors import ProcessingError
from hayase.core.records import Headers, SourceRecord
from hayase.patterns import cloud_events
from hayase.patterns.reasons import reason_of
from hayase.patterns.state_rows import EVENT_VERSION_MAX, AggregateState
from hayase.patterns.type_names import TypeNames
from hayase.patterns.user_code import RAISED, failure_of

if TYPE_CHECKING:
    from hayase.patterns.subject_keys import SubjectKeys

Event_co = TypeVar("Event_co", covariant=True)
"""Type of events that are read."""
_VERSION_HEADER = cloud_events.header_of(cloud_events.VERSION)
Upcaster = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Takes the fields of an event of one version and gives those of the next."""


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type that the program does not have, as it was recorded."""

    type: str
    data: bytes


class RecordedEvent(msgspec.Struct, Generic[Event_co], frozen=True):
    """An event of an aggregate, and how it came about.

    Attributes:
        aggregate_id: of the aggregate that it happened to.
        version: its number there, from 1 on.
        type: under which it was recorded; the type of `event` may have another name now.
        event: the event, brought up to date; an `UnknownEvent` if the program does not have its type.
        time_ms: the wall clock of the epoch that recorded it, milliseconds since 1970.
        partition: of the topic.
        offset: in the partition.
        id: unique among the events of its source: aggregate and version.
        causation_id: of the command that caused it.
        correlation_id: of all that came of one first command.
        application: that decided.
        source: the sender of the command.
    """

    aggregate_id: str
    version: int
    type: str
    event: Event_co
    time_ms: int
    partition: int
    offset: int
    id: str
    causation_id: str
    correlation_id: str
    application: str
    source: str


class Recorded(Protocol):
    """What reading needs to know of an aggregate."""

    name: str
    event_types: TypeNames
    events_topic: str
    keys: SubjectKeys | None

    def upcast(self, event_type: str, data_version: int, data: bytes) -> bytes:
        """The JSON of an event as the current type has it."""
        ...

    def initial_state(self) -> Any:
        """The state before the first event."""
        ...

    def evolved(self, state: Any, event: Any) -> Any:
        """The state after an event."""
        ...

    skips_unknown_events: bool


def read_event(aggregate: Recorded, record: SourceRecord) -> RecordedEvent[Any]:
    """The event that a record of the topic is.

    Raises:
        ProcessingError: `EVENT_UNREADABLE`: it has another format, or its JSON does not fit its type.
    """
    try:
        attributes = cloud_events.attribute_values(record.headers)
        event_type, version = (attributes["ce_type"] or b"").decode(), int(attributes["ce_aggregateversion"] or b"")
        event: object
        if event_type in aggregate.event_types:
            data_version = int(attributes.get("ce_dataversion") or b"1")
            data = aggregate.upcast(event_type, data_version, record.value or b"null")
            event = aggregate.event_types.decode(event_type, data)
        else:
            event = UnknownEvent(event_type, record.value or b"")
        return RecordedEvent(
            (record.key or b"").decode(),
            version,
            event_type,
            event,
            record.timestamp_ms,
            record.partition,
            record.offset,
            (attributes.get("ce_id") or b"").decode(),
            (attributes.get("ce_causationid") or b"").decode(),
            (attributes.get("ce_correlationid") or b"").decode(),
            (attributes.get("ce_application") or b"").decode(),
            (attributes.get("ce_commandsource") or b"").decode(),
        )
    except Exception as error:  # also what an upcaster of the user raises
        raise ProcessingError(
            "EVENT_UNREADABLE",
            f"a record in the events of {aggregate.name!r} cannot be read: {reason_of(error)}. Give an upcaster for "
            "its type and version, or a type that reads it",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        ) from error


def read_recorded(aggregate: Recorded, record: SourceRecord) -> RecordedEvent[Any] | None:
    """The event that a record of the topic is; `None`: it is a record of others, without the headers of an event.

    Raises:
        ProcessingError: `EVENT_UNREADABLE`: its JSON does not fit its type.
    """
    try:
        return read_event(aggregate, record)
    except ProcessingError:
        if version_of(record.key, dict(record.headers)) is None:
            return None
        raise


def version_of(key: bytes | None, headers: Mapping[str, bytes | None]) -> int | None:
    """The version of the event that a record is; `None`: it is no event."""
    try:
        version = int(headers[_VERSION_HEADER] or b"")
        aggregate_id = (key or b"").decode()
    except (KeyError, ValueError):
        return None
    return version if aggregate_id and headers.get("ce_type") and 0 < version <= EVENT_VERSION_MAX else None


def evolved(aggregate: Recorded, before: AggregateState[Any], recorded: RecordedEvent[Any]) -> AggregateState[Any]:
    """The state after a recorded event.

    Raises:
        ProcessingError: `EVENT_NOT_EVOLVED`: `evolve` cannot take it; `UNKNOWN_EVENT_TYPE`, unless the aggregate skips
            events of types that it does not have; `EVENTS_NOT_CONSECUTIVE`.
    """
    if recorded.version != before.version + 1:
        raise _stopped(
            "EVENTS_NOT_CONSECUTIVE",
            f"version {recorded.version} follows version {before.version}: events are missing, or are there twice",
            recorded,
            aggregate,
        )
    if isinstance(recorded.event, UnknownEvent):
        if not aggregate.skips_unknown_events:
            raise _stopped(
                "UNKNOWN_EVENT_TYPE",
                f"the program has no event {recorded.type!r}; add it, name it in `renamed`, or have such events left "
                'out: unknown_events="skip"',
                recorded,
                aggregate,
            )
        return AggregateState(before.id, recorded.version, before.state)
    try:
        state = aggregate.evolved(before.state, recorded.event)
    except RAISED as error:  # evolve is the user's
        reason = reason_of(failure_of(error))
        raise _stopped(
            "EVENT_NOT_EVOLVED", f"evolve cannot take {recorded.type}: {reason}", recorded, aggregate
        ) from error
    return AggregateState(before.id, recorded.version, state)


def folded(aggregate: Recorded, aggregate_id: str, events: Iterable[RecordedEvent[Any]]) -> AggregateState[Any]:
    """The state after all events of one aggregate; raises as `evolved`."""
    state = AggregateState(aggregate_id, 0, aggregate.initial_state())
    for recorded in events:
        state = evolved(aggregate, state, recorded)
    return state


def event_headers(
    aggregate_id: str, version: int, event_type: str, data_version: int, now_ms: int, cause: Headers = ()
) -> Headers:
    """The headers of an event.

    Args:
        aggregate_id: what it happened to.
        version: its number there.
        event_type: its name.
        data_version: of its fields.
        now_ms: the wall clock of the epoch.
        cause: further headers: of the command, and of the application.
    """
    return (
        *cloud_events.JSON_EVENT,
        ("ce_id", f"{aggregate_id}/{version}".encode()),
        cloud_events.header(cloud_events.TYPE, event_type),
        ("ce_subject", aggregate_id.encode()),
        cloud_events.time_header(now_ms),
        ("ce_aggregateversion", b"%d" % version),
        cloud_events.data_version_header(data_version),
        *cause,
    )


def upcast(upcasters: Mapping[tuple[str, int], Upcaster], event_type: str, data_version: int, data: bytes) -> bytes:
    """The JSON of an event after all upcasters that apply to its type, version by version."""
    if (event_type, data_version) not in upcasters:
        return data
    fields: Mapping[str, Any] = msgspec.json.decode(data)
    while (upcaster := upcasters.get((event_type, data_version))) is not None:
        fields = upcaster(dict(fields))
        data_version += 1
    return msgspec.json.encode(fields)


def _stopped(condition: str, message: str, recorded: RecordedEvent[Any], aggregate: Recorded) -> ProcessingError:
    return ProcessingError(
        condition,
        message,
        aggregate=f"{aggregate.name} {recorded.aggregate_id}",
        version=recorded.version,
        topic=aggregate.events_topic,
        partition=recorded.partition,
        offset=recorded.offset,
    )
