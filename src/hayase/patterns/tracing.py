"""Everything that a correlation id caused: commands, events, replies of all services, found in topics, as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from hayase.core.errors import UnknownTopicError
from hayase.core.records import SourceRecord, TopicPartition
from hayase.log.protocol import Log
from hayase.patterns import cloud_events
from hayase.patterns.replies import decode_reply
from hayase.patterns.saga.answers import ANSWER

Kind = Literal["command", "event", "reply", "dead letter", "record"]

_KINDS: dict[str, Kind] = {
    "-commands": "command", "-events": "event", "-replies": "reply", "-dead-letters": "dead letter"
}  # fmt: skip


@dataclass(eq=False)
class Traced:
    """A record that belongs to a correlation id.

    Attributes:
        kind: what it is, by the name of its topic.
        time_ms: when, milliseconds since 1970.
        record: itself.
        attributes: its CloudEvents attributes.
        status: of a reply.
        reason: of a reply, or why it is a dead letter.
        children: what it caused, by time.
        parent: what caused it; `None` if that is not known.
    """

    kind: Kind
    time_ms: int
    record: SourceRecord
    attributes: dict[str, str]
    status: str = ""
    reason: str = ""
    children: list[Traced] = field(default_factory=list)
    parent: Traced | None = None

    @property
    def type(self) -> str:
        """The name of the type of the command or event; empty if the record has none."""
        return self.attributes.get(cloud_events.TYPE, "")

    @property
    def id(self) -> str:
        """The id of the command or event; empty if the record has none."""
        return self.attributes.get(cloud_events.ID, "")

    @property
    def source(self) -> str:
        """The sender, a URI reference; empty if the record has none."""
        return self.attributes.get(cloud_events.SOURCE, "")

    @property
    def causation_id(self) -> str:
        """The id of what caused it; empty if the record has none."""
        return self.attributes.get(cloud_events.CAUSATION, "")

    @property
    def name(self) -> str:
        """Of the aggregate or saga that it is about: that of its topic."""
        topic = self.record.topic
        return next((topic.removesuffix(end) for end in _KINDS if topic.endswith(end)), topic)

    @property
    def subject(self) -> str:
        """Which aggregate or saga it is about."""
        key = (self.record.key or b"").decode(errors="replace")
        return self.attributes.get(cloud_events.SUBJECT, "" if self.kind == "reply" else key)


def topics_of_patterns(log: Log) -> list[str]:
    """The topics that have names of topics of aggregates and sagas."""
    return [name for name in log.topics() if name.endswith(tuple(_KINDS))]


def find(log: Log, correlation_id: str, topics: Sequence[str], since_ms: int | None = None) -> Iterator[Traced]:
    """The records that belong to a correlation id, and the command of that id; answers that sagas get are left out.

    Args:
        log: where the topics are.
        correlation_id: of the first command, unless its sender chose another.
        topics: that are read, as far as they are written now.
        since_ms: only from this time on, milliseconds since 1970.

    Raises:
        UnknownTopicError: there is no such topic.
    """
    there = log.describe(topics)
    missing = sorted({*topics} - {*there})
    if missing:
        raise UnknownTopicError("UNKNOWN_TOPIC", f"topic {missing[0]!r} does not exist", topic=missing[0])
    partitions = [TopicPartition(name, number) for name in topics for number in range(there[name].partitions)]
    ends = log.end_offsets(partitions)
    if since_ms is None:
        starts = log.start_offsets(partitions)
    else:
        starts = log.offsets_for_time(dict.fromkeys(partitions, since_ms))
    wanted = correlation_id.encode()
    reader = log.reader()
    try:
        for partition in partitions:
            for batch in reader.fetch(partition, starts[partition], ends[partition]):
                for row, headers in enumerate(batch.headers or ()):
                    if ("ce_correlationid", wanted) in headers or ("ce_id", wanted) in headers:
                        traced = _traced(batch.record(row))
                        if traced is not None:
                            yield traced
    finally:
        reader.close()


def tree(found: Iterable[Traced]) -> list[Traced]:
    """The records as trees of causes: those whose cause is not among them, by time."""
    every = sorted(found, key=_order)
    commands: dict[str, list[Traced]] = {}
    events: dict[tuple[str, str], Traced] = {}
    for each in every:
        if each.kind == "command":
            commands.setdefault(each.id, []).append(each)
        elif each.kind == "event":
            events.setdefault((each.source, each.id), each)
    for each in every:
        cause = _cause(each, commands, events)
        if cause is not None and not _is_below(cause, each):
            each.parent = cause
            cause.children.append(each)
    return [each for each in every if each.parent is None]


def walk(roots: Iterable[Traced]) -> Iterator[tuple[Traced, int]]:
    """Every record of trees with its depth, causes before what they caused."""
    waiting = [(each, 0) for each in reversed(list(roots))]
    while waiting:
        each, depth = waiting.pop()
        yield each, depth
        waiting += [(child, depth + 1) for child in reversed(each.children)]


def _cause(traced: Traced, commands: dict[str, list[Traced]], events: dict[tuple[str, str], Traced]) -> Traced | None:
    cause = traced.causation_id
    if traced.kind == "dead letter":  # it is the command itself, which was refused
        return _first(commands.get(traced.id, ()), lambda each: each.name == traced.name)
    if traced.kind == "command" and (traced.source, cause) in events:
        return events[traced.source, cause]
    found = [each for each in commands.get(cause, ()) if each is not traced]
    if found:
        return _first(found, lambda each: each.name == traced.name) or found[0]
    saga, _, rest = cause.partition(":")
    if rest.endswith(":timer") and traced.source == f"/{saga}":
        saga_id = rest.rsplit(":", 2)[0]
        starts = [each for copies in commands.values() for each in copies]
        return _first(starts, lambda each: each.name == saga and each.subject == saga_id and each is not traced)
    return None


def _first(found: Iterable[Traced], condition: Callable[[Traced], bool]) -> Traced | None:
    return next((each for each in found if condition(each)), None)


def _is_below(traced: Traced, top: Traced) -> bool:
    """Whether one is the other, or was caused by it: headers that are made up can go round in a circle."""
    above: Traced | None = traced
    while above is not None:
        if above is top:
            return True
        above = above.parent
    return False


def _traced(record: SourceRecord) -> Traced | None:
    try:
        attributes = cloud_events.from_headers(record.headers)
    except UnicodeDecodeError:
        return None
    if attributes.get(cloud_events.TYPE) == ANSWER:
        return None
    kind: Kind = next((kind for end, kind in _KINDS.items() if record.topic.endswith(end)), "record")
    traced = Traced(kind, record.timestamp_ms, record, attributes)
    if kind == "reply":
        try:
            reply = decode_reply(record.value or b"")
        except msgspec.MsgspecError:
            return traced
        traced.status, traced.reason = reply.status, reply.reason
    if kind == "dead letter":
        reasons = [value for name, value in record.headers if name == "__streams.errors.message" and value is not None]
        traced.reason = reasons[-1].decode(errors="replace") if reasons else ""
    return traced


def _order(traced: Traced) -> tuple[int, int, str, int, int]:
    """By time; at one time commands come last, for what they caused is shown below them."""
    kinds = ("event", "reply", "dead letter", "record", "command")
    record = traced.record
    return traced.time_ms, kinds.index(traced.kind), record.topic, record.partition, record.offset
